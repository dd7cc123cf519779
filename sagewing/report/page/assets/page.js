// The page: its plots, the legend, the buttons, and printing.

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
  const about = wholeTruth() ? "" : "while the pose was hidden";
  ["position error [m]", "attitude error [°]"].forEach((name, i) => {
    new LinePanel(parent, { name, about, height, log: true, curves: curves("error", i) });
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

// Beside the paths: the errors if there is a truth, else the consistency.
function firstPanels(parent) {
  const side = element("div", { class: "stack" });
  new SpacePanel(parent, (width) => (hasTruth && !narrow() && width > 400 ? 456 : Math.min(width, 300)));
  parent.append(side);
  if (hasTruth) errorPanels(side, 202);
  else nisPanel(side, 300);
}

function heatPanels(parent) {
  const fields = ["q", "r", "d"];
  const has = (i) => fields.some((field) => array(`${i}/${field}`));
  if (![...scene.tracks.keys()].some(has)) return;
  const relative = button("relative to the start", () => {
    view.relative = !view.relative;
    relative.setAttribute("aria-pressed", view.relative);
    redraw("whole");
  }, { "aria-pressed": "false" });
  const title = element("h3");
  parent.append(element("div", { class: "heading" }, title, relative));
  const update = () => {
    const name = nameOf(view.followed);
    title.textContent = `The noise that ${name} believes in${has(view.followed) ? "" : " is constant"}`;
    relative.hidden = !has(view.followed);
  };
  drawers.push({ whole: update, cursor: () => {} });
  const say = (field, about, unit) =>
    new HeatPanel(parent, { name: field, about, unit, field });
  const units = "in the square of the channel's SI unit";
  say("q", "variance of the process noise", units);
  say("r", "variance of the measurement noise", units);
  say("d", "attenuation", "0 keeps the variance, 1 takes the newest");
}

function legend(parent) {
  const keys = [...(hasTruth ? ["truth"] : []), "measured", ...scene.tracks.keys()];
  const buttons = new Map();
  for (const key of keys) {
    const name = key === "measured" ? "measured" : key === "truth" && !wholeTruth() ? "hidden pose" : nameOf(key);
    const label = element("span", { class: "label" }, name);
    const made = button(swatch(key), () => toggle(key), { "data-key": key });
    made.append(label);
    if (typeof key === "number") {
      made.addEventListener("dblclick", () => showAlone(key));
      made.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && light(key));
      made.addEventListener("pointerleave", () => light(null));
    }
    buttons.set(key, made);
    parent.append(made);
  }
  const update = () => {
    for (const [key, made] of buttons) made.setAttribute("aria-pressed", !view.hidden.has(key));
  };
  drawers.push({ whole: update, cursor: () => {} });
}

// Followed at first: the last filter with a d.
function follow(parent) {
  const tracks = [...scene.tracks.keys()];
  view.followed = tracks.findLast((i) => array(`${i}/d`)) ?? tracks.at(-1) ?? null;
  if (view.followed === null) return;
  const about = "The filter whose 3-sigma band and noise are shown";
  const chooser = element("select", { "aria-label": about, title: about });
  for (const i of tracks) chooser.append(element("option", { value: i }, scene.tracks[i].label));
  chooser.value = view.followed;
  chooser.addEventListener("change", () => {
    view.followed = Number(chooser.value);
    redraw("whole");
  });
  const next = { one: "all", all: "none", none: "one" };
  const bands = button("", () => {
    view.bands = next[view.bands];
    redraw("whole");
  }, { title: "3-sigma bands: of one filter, of all, of none" });
  parent.append(element("label", { class: "small" }, "in detail: ", chooser), bands);
  const update = () => {
    bands.textContent = `3σ: ${view.bands}`;
    bands.setAttribute("aria-pressed", view.bands !== "none");
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
    const span = `${view.from.toFixed(2)} – ${view.to.toFixed(2)} s`;
    range.textContent = view.cursor === null ? span : `t = ${view.cursor.toFixed(3)} s`;
  };
  drawers.push({ whole: update, cursor: update });
}

// A printout is light and has no pointer. Both events come before the layout for print.
function printing(on) {
  root.classList.toggle("printing", on);
  drawNow();
}

legend(place("legend"));
follow(place("tools"));
tools(place("tools"));
firstPanels(place("first"));
posePanels(place("pose"));
if (hasTruth) nisPanel(place("rest"), 170);
heatPanels(place("heat"));
// Also when a scroll bar appears, for which the window sends no event.
new ResizeObserver(() => redraw("whole")).observe(place("bar"));
for (const kind of ["scroll", "resize"]) {
  window.addEventListener(kind, () => redraw("cursor"), { passive: true });
}
window.addEventListener("beforeprint", () => printing(true));
window.addEventListener("afterprint", () => printing(false));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw("whole"));
drawNow();
