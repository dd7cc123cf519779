// Variances and attenuations of one filter: a row for each channel, the logarithm as colour.

const HEAT_MARGIN = { left: 118, right: 62, top: 6, bottom: 20 };
const ROW = 13; // pixels
const DECADES = 8; // between the largest value and the lower end of the colour scale

class HeatPanel extends TimePanel {
  // field: "q", "r" or "d"
  constructor(parent, options) {
    super(parent, { ...options, margin: HEAT_MARGIN, height: 100, paperHeight: Infinity });
    this.options = options;
    this.field = options.field;
    this.figure = this.canvas.parentElement;
  }

  get noise() {
    return view.followed === null ? null : array(`${view.followed}/${this.field}`);
  }

  // The name and unit of each row, if they are known.
  get channels() {
    return scene.tracks[view.followed].channels[this.field] ?? [];
  }

  get relative() {
    return view.relative && this.field !== "d";
  }

  value(row, column) {
    const values = this.noise[row];
    return this.relative ? values[column] / values[0] : values[column];
  }

  drawCursor() {
    if (this.noise) super.drawCursor();
  }

  measure() {
    this.figure.hidden = !this.noise;
    if (!this.noise) return;
    this.height = HEAT_MARGIN.top + HEAT_MARGIN.bottom + ROW * this.noise.length;
    this.margin = narrow() ? { ...HEAT_MARGIN, left: 98, right: 48 } : HEAT_MARGIN;
    super.measure();
  }

  drawWhole() {
    if (!this.noise) return;
    const unit = this.relative ? "as a multiple of its first value" : this.options.unit;
    this.about.textContent = `${this.options.about}, ${unit}; logarithmic colours`;
    super.drawWhole();
  }

  draw(context, colours) {
    const [low, high] = this.extent();
    this.share = logarithmic(low, high, 0, 1);
    const { left, right, top, bottom } = this.box;
    const image = this.image();
    const whole = linear(view.first, view.last, 0, image.width);
    context.imageSmoothingEnabled = false;
    const [begin, end] = [whole(view.from), whole(view.to)];
    context.drawImage(image, begin, 0, end - begin, image.height, left, top, right - left, bottom - top);
    this.outageEdges(context, colours);
    this.channelNames(context, colours);
    this.colourBar(context, colours, low, high);
  }

  extent() {
    let low = Infinity;
    let high = 0;
    for (let row = 0; row < this.noise.length; row++) {
      for (let column = 0; column < this.noise[row].length; column++) {
        const value = this.value(row, column);
        if (!(value > 0)) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    if (!(low <= high)) return [0.1, 1];
    low = Math.max(low, high / 10 ** DECADES);
    // A scale of less than a factor of ten would exaggerate noise.
    const missing = Math.sqrt(Math.max(1, (10 * low) / high));
    return [low / missing, high * missing];
  }

  // One pixel for each column and channel; missing values are transparent.
  image() {
    const [rows, columns] = [this.noise.length, this.noise[0].length];
    const canvas = document.createElement("canvas");
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const value = this.value(row, column);
        if (Number.isNaN(value)) continue;
        image.data.set([...viridis(this.share(value)), 255], 4 * (row * columns + column));
      }
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  // Shading would change the colours: lines mark where an outage begins and ends.
  outageEdges(context, colours) {
    this.inside(context, () => {
      context.strokeStyle = colours.paper;
      context.lineWidth = 1.5;
      context.setLineDash([4, 3]);
      for (const x of scene.outages.flat().map(this.toX)) {
        line(context, x, this.box.top, x, this.box.bottom);
      }
      context.setLineDash([]);
    });
  }

  channelNames(context, colours) {
    context.fillStyle = colours.muted;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.font = FONT.replace("11px", "10px");
    this.noise.forEach((_, row) => {
      const name = this.channels[row]?.name ?? `${this.field} ${row + 1}`;
      context.fillText(name, this.box.left - 6, this.box.top + (row + 0.5) * ROW);
    });
    context.font = FONT;
  }

  colourBar(context, colours, low, high) {
    const { right, top, bottom } = this.box;
    const x = right + 10;
    const toY = logarithmic(low, high, bottom, top);
    for (let y = top; y < bottom; y++) {
      context.fillStyle = `rgb(${viridis((bottom - y) / (bottom - top)).join(" ")})`;
      context.fillRect(x, y, 10, 1.5);
    }
    context.fillStyle = colours.muted;
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const value of logTicks(low, high, (bottom - top) / 16)) {
      context.fillText(logText(value), x + 14, toY(value));
    }
  }

  // The channel under the pointer; without one, the first.
  mark() {
    const columns = this.noise[0].length;
    const share = (view.cursor - view.first) / (view.last - view.first);
    const column = Math.min(columns - 1, Math.max(0, Math.floor(share * columns)));
    const row = Math.floor(((this.pointerY ?? -1) - this.box.top) / ROW);
    if (row < 0 || row >= this.noise.length) return;
    const { name = `${row + 1}`, unit = "" } = this.channels[row] ?? {};
    const times = this.relative ? " × its start" : ` ${unit}`;
    this.values.append(`${this.field}, ${name}: ${text(this.value(row, column))}${times}`);
  }
}
