// The record as embedded in the page: JSON, with arrays of float32 in base64.

function decoded(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}

// A curve, or one curve for each row.
function shaped(packed) {
  const all = decoded(packed.data);
  if (packed.shape.length === 1) return all;
  const [rows, length] = packed.shape;
  return Array.from({ length: rows }, (_, i) => all.subarray(i * length, (i + 1) * length));
}

const scene = JSON.parse(document.getElementById("scene").textContent);
const arrays = Object.fromEntries(
  Object.entries(scene.arrays).map(([name, packed]) => [name, shaped(packed)]),
);
delete scene.arrays; // the text is large

const array = (name) => arrays[name] ?? null;
const part = (name, i) => array(name)?.[i] ?? null;

// Whether a curve has most of its values: a truth may cover no more than the hidden pose.
function mostly(values, first = 0, last = values.length) {
  let known = 0;
  for (let i = first; i < last; i++) known += Number.isFinite(values[i]) ? 1 : 0;
  return known > 0.5 * (last - first);
}

// The first index whose time is not before t.
function indexAt(times, t) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

function nearest(times, t) {
  const after = Math.min(indexAt(times, t), times.length - 1);
  return after > 0 && t - times[after - 1] < times[after] - t ? after - 1 : after;
}

// Where rows are decimated, two points of a curve share one standard deviation.
function stdAt(std, i, points) {
  return std[Math.min(std.length - 1, Math.floor((i * std.length) / points))];
}
