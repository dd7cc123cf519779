// A plot over time: its frame, its time axis, and the crosshair that all plots share.

const MARGIN = { left: 46, right: 10, top: 6, bottom: 20 };
const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

// A canvas as sharp as the screen; returns its context in CSS pixels.
function prepared(canvas, width, height) {
  const ratio = onPaper() ? 3 : Math.min(window.devicePixelRatio || 1, 3);
  const [wide, tall] = [Math.round(width * ratio), Math.round(height * ratio)];
  // Setting the size allocates new memory, even if it is the same.
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== tall) canvas.height = tall;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  Object.assign(context, { font: FONT, lineWidth: 1, lineCap: "butt", globalAlpha: 1 });
  return context;
}

const PAPER_WIDTH = 690; // CSS pixels between the margins of A4 and of Letter, nearly
// When the canvases must be drawn for paper, the page is not yet laid out for it.
function widthOf(canvas) {
  if (!onPaper()) return canvas.clientWidth;
  return canvas.closest(".two, .first") ? PAPER_WIDTH / 2 - 28 : PAPER_WIDTH - 20;
}

class TimePanel {
  // `height` in CSS pixels, at most `paperHeight` on paper; `margin` where labels need more room.
  constructor(parent, { name, about = "", height, paperHeight = 120, margin = MARGIN }) {
    this.name = name;
    this.height = height;
    this.paperHeight = paperHeight;
    this.margin = margin;
    this.values = element("output", { class: "values", "aria-live": "off" });
    this.label = element("span", { class: "name" }, name);
    this.about = element("span", { class: "about" }, about);
    const caption = element("figcaption", {}, this.label, this.values);
    if (about) this.label.after(this.about);
    this.canvas = element("canvas", { tabindex: "0", role: "img" });
    this.picture = document.createElement("canvas"); // everything but the crosshair
    parent.append(element("figure", {}, caption, this.canvas));
    drawers.push({
      canvas: this.canvas,
      measure: () => this.measure(),
      whole: () => this.drawWhole(),
      cursor: () => this.drawCursor(),
    });
    listen(this);
  }

  get box() {
    const { left, right, top, bottom } = this.margin;
    return { left, top, right: this.width - right, bottom: this.tall - bottom };
  }

  get toX() {
    return linear(view.from, view.to, this.box.left, this.box.right);
  }

  timeAt(x) {
    return linear(this.box.left, this.box.right, view.from, view.to)(x);
  }

  measure() {
    this.width = widthOf(this.canvas);
    this.tall = onPaper() ? Math.min(this.height, this.paperHeight) : this.height;
    this.canvas.style.height = `${this.tall}px`;
  }

  drawWhole() {
    this.measure();
    if (this.width <= 0) return;
    const context = prepared(this.picture, this.width, this.tall);
    const colours = theme();
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, this.width, this.tall);
    this.shade(context, colours);
    this.draw(context, colours); // the plot's own, in the classes below
    this.clockTicks(context, colours);
    const range = `${text(view.from, 4)} to ${text(view.to, 4)} s`;
    this.canvas.setAttribute("aria-label", `${this.name}, ${range}`);
    this.drawCursor();
  }

  inside(context, draw) {
    const { left, right, top, bottom } = this.box;
    context.save();
    context.beginPath();
    context.rect(left, top, right - left, bottom - top);
    context.clip();
    draw();
    context.restore();
  }

  shade(context, colours) {
    this.inside(context, () => {
      context.fillStyle = colours.shade;
      for (const [from, to] of scene.outages) {
        const x = this.toX(from);
        context.fillRect(x, this.box.top, Math.max(this.toX(to) - x, 1), this.tall);
      }
    });
  }

  clockTicks(context, colours) {
    const { left, right, bottom, top } = this.box;
    const found = ticks(view.from, view.to, (right - left) / 60);
    const step = found.length > 1 ? found[1] - found[0] : 1;
    context.fillStyle = colours.muted;
    context.strokeStyle = colours.line;
    context.textAlign = "center";
    context.textBaseline = "top";
    context.lineWidth = 1;
    context.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top - 1);
    for (const t of found) {
      const x = this.toX(t);
      if (x > right - 16 || x < left - 1) continue;
      line(context, x, bottom, x, bottom + 4);
      context.fillText(tickText(t, step), x, bottom + 6);
    }
    context.textAlign = "right";
    context.fillText("s", right, bottom + 6);
  }

  drawCursor() {
    if (!this.width) return;
    const context = prepared(this.canvas, this.width, this.tall);
    const colours = theme();
    context.drawImage(this.picture, 0, 0, this.width, this.tall);
    if (view.selection) this.drawSelection(context, colours);
    this.values.replaceChildren();
    if (view.cursor === null || onPaper()) return;
    const x = this.toX(view.cursor);
    context.strokeStyle = colours.muted;
    context.setLineDash([3, 3]);
    line(context, x, this.box.top, x, this.box.bottom);
    context.setLineDash([]);
    this.inside(context, () => this.mark(context, colours, x));
  }

  drawSelection(context, colours) {
    const [a, b] = view.selection.map(this.toX);
    this.inside(context, () => {
      context.globalAlpha = 0.18;
      context.fillStyle = colours.accent;
      context.fillRect(Math.min(a, b), this.box.top, Math.abs(b - a), this.tall);
    });
  }
}

function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}
