// What the reader looks at, the same for all plots. Whoever changes it calls one of these.

const clock = array("t");
const view = {
  first: clock[0],
  last: clock[clock.length - 1],
  from: clock[0],
  to: clock[clock.length - 1],
  cursor: null, // time under the pointer
  selection: null, // times between which the pointer is being dragged
  hidden: new Set(), // of "truth", "measured", and indices of filters
  bands: "one", // whose 3-sigma bands are drawn: of the followed filter, "all", or "none"
  lit: null, // the filter whose name the pointer is on: the others fade
  followed: null, // the filter whose band, q, r and d are shown
  relative: false, // q and r as multiples of where they started
};
const SHORTEST = 1e-3; // of the whole record, that a zoom may show
// { whole, cursor }: draw everything, or what moves with the pointer; a plot also has its `canvas`
// and `measure`, which gives it its size before it is drawn.
const drawers = [];

let waiting = null;
// Many events in one frame draw once.
function redraw(what) {
  if (waiting === null) requestAnimationFrame(drawNow);
  if (waiting !== "whole") waiting = what;
}

function drawNow() {
  const what = waiting ?? "whole";
  waiting = null;
  if (what === "whole") drawers.forEach((drawer) => drawer.measure?.());
  for (const drawer of drawers) {
    if (drawer.canvas && !onPaper() && !nearScreen(drawer.canvas)) {
      if (what === "whole") drawer.stale = true;
    } else {
      drawer[drawer.stale ? "whole" : what]();
      drawer.stale = false;
    }
  }
}

// A plot further away is drawn when it is scrolled to.
function nearScreen(canvas) {
  const { top, bottom } = canvas.parentElement.getBoundingClientRect();
  return bottom > -window.innerHeight / 2 && top < 1.5 * window.innerHeight;
}

function show(from, to) {
  const whole = view.last - view.first;
  const width = Math.min(whole, Math.max(to - from, SHORTEST * whole));
  const start = Math.min(Math.max(from, view.first), view.last - width);
  view.from = start;
  view.to = start + width;
  redraw("whole");
}

function zoom(factor, about = (view.from + view.to) / 2) {
  show(about - (about - view.from) / factor, about + (view.to - about) / factor);
}

function pan(share) {
  const step = share * (view.to - view.from);
  show(view.from + step, view.to + step);
}

function showAll() {
  show(view.first, view.last);
}

function point(t) {
  view.cursor = t === null ? null : Math.min(Math.max(t, view.from), view.to);
  redraw("cursor");
}

function select(range) {
  view.selection = range;
  redraw("cursor");
}

function toggle(key) {
  if (!view.hidden.delete(key)) view.hidden.add(key);
  redraw("whole");
}

// The truth stays: alone means without the other filters. Once more brings them back.
function showAlone(key) {
  const alone = visibleTracks().every((i) => i === key);
  for (const i of scene.tracks.keys()) {
    if (alone || i === key) view.hidden.delete(i);
    else view.hidden.add(i);
  }
  redraw("whole");
}

function light(key) {
  view.lit = key;
  redraw("whole");
}

// A filter that is switched off under the pointer lets the others shine.
const lit = () => (view.hidden.has(view.lit) ? null : view.lit);

function pathLength([xs, ys, zs]) {
  let sum = 0;
  for (let i = 1; i < xs.length; i++) {
    sum += Math.hypot(xs[i] - xs[i - 1], ys[i] - ys[i - 1], zs[i] - zs[i - 1]) || 0;
  }
  return sum;
}

// The restless are drawn first: they would hide the others. Before them, what is no filter of ours.
const restless = scene.tracks.map((_, i) => pathLength(array(`${i}/path`)));
const ours = (i) => array(`${i}/nis`) !== null;
const drawOrder = [...scene.tracks.keys()].sort(
  (a, b) => ours(a) - ours(b) || restless[b] - restless[a],
);
const RESTLESS = 2; // so many times as long as the calmest path: drawn paler
// How much of its colour a curve has, the rest being paper.
function strength(key) {
  if (key === "truth" || lit() === key) return 1;
  if (lit() !== null) return 0.15;
  return restless[key] > RESTLESS * Math.min(...restless) ? 0.65 : 1;
}

function visibleTracks() {
  const shown = drawOrder.filter((i) => !view.hidden.has(i));
  const looked = lit() ?? view.followed; // a stable sort: the one that is looked at comes last
  return shown.sort((a, b) => (a === looked) - (b === looked));
}
