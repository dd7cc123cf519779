// Colours from the style sheet: light, dark, or for print.

const root = document.documentElement;
const onPaper = () => root.classList.contains("printing");

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
    outage: colour("outage"),
    dots: colour("dots"),
    accent: colour("accent"),
    of: (key) => pairOf(key)[dark ? 1 : 0],
    // Opaque: two curves over each other must not make the colour of a third.
    pale: (key) => mixed(pairOf(key)[dark ? 1 : 0], colour("paper"), strength(key)),
  };
}

const pairOf = (key) => (key === "truth" ? scene.truth : scene.tracks[key]).colour;

function mixed(colour, paper, share) {
  const part = (hex, k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
  const parts = [0, 1, 2].map((k) => Math.round(share * part(colour, k) + (1 - share) * part(paper, k)));
  return `rgb(${parts.join(" ")})`;
}

// Viridis, perceptually uniform also for colour-blind readers (matplotlib; CC0).
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
  const [onPaper, onDark] = pairOf(key);
  return element("i", { class: "swatch", style: `--light-colour:${onPaper};--dark-colour:${onDark}` });
}
