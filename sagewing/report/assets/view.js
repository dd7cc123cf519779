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
  bands: true,
  chosen: null, // whose q, r and d are shown
  relative: false, // q and r as multiples of where they started
};
const SHORTEST = 1e-3; // of the whole record, that a zoom may show
const drawers = []; // { whole, cursor }: functions that draw everything, or what moves with the pointer

let waiting = null;
// Many events in one frame draw once.
function redraw(what) {
  if (waiting === null) requestAnimationFrame(drawNow);
  if (waiting !== "whole") waiting = what;
}

function drawNow() {
  const what = waiting ?? "whole";
  waiting = null;
  for (const drawer of drawers) drawer[what]();
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

// The truth stays: alone means without the other filters.
function showAlone(key) {
  scene.tracks.forEach((_, i) => (i === key ? view.hidden.delete(i) : view.hidden.add(i)));
  redraw("whole");
}

const visibleTracks = () => scene.tracks.map((_, i) => i).filter((i) => !view.hidden.has(i));
