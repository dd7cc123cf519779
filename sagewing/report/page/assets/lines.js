// Curves over time with their 3-sigma bands, measurements as dots.

const SIGMAS = 3;
const HALF_TURN = 180; // degrees: a longer step is a wrapped angle, not a motion

class LinePanel extends TimePanel {
  // curves: [{ key, values, std }]; dots: values; band: { low, high }; log: a logarithmic axis;
  // least: the smallest range shown; angle: the curves wrap; goal: the value of a horizontal line.
  constructor(parent, options) {
    super(parent, options);
    this.options = options;
  }

  get curves() {
    return this.options.curves.filter((curve) => !view.hidden.has(curve.key));
  }

  get rows() {
    const first = Math.max(indexAt(clock, view.from) - 1, 0);
    return [first, Math.min(indexAt(clock, view.to) + 1, clock.length)];
  }

  draw(context, colours) {
    const { log, band, goal } = this.options;
    const [low, high] = log ? this.logRange() : this.range();
    const { top, bottom } = this.box;
    this.toY = (log ? logarithmic : linear)(low, high, bottom, top);
    this.valueTicks(context, colours, low, high);
    this.inside(context, () => {
      if (band) this.fill(context, colours.muted, 0.2, band.low, band.high);
      if (goal !== undefined) this.goal(context, colours, goal);
      if (this.options.dots && !view.hidden.has("measured")) this.dots(context, colours);
      const ordered = ["truth", ...visibleTracks()].map((key) => this.curves.find((c) => c.key === key));
      const shown = ordered.filter(Boolean);
      shown.filter(banded).forEach((curve) => this.bandOf(context, colours, curve));
      shown.forEach((curve) => this.curve(context, colours, curve));
    });
  }

  // The range holds the truth, else most of the estimates: a diverged filter may leave the plot.
  range() {
    const truth = this.options.curves.find((curve) => curve.key === "truth");
    const whole = truth && mostly(truth.values, ...this.rows);
    const base = joined(truth && extent([truth], this.rows), whole ? null : this.most());
    if (!base) return [-1, 1];
    const around = Math.max(base[1] - base[0], this.options.least);
    const said = extent(this.curves, this.rows) ?? base;
    let low = Math.max(Math.min(said[0], base[0]), base[0] - 0.7 * around);
    let high = Math.min(Math.max(said[1], base[1]), base[1] + 0.7 * around);
    const missing = Math.max(0, this.options.least - (high - low)) / 2;
    const margin = 0.04 * (high - low) + missing;
    return [low - margin, high + margin];
  }

  most() {
    const [first, last] = this.rows;
    const said = this.curves.flatMap((c) => [...c.values.subarray(first, last)].filter(Number.isFinite));
    return quantiles(said, 0.02);
  }

  logRange() {
    const [first, last] = this.rows;
    const shown = this.curves.map((curve) => curve.values);
    if (this.options.band) shown.push(this.options.band.low, this.options.band.high);
    const said = shown.flatMap((v) => [...v.subarray(first, last)].filter((value) => value > 0));
    if (!said.length) return [0.1, 10];
    const low = quantiles(said, 0.01)[0];
    const high = said.reduce((a, b) => Math.max(a, b), low);
    return [low / 1.3, Math.max(high * 1.3, low * 2)];
  }

  valueTicks(context, colours, low, high) {
    const { left, right, top, bottom } = this.box;
    const most = (bottom - top) / 28;
    const found = this.options.log ? logTicks(low, high, most) : ticks(low, high, most);
    const step = found.length > 1 ? found[1] - found[0] : 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = colours.muted;
    context.strokeStyle = colours.grid;
    context.lineWidth = 1;
    if (this.options.log) this.minorLines(context, low, high);
    for (const value of found) {
      const y = Math.round(this.toY(value)) + 0.5;
      line(context, left, y, right, y);
      context.fillText(this.options.log ? logText(value) : tickText(value, step), left - 6, y);
    }
  }

  // A logarithmic axis is recognised by its minor grid lines.
  minorLines(context, low, high) {
    context.globalAlpha = 0.6;
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (let m = 2; m < 10; m++) {
        const y = this.toY(m * 10 ** power);
        if (y > this.box.top && y < this.box.bottom) line(context, this.box.left, y, this.box.right, y);
      }
    }
    context.globalAlpha = 1;
  }

  goal(context, colours, value) {
    context.strokeStyle = colours.muted;
    context.setLineDash([6, 4]);
    line(context, this.box.left, this.toY(value), this.box.right, this.toY(value));
    context.setLineDash([]);
  }

  dots(context, colours) {
    const [first, last] = this.rows;
    const size = last - first > 800 ? 1.4 : 2.4;
    const toX = this.toX;
    context.fillStyle = colours.dots;
    for (let i = first; i < last; i++) {
      const value = this.options.dots[i];
      if (Number.isNaN(value)) continue;
      context.fillRect(toX(clock[i]) - size / 2, this.toY(value) - size / 2, size, size);
    }
  }

  // Calls `draw` for every run of points without a gap.
  runs(values, draw) {
    const [first, last] = this.rows;
    let begin = first;
    const gap = (i) =>
      Number.isNaN(values[i]) ||
      (this.options.angle && i > begin && Math.abs(values[i] - values[i - 1]) > HALF_TURN);
    for (let i = first; i <= last; i++) {
      if (i < last && !gap(i)) continue;
      if (i > begin) draw(begin, i);
      begin = i < last && Number.isNaN(values[i]) ? i + 1 : i;
    }
  }

  curve(context, colours, { key, values }) {
    const truth = key === "truth";
    context.strokeStyle = colours.pale(key);
    context.globalAlpha = truth ? 0.5 : 1;
    context.lineWidth = truth ? 3.5 : strength(key) < 1 ? 0.9 : 1.2;
    context.lineJoin = "round";
    context.beginPath();
    const toX = this.toX;
    this.runs(values, (begin, end) => {
      context.moveTo(toX(clock[begin]), this.toY(values[begin]));
      for (let i = begin; i < end; i++) context.lineTo(toX(clock[i]), this.toY(values[i]));
      if (end === begin + 1) context.lineTo(toX(clock[begin]) + 1, this.toY(values[begin]));
    });
    context.stroke();
    context.globalAlpha = 1;
  }

  bandOf(context, colours, { key, values, std }) {
    const away = (sign) => values.map((v, i) => v + sign * SIGMAS * stdAt(std, i, values.length));
    this.fill(context, colours.of(key), view.bands === "all" ? 0.09 : 0.2, away(-1), away(1));
  }

  fill(context, colour, alpha, low, high) {
    const toX = this.toX;
    context.fillStyle = colour;
    context.globalAlpha = alpha;
    this.runs(low, (begin, end) => {
      context.beginPath();
      for (let i = begin; i < end; i++) context.lineTo(toX(clock[i]), this.toY(low[i]));
      for (let i = end - 1; i >= begin; i--) context.lineTo(toX(clock[i]), this.toY(high[i]));
      context.fill();
    });
    context.globalAlpha = 1;
  }

  // A mark on every curve at the crosshair, and its value above the plot.
  mark(context, colours, x) {
    const i = nearest(clock, view.cursor);
    for (const { key, values, std } of this.curves) {
      if (Number.isNaN(values[i])) continue;
      context.fillStyle = colours.of(key);
      context.beginPath();
      context.arc(x, this.toY(values[i]), 3, 0, 2 * Math.PI);
      context.fill();
      const spread = std ? ` ± ${text(SIGMAS * stdAt(std, i, values.length), 2)}` : "";
      const said = element("span", {}, swatch(key), text(values[i]));
      said.title = `${nameOf(key)}: ${text(values[i], 4)}${spread}`;
      this.values.append(said);
    }
  }
}

const nameOf = (key) => (key === "truth" ? "truth" : scene.tracks[key].label);

// Many overlapping bands are unreadable: one at a time, unless all are chosen.
function banded({ key, std }) {
  if (!std || view.bands === "none") return false;
  return view.bands === "all" || key === (lit() ?? view.followed);
}

// A range that holds both.
function joined(a, b) {
  return a && b ? [Math.min(a[0], b[0]), Math.max(a[1], b[1])] : a || b;
}

// The smallest and the largest value of curves between two rows, with the bands that are drawn.
function extent(curves, [first, last]) {
  let low = Infinity;
  let high = -Infinity;
  for (const curve of curves) {
    const { values } = curve;
    const std = banded(curve) ? curve.std : null;
    for (let i = first; i < last; i++) {
      const value = values[i];
      if (Number.isNaN(value)) continue;
      const spread = (std && SIGMAS * stdAt(std, i, values.length)) || 0;
      if (value - spread < low) low = value - spread;
      if (value + spread > high) high = value + spread;
    }
  }
  return low <= high ? [low, high] : null;
}
