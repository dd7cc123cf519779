// The page: which plots there are, the legend, the buttons, and paper.

const AXES = ["x", "y", "z"];
const TURNS = ["roll", "pitch", "yaw"];
const place = (id) => document.getElementById(id);
const narrow = () => window.innerWidth <= 760;
const hasTruth = array("truth/position") !== null;

function button(label, act, attributes = {}) {
  const made = element("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", act);
  return made;
}

// The same quantity of every filter that has it, after the truth.
function curves(field, i) {
  const of = (key) => ({ key, values: part(`${key}/${field}`, i), std: part(`${key}/${field}_std`, i) });
  const keys = [...(hasTruth ? ["truth"] : []), ...scene.tracks.keys()];
  return keys.map(of).filter((curve) => curve.values);
}

function posePanels(parent) {
  const dots = (field, i) => part(`measured/${field}`, i);
  AXES.forEach((axis, i) => {
    const options = { name: `${axis} [m]`, height: 150, least: 0.2 };
    new LinePanel(parent, { ...options, curves: curves("position", i), dots: dots("position", i) });
  });
  TURNS.forEach((turn, i) => {
    const options = { name: `${turn} [°]`, height: 150, least: 5, angle: true };
    new LinePanel(parent, { ...options, curves: curves("angles", i), dots: dots("angles", i) });
  });
}

function errorPanels(parent, height) {
  ["position error [m]", "attitude error [°]"].forEach((name, i) => {
    new LinePanel(parent, { name, height, log: true, curves: curves("error", i) });
  });
}

function nisPanel(parent, height) {
  const said = scene.tracks.map((_, key) => ({ key, values: array(`${key}/nis`) }));
  const found = said.filter((curve) => curve.values);
  if (!found.length) return;
  new LinePanel(parent, {
    name: "NIS per degree of freedom",
    about: `mean over ${scene.nis_window_s} s; grey: 95% of a consistent filter's`,
    height,
    log: true,
    goal: 1,
    curves: found,
    band: { low: array("nis/low"), high: array("nis/high") },
  });
}

// With a truth the errors stand beside the paths, without one the consistency does.
function firstPanels(parent) {
  const side = element("div", { class: "stack" });
  new SpacePanel(parent, (width) => (narrow() ? Math.min(width, 340) : hasTruth ? 446 : 300));
  parent.append(side);
  if (hasTruth) errorPanels(side, 190);
  else nisPanel(side, 300);
}

function heatPanels(parent) {
  const has = (i) => ["q", "r", "d"].some((field) => array(`${i}/${field}`));
  const able = [...scene.tracks.keys()].filter(has);
  if (!able.length) return;
  // The one that adapts most is the one to look at: the last with a d.
  view.chosen = able.findLast((i) => array(`${i}/d`)) ?? able[0];
  const chooser = element("select", { "aria-label": "Filter whose noise is shown" });
  for (const i of able) chooser.append(element("option", { value: i }, scene.tracks[i].label));
  chooser.value = view.chosen;
  chooser.addEventListener("change", () => {
    view.chosen = Number(chooser.value);
    redraw("whole");
  });
  const relative = button("relative to the start", () => {
    view.relative = !view.relative;
    relative.setAttribute("aria-pressed", view.relative);
    redraw("whole");
  }, { "aria-pressed": "false" });
  parent.append(
    element("div", { class: "heading" }, element("h3", {}, "Noise as the filter holds it:"), chooser, relative),
  );
  const say = (field, about) =>
    new HeatPanel(parent, { name: field, about, field, channels: scene.channels[field] });
  say("q", "variance of the process noise, SI units, logarithmic");
  say("r", "variance of the measurement noise, SI units, logarithmic");
  say("d", "attenuation: 0 keeps the variance, 1 takes the newest; logarithmic");
}

function legend(parent) {
  const keys = [...(hasTruth ? ["truth"] : []), "measured", ...scene.tracks.keys()];
  const buttons = new Map();
  for (const key of keys) {
    const name = key === "measured" ? "measured" : nameOf(key);
    const label = element("span", { class: "label" }, name);
    const made = button(swatch(key), () => toggle(key), { "data-key": key });
    made.append(label);
    if (typeof key === "number") made.addEventListener("dblclick", () => showAlone(key));
    buttons.set(key, made);
    parent.append(made);
  }
  const bands = button("3σ bands", () => {
    view.bands = !view.bands;
    redraw("whole");
  });
  parent.append(bands);
  const update = () => {
    for (const [key, made] of buttons) made.setAttribute("aria-pressed", !view.hidden.has(key));
    bands.setAttribute("aria-pressed", view.bands);
  };
  drawers.push({ whole: update, cursor: () => {} });
}

function tools(parent) {
  const range = element("output", { id: "range", "aria-live": "off" });
  parent.append(
    range,
    button("◀", () => pan(-0.3), { "aria-label": "Earlier", title: "earlier" }),
    button("−", () => zoom(1 / 1.6), { "aria-label": "Zoom out", title: "zoom out" }),
    button("+", () => zoom(1.6), { "aria-label": "Zoom in", title: "zoom in" }),
    button("▶", () => pan(0.3), { "aria-label": "Later", title: "later" }),
    button("all", showAll, { "aria-label": "Show all seconds", title: "show all seconds" }),
  );
  const update = () => {
    const span = `${text(view.from, 4)} – ${text(view.to, 4)} s`;
    range.textContent = view.cursor === null ? span : `t = ${text(view.cursor, 5)} s`;
  };
  drawers.push({ whole: update, cursor: update });
}

// Paper is light and has no pointer. Both events come before the layout for paper does.
function printing(on) {
  root.classList.toggle("printing", on);
  drawNow();
}

legend(place("legend"));
tools(place("tools"));
firstPanels(place("first"));
posePanels(place("pose"));
if (hasTruth) nisPanel(place("rest"), 170);
heatPanels(place("heat"));
window.addEventListener("resize", () => redraw("whole"));
window.addEventListener("beforeprint", () => printing(true));
window.addEventListener("afterprint", () => printing(false));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw("whole"));
drawNow();
