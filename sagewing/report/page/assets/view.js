// The state of the view, shared by all plots, and the functions that change it.

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
// Several events in one frame draw once.
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

// The truth stays shown: alone means without the other filters. A second time shows them again.
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

// A filter that is hidden while the pointer is on its name no longer fades the others.
const lit = () => (view.hidden.has(view.lit) ? null : view.lit);

function pathLength([xs, ys, zs]) {
  let sum = 0;
  for (let i = 1; i < xs.length; i++) {
    sum += Math.hypot(xs[i] - xs[i - 1], ys[i] - ys[i - 1], zs[i] - zs[i - 1]) || 0;
  }
  return sum;
}

// Noisy paths are drawn first, since they would hide the others; before them, references.
const pathLengths = scene.tracks.map((_, i) => pathLength(array(`${i}/path`)));
const ours = (i) => array(`${i}/nis`) !== null;
const drawOrder = [...scene.tracks.keys()].sort(
  (a, b) => ours(a) - ours(b) || pathLengths[b] - pathLengths[a],
);
const NOISY = 2; // times the length of the shortest path: a longer one is drawn paler
// The opacity of a curve.
function strength(key) {
  if (key === "truth" || lit() === key) return 1;
  if (lit() !== null) return 0.15;
  return pathLengths[key] > NOISY * Math.min(...pathLengths) ? 0.65 : 1;
}

function visibleTracks() {
  const shown = drawOrder.filter((i) => !view.hidden.has(i));
  const followed = lit() ?? view.followed; // a stable sort: the followed filter comes last
  return shown.sort((a, b) => (a === followed) - (b === followed));
}
