// Mouse, touch, wheel and keys on a plot over time.

const LEAST_DRAG = 5; // pixels: less is a click

function listen(panel) {
  const { canvas } = panel;
  const fingers = new Map();
  let drag = null;

  const place = (event) => event.clientX - canvas.getBoundingClientRect().left;
  const time = (event) => panel.timeAt(place(event));

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    if (event.pointerType === "touch") {
      fingers.set(event.pointerId, place(event));
      point(time(event));
      if (fingers.size === 1) drag = { kind: "pan", x: place(event), from: view.from, to: view.to };
    } else if (event.button === 0) {
      const kind = event.shiftKey ? "pan" : "zoom";
      drag = { kind, x: place(event), t: time(event), from: view.from, to: view.to };
    }
  });

  canvas.addEventListener("pointermove", (event) => {
    panel.pointerY = event.clientY - canvas.getBoundingClientRect().top;
    if (fingers.size === 2) return pinch(event);
    if (drag?.kind === "zoom") select([drag.t, time(event)]);
    if (drag?.kind === "pan") slide(event);
    point(time(event));
  });

  // The seconds under the finger stay under it.
  function slide(event) {
    const { left, right } = panel.box;
    const moved = ((place(event) - drag.x) / (right - left)) * (drag.to - drag.from);
    show(drag.from - moved, drag.to - moved);
  }

  function pinch(event) {
    const before = [...fingers.values()];
    const times = before.map((x) => panel.timeAt(x));
    fingers.set(event.pointerId, place(event));
    const after = [...fingers.values()];
    if (Math.abs(after[1] - after[0]) < 10 || before[0] === before[1]) return;
    const seconds = (times[1] - times[0]) / (after[1] - after[0]);
    const from = times[0] - (after[0] - panel.box.left) * seconds;
    drag = null;
    view.cursor = null;
    show(from, from + (panel.box.right - panel.box.left) * seconds);
  }

  function end(event) {
    fingers.delete(event.pointerId);
    if (drag?.kind === "zoom") {
      const range = [drag.t, time(event)].sort((a, b) => a - b);
      const moved = Math.abs(place(event) - drag.x) > LEAST_DRAG;
      select(null);
      if (moved && event.type === "pointerup") show(...range);
    }
    drag = null;
  }

  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  // After the finger is lifted, the values stay shown.
  canvas.addEventListener("pointerleave", (event) => {
    if (!drag && event.pointerType !== "touch") point(null);
  });
  canvas.addEventListener("dblclick", showAll);
  // A plain wheel scrolls the page.
  canvas.addEventListener(
    "wheel",
    (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!event.ctrlKey && !event.altKey && !sideways && !event.shiftKey) return;
      event.preventDefault();
      if (event.ctrlKey || event.altKey) zoom(Math.exp(-0.005 * event.deltaY), time(event));
      else pan(0.001 * (event.deltaX || event.deltaY));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
}

const KEYS = {
  ArrowLeft: () => pan(-0.2),
  ArrowRight: () => pan(0.2),
  "+": () => zoom(1.6),
  "=": () => zoom(1.6),
  "-": () => zoom(1 / 1.6),
  0: showAll,
  Escape: showAll,
};
