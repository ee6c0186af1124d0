/** The loss of a run on a logarithmic axis: training, validation, the kept checkpoints, and where one is looking. */

import { svg, fill, digits } from "../core/dom.js";
import { ideaColour, paint } from "../core/colour.js";

const HEIGHT = 250;
const WIDTHS = [280, 900]; // the least and the most; letters keep their size in between
const ROOM = { left: 46, right: 14, top: 14, bottom: 34 };

/** A curve in root; show(progress, at) as often as needed, onpick(step) when a checkpoint is clicked. */
export class LossCurve {
  constructor(root, { onpick = (_step) => {} } = {}) {
    this.onpick = onpick;
    this.width = 640;
    this.drawing = svg("svg", {
      class: "curve",
      role: "img",
      "font-family": "system-ui, sans-serif",
      "font-size": 12,
    });
    root.append(this.drawing);
    new ResizeObserver(() => this.fit(root.clientWidth)).observe(root);
    paint(this.drawing, () => this.progress && this.draw());
  }

  fit(room) {
    const width = Math.max(WIDTHS[0], Math.min(WIDTHS[1], room));
    if (!room || Math.abs(width - this.width) < 1) return;
    this.width = width;
    if (this.progress) this.draw();
  }

  show(progress, at) {
    this.progress = progress;
    this.at = at;
    this.draw();
  }

  /** Every point: step, loss, and validation where there was one. */
  table() {
    const validated = new Map(this.progress.validations.map(({ step, loss }) => [step, loss]));
    const trained = new Map(this.progress.steps.map(({ step, loss }) => [step, loss]));
    const steps = [...new Set([...trained.keys(), ...validated.keys()])].sort((a, b) => a - b);
    return {
      columns: ["step", "training loss", "validation loss"],
      rows: steps.map((step) => [step, trained.get(step) ?? "", validated.get(step) ?? ""]),
    };
  }

  /** A copy for a file. */
  svg() {
    const copy = this.drawing.cloneNode(true);
    const size = { width: this.width, height: HEIGHT };
    const settings = { ...size, xmlns: "http://www.w3.org/2000/svg" };
    for (const [name, value] of Object.entries(settings)) copy.setAttribute(name, value);
    copy.prepend(svg("rect", { ...size, fill: ideaColour("card") }));
    return copy;
  }

  draw() {
    this.drawing.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    const { steps, validations, total } = this.progress;
    const losses = [...steps, ...validations].map(({ loss }) => loss).filter(isDrawn);
    const ticks = logarithmicTicks(Math.min(...losses, 1), Math.max(...losses, losses.length ? 0 : 10));
    const last = Math.max(total || 0, steps.at(-1)?.step ?? 1, 1);
    this.x = (step) => ROOM.left + ((this.width - ROOM.left - ROOM.right) * step) / last;
    const [low, high] = [ticks[0], ticks.at(-1)].map(Math.log);
    this.y = (loss) => ROOM.top + (HEIGHT - ROOM.top - ROOM.bottom) * (1 - (Math.log(loss) - low) / (high - low));
    fill(
      this.drawing,
      this.axes(ticks, last),
      this.line(steps, "soft", 1.2),
      this.line(validations, "output", 2.2),
      this.points(validations),
      this.checkpoints(),
      this.marker(),
    );
    this.drawing.setAttribute("aria-label", this.sentence());
  }

  sentence() {
    const { steps, validations } = this.progress;
    if (!steps.length) return "No loss has been written down yet.";
    const ends = `Training loss from ${digits(steps[0].loss, 2)} at step ${steps[0].step} to ${digits(steps.at(-1).loss, 2)} at step ${steps.at(-1).step}`;
    return validations.length ? `${ends}; validation loss ${digits(validations.at(-1).loss, 2)}.` : `${ends}.`;
  }

  axes(ticks, last) {
    const rows = ticks.flatMap((loss) => [
      svg("line", {
        x1: ROOM.left,
        x2: this.width - ROOM.right,
        y1: this.y(loss),
        y2: this.y(loss),
        stroke: ideaColour("line"),
      }),
      svg("text", {
        x: ROOM.left - 8,
        y: this.y(loss) + 4,
        "text-anchor": "end",
        fill: ideaColour("soft"),
        text: String(loss),
      }),
    ]);
    const columns = [0, 0.5, 1].map((share) => svg("text", {
      x: this.x(share * last),
      y: HEIGHT - 8,
      "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle",
      fill: ideaColour("soft"),
      text: `${share === 0 ? "step " : ""}${Math.round(share * last).toLocaleString("en")}`,
    }));
    return svg("g", {}, rows, columns);
  }

  line(points, idea, width) {
    const good = points.filter(({ loss }) => isDrawn(loss));
    const d = good.map(({ step, loss }, i) => `${i ? "L" : "M"}${this.x(step).toFixed(1)} ${this.y(loss).toFixed(1)}`).join("");
    return d && svg(
      "path",
      { d, fill: "none", stroke: ideaColour(idea), "stroke-width": width, "stroke-linejoin": "round" },
    );
  }

  points(validations) {
    return svg(
      "g",
      { fill: ideaColour("output") },
      validations.filter(({ loss }) => isDrawn(loss)).map(({ step, loss }) => svg("circle", { cx: this.x(step), cy: this.y(loss), r: 3 })),
    );
  }

  checkpoints() {
    const bottom = HEIGHT - ROOM.bottom;
    return svg("g", {}, this.progress.snapshots.map((step) => svg("g", {
      class: "checkpoint",
      onclick: () => this.onpick(step),
    },
      svg(
        "rect",
        { x: this.x(step) - 8, y: ROOM.top, width: 16, height: bottom - ROOM.top + 10, fill: "transparent" },
      ),
      svg(
        "path",
        { d: `M${this.x(step)} ${bottom}l5 9h-10z`, fill: ideaColour(step === this.at ? "pin" : "soft") },
      ),
    )));
  }

  marker() {
    if (this.at === null || this.at === undefined) return null;
    return svg("line", {
      x1: this.x(this.at),
      x2: this.x(this.at),
      y1: ROOM.top,
      y2: HEIGHT - ROOM.bottom,
      stroke: ideaColour("pin"),
      "stroke-width": 2,
    });
  }
}

// Zero and less have no logarithm.
function isDrawn(loss) {
  return Number.isFinite(loss) && loss > 0;
}

/** 1, 2 and 5 times powers of ten around a range, or powers alone where it is wide; at least two. */
export function logarithmicTicks(least, most) {
  const times = most / least > 1e4 ? [1] : [1, 2, 5];
  const first = Math.floor(Math.log10(least) + 1e-9);
  const all = Array.from({ length: Math.ceil(Math.log10(most)) - first + 2 }, (_, place) => first + place).flatMap(
    (power) => times.map((factor) => Number(`${factor}e${power}`)),
  );
  const start = all.findLastIndex((tick) => tick <= least * (1 + 1e-9));
  const end = Math.max(start + 1, all.findIndex((tick) => tick >= most * (1 - 1e-9)));
  return all.slice(start, end + 1);
}
