// Colours, which the style sheet decides: light, dark, or for paper.

const root = document.documentElement;

function theme() {
  const style = getComputedStyle(root);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const dark = colour("dark") === "1";
  return {
    ink: colour("ink"),
    muted: colour("muted"),
    line: colour("line"),
    grid: colour("grid"),
    paper: colour("paper"),
    shade: colour("shade"),
    dots: colour("dots"),
    accent: colour("accent"),
    of: (key) => (key === "truth" ? scene.truth : scene.tracks[key]).colour[dark ? 1 : 0],
  };
}

// Viridis, which is even to the eye and to the colour-blind (matplotlib; CC0).
const VIRIDIS = [
  [68, 1, 84], [71, 45, 123], [59, 82, 139], [44, 114, 142], [33, 145, 140],
  [40, 174, 128], [94, 201, 98], [173, 220, 48], [253, 231, 37],
];

function viridis(share) {
  const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const i = Math.min(Math.floor(place), VIRIDIS.length - 2);
  return VIRIDIS[i].map((low, k) => Math.round(low + (place - i) * (VIRIDIS[i + 1][k] - low)));
}

function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function swatch(key) {
  if (key === "measured") return element("i", { class: "swatch points" });
  const [light, dark] = (key === "truth" ? scene.truth : scene.tracks[key]).colour;
  return element("i", { class: "swatch", style: `--light-colour:${light};--dark-colour:${dark}` });
}
