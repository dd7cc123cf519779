// The paths in space: an orthographic view that turns about the vertical.

const HOME = { azimuth: -0.9, elevation: 0.5, zoom: 1 };
const VIEWS = {
  top: { azimuth: -Math.PI / 2, elevation: Math.PI / 2, zoom: 1 },
  side: { azimuth: -Math.PI / 2, elevation: 0, zoom: 1 },
  reset: HOME,
};
const pathClock = array("path/t");
const BEYOND = 0.2; // of the box: how far outside it a path is drawn

const wholeTruth = () => array("truth/path") !== null && mostly(part("truth/path", 0));

// The box that the view holds: the truth, else most of the estimates.
function bounds() {
  const along = (keys, axis, share) =>
    quantiles(keys.flatMap((key) => [...(part(`${key}/path`, axis) ?? [])].filter(Number.isFinite)), share);
  const filters = wholeTruth() ? [] : scene.tracks.map((_, i) => i);
  const spans = [0, 1, 2].map(
    (axis) => joined(along(["truth"], axis, 0), along(filters, axis, 0.02)) ?? [-1, 1],
  );
  const widest = Math.max(...spans.map(([low, high]) => high - low), 0.2);
  return spans.map(([low, high]) => {
    const padding = 0.06 * widest + Math.max(0, 0.3 * widest - (high - low)) / 2;
    return [low - padding, high + padding];
  });
}

class SpacePanel {
  constructor(parent, height) {
    this.camera = { ...HOME };
    this.bounds = bounds();
    this.height = height;
    this.canvas = element("canvas", { class: "space", tabindex: "0", role: "img" });
    this.canvas.setAttribute("aria-label", "Paths in space; arrow keys turn, + and − zoom");
    const caption = element("figcaption", {}, element("span", { class: "name" }, "Paths in space [m]"));
    const buttons = element("span", { class: "values screen" });
    for (const [name, camera] of Object.entries(VIEWS)) {
      buttons.append(button(name, () => this.look(camera)), " ");
    }
    caption.append(buttons);
    parent.append(element("figure", {}, caption, this.canvas));
    drawers.push({
      canvas: this.canvas,
      measure: () => this.measure(),
      whole: () => this.draw(),
      cursor: () => this.draw(),
    });
    this.listen();
  }

  look(camera) {
    Object.assign(this.camera, camera);
    this.camera.elevation = Math.min(Math.max(this.camera.elevation, -0.2), Math.PI / 2);
    this.camera.zoom = Math.min(Math.max(this.camera.zoom, 0.3), 30);
    this.draw();
  }

  turn(right, up) {
    this.look({ azimuth: this.camera.azimuth - right, elevation: this.camera.elevation + up });
  }

  // From metres to pixels.
  projection() {
    const { azimuth, elevation, zoom } = this.camera;
    const [ca, sa] = [Math.cos(azimuth), Math.sin(azimuth)];
    const [ce, se] = [Math.cos(elevation), Math.sin(elevation)];
    const middle = this.bounds.map(([low, high]) => (low + high) / 2);
    const size = Math.hypot(...this.bounds.map(([low, high]) => high - low));
    const scale = (0.88 * zoom * Math.min(this.width, 1.4 * this.tall)) / size;
    return (x, y, z) => {
      const [a, b, c] = [x - middle[0], y - middle[1], z - middle[2]];
      const right = -sa * a + ca * b;
      const up = -se * ca * a - se * sa * b + ce * c;
      return [this.width / 2 + scale * right, this.tall / 2 - scale * up];
    };
  }

  measure() {
    this.width = widthOf(this.canvas);
    this.tall = this.height(this.width);
    this.canvas.style.height = `${this.tall}px`;
  }

  draw() {
    this.measure();
    if (this.width <= 0) return;
    const context = prepared(this.canvas, this.width, this.tall);
    const colours = theme();
    const project = this.projection();
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, this.width, this.tall);
    this.floor(context, colours, project);
    this.upright(context, colours, project);
    const truth = array("truth/path");
    const ground = wholeTruth() ? truth : array(`${view.followed}/path`);
    if (ground) this.shadow(context, colours, project, ground);
    for (const i of visibleTracks()) {
      const style = { colour: colours.pale(i), width: strength(i) < 1 ? 0.8 : 1.3, alpha: 1 };
      this.path(context, project, array(`${i}/path`), style);
    }
    if (truth && !view.hidden.has("truth")) {
      this.outages(context, colours, project, truth);
      this.path(context, project, truth, { colour: colours.of("truth"), width: 2, alpha: 0.8 });
    }
    if (view.cursor !== null && !onPaper()) this.here(context, colours, project);
  }

  floor(context, colours, project) {
    const [[x0, x1], [y0, y1], [z0]] = this.bounds;
    const { azimuth } = this.camera;
    const edgeX = Math.cos(azimuth) > 0 ? x1 : x0; // the numbers are at the front edges
    const edgeY = Math.sin(azimuth) > 0 ? y1 : y0;
    const step = (values) => (values.length > 1 ? values[1] - values[0] : 1);
    const along = (name, values, from, to, label) => {
      for (const value of values) {
        context.strokeStyle = colours.line;
        line(context, ...project(...from(value)), ...project(...to(value)));
        this.outside(context, colours, project, tickText(value, step(values)), label(value));
      }
      const middle = values[Math.floor(values.length / 2)] + step(values) / 2;
      this.outside(context, colours, project, name, label(middle), 30);
    };
    const most = this.width < 480 ? 4 : 6;
    along("x", ticks(x0, x1, most), (x) => [x, y0, z0], (x) => [x, y1, z0], (x) => [x, edgeY, z0]);
    along("y", ticks(y0, y1, most), (y) => [x0, y, z0], (y) => [x1, y, z0], (y) => [edgeX, y, z0]);
  }

  // A label beside an edge of the floor, away from the middle.
  outside(context, colours, project, label, place, distance = 14) {
    const [[x0, x1], [y0, y1], [z0]] = this.bounds;
    const [mx, my] = project((x0 + x1) / 2, (y0 + y1) / 2, z0);
    const [x, y] = project(...place);
    const length = Math.hypot(x - mx, y - my) || 1;
    context.fillStyle = colours.muted;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(label, x + (distance * (x - mx)) / length, y + (distance * (y - my)) / length);
  }

  // Heights, at the corner of the floor that is furthest left.
  upright(context, colours, project) {
    if (this.camera.elevation > 1.4) return;
    const [[x0, x1], [y0, y1], [z0, z1]] = this.bounds;
    const corners = [[x0, y0], [x0, y1], [x1, y0], [x1, y1]];
    const [x, y] = corners.reduce((a, b) => (project(...b, z0)[0] < project(...a, z0)[0] ? b : a));
    const values = ticks(z0, z1, 4);
    context.strokeStyle = colours.line;
    line(context, ...project(x, y, z0), ...project(x, y, z1));
    context.fillStyle = colours.muted;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const z of values) {
      const [px, py] = project(x, y, z);
      line(context, px - 4, py, px, py);
      context.fillText(tickText(z, values.length > 1 ? values[1] - values[0] : 1), px - 7, py);
    }
    const [px, py] = project(x, y, z1);
    context.fillText("z", px - 7, py - 12);
  }

  // The path projected on the ground, which shows the depth.
  shadow(context, colours, project, [xs, ys]) {
    const ground = new Float32Array(xs.length).fill(this.bounds[2][0]);
    this.path(context, project, [xs, ys, ground], { colour: colours.muted, width: 2, alpha: 0.18 });
  }

  // Faint outside the seconds that the other plots show; broken where a filter is far away.
  path(context, project, [xs, ys, zs], { colour, width, alpha }) {
    const far = this.bounds.map(([low, high]) => {
      const beyond = BEYOND * (high - low);
      return [low - beyond, high + beyond];
    });
    const near = (value, axis) => value >= far[axis][0] && value <= far[axis][1];
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.lineJoin = "round";
    for (const within of [false, true]) {
      context.globalAlpha = within ? alpha : 0.2 * alpha;
      context.beginPath();
      let open = false;
      for (let i = 0; i < xs.length; i++) {
        const shown = (pathClock[i] >= view.from && pathClock[i] <= view.to) === within;
        const there = near(xs[i], 0) && near(ys[i], 1) && near(zs[i], 2);
        if (shown && there) context[open ? "lineTo" : "moveTo"](...project(xs[i], ys[i], zs[i]));
        open = shown && there;
      }
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  // The truth, where the pose was missing, in the colour of the shading.
  outages(context, colours, project, [xs, ys, zs]) {
    context.strokeStyle = colours.outage;
    context.lineWidth = 9;
    context.lineCap = "round";
    for (const [from, to] of scene.outages) {
      context.beginPath();
      for (let i = indexAt(pathClock, from); i < indexAt(pathClock, to); i++) {
        context.lineTo(...project(xs[i], ys[i], zs[i]));
      }
      context.stroke();
    }
    context.lineCap = "butt";
  }

  here(context, colours, project) {
    const i = nearest(pathClock, view.cursor);
    const shown = array("truth/path") && !view.hidden.has("truth") ? ["truth"] : [];
    for (const key of [...shown, ...visibleTracks()]) {
      const place = [0, 1, 2].map((axis) => part(`${key}/path`, axis)[i]);
      if (place.some(Number.isNaN)) continue;
      context.fillStyle = colours.of(key);
      context.strokeStyle = colours.paper;
      context.beginPath();
      context.arc(...project(...place), 4.5, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
    }
  }

  // One finger turns and lets the page scroll; two zoom and tilt.
  listen() {
    const { canvas } = this;
    const held = new Map();
    const at = (event) => [event.clientX, event.clientY];
    const apart = () => {
      const [a, b] = [...held.values()];
      return Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      held.set(event.pointerId, at(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId);
      if (!before) return;
      const wide = held.size === 2 ? apart() : 1;
      held.set(event.pointerId, at(event));
      const [dx, dy] = [event.clientX - before[0], event.clientY - before[1]];
      if (held.size === 2) this.look({ zoom: (this.camera.zoom * apart()) / wide });
      this.turn(held.size === 2 ? 0 : 0.01 * dx, (held.size === 2 ? 0.005 : 0.01) * dy);
    });
    for (const kind of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(kind, (event) => held.delete(event.pointerId));
    }
    canvas.addEventListener("dblclick", () => this.look(HOME));
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.look({ zoom: this.camera.zoom * Math.exp(-0.0015 * event.deltaY) });
      },
      { passive: false },
    );
    const keys = {
      ArrowLeft: () => this.turn(-0.15, 0),
      ArrowRight: () => this.turn(0.15, 0),
      ArrowUp: () => this.turn(0, 0.12),
      ArrowDown: () => this.turn(0, -0.12),
      "+": () => this.look({ zoom: 1.25 * this.camera.zoom }),
      "-": () => this.look({ zoom: this.camera.zoom / 1.25 }),
      0: () => this.look(HOME),
    };
    canvas.addEventListener("keydown", (event) => {
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
  }
}
