/** A matrix of numbers that a person can point at: drawn on a canvas, with a grid for keyboard and screen reader. */

import { make, digits } from "../core/dom.js";
import { paint } from "../core/colour.js";
import { Grid } from "../parts/grid.js";
import { planOf, cellAt, rectangleOf } from "./matrix_plan.js";
import { sizedPen, drawBase, drawMoving } from "./matrix_drawing.js";
import { matrixSvg } from "./matrix_svg.js";

const LONGEST_LABEL = 48;
const PLAIN = { numbers: "telling", decimals: 2, signed: false, largest: null, isStretched: false };

/**
 * new Matrix(root, {label}); then show({rows, columns, weights, ...}) as often as needed.
 *
 * label       what the grid is called
 * describe    the sentence about a cell, from {row, column, value, rowLabel, columnLabel}
 * height      pixels, or a function of the width; left out, as high as the rows need
 * rowIdea, columnIdea   whose colour the labels have: "query", "key", "value", "output", "ink"
 */
export class Matrix {
  /**
   * @param {HTMLElement} root
   * @param {any} options
   */
  constructor(root, { label, describe = plainSentence, height = null, rowIdea = "query", columnIdea = "key" }) {
    this.root = root;
    this.describe = describe;
    this.height = height;
    this.rowIdea = rowIdea;
    this.columnIdea = columnIdea;
    /** @type {(cell: any) => void} */
    this.onhover = () => {};
    /** @type {(cell: any) => void} */
    this.onpin = () => {};
    /** @type {(cell: any) => void} */
    this.onisolate = () => {};
    this.onrelease = () => {};
    this.picture = this.plan = this.hovered = this.isolated = this.pinned = null;
    this.enlarged = false;
    this.grid = new Grid({
      label,
      onmove: (cell) => this.moved(cell),
      onpin: (cell) => this.pinFrom(cell),
      onrelease: () => this.onrelease(),
      onfocus: () => this.moved(this.grid.current, false),
      onblur: () => this.hover(null),
    });
    this.build();
  }

  /**
   * Show numbers: {rows, columns, weights, visible, pinned, numbers, decimals, signed, largest, isolated}.
   *
   * weights     row by row, flat or as lists; visible likewise, 0 for what is masked
   * numbers     "telling" (the row looked at, and large ones), "all" or "none", with so many `decimals`
   * signed      colours for numbers of both signs, up to `largest`
   * isolated    the row beside which others fade
   */
  show({ rows, columns, weights, visible = null, pinned = null, isolated = null, ...look }) {
    const picture = {
      rows: rows.map(clip),
      columns: columns.map(clip),
      weights: flat(weights),
      visible: visible && masking(flat(visible)),
    };
    this.picture = { ...PLAIN, ...look, ...picture, rowIdea: this.rowIdea, columnIdea: this.columnIdea };
    this.picture.largest ??= largestOf(picture.weights);
    this.pinned = pinned;
    this.isolated = isolated;
    this.hovered = null;
    this.grid.show(this.picture, this.pinned);
    this.layOut();
  }

  /** Draw again what was shown, after its numbers were changed in place. */
  redraw() {
    this.grid.render();
    this.draw();
  }

  /** Mark a cell as pinned, without an event. */
  pin(cell) {
    this.pinned = cell;
    this.grid.pin(this.pinned);
    this.drawSoon();
  }

  /** Show a cell, or a whole row ({row, column: null}), as if the pointer were on it. */
  point(cell) {
    this.hovered = cell;
    this.drawSoon();
  }

  /** The picture as it stands, for a file. */
  canvas() {
    const canvas = document.createElement("canvas");
    const plan = planOf(this.picture, Math.max(this.width ?? 0, 640), null, true);
    const pen = sizedPen(canvas, plan.full.width, plan.full.height);
    const whole = { ...plan, width: plan.full.width, height: plan.full.height };
    drawBase(pen, this.picture, whole);
    return canvas;
  }

  /** The same as a drawing that can be scaled. */
  svg() {
    return matrixSvg(this.picture);
  }

  /** The same as a table: {columns, rows}. */
  table() {
    if (!this.picture) return { columns: ["word"], rows: [] };
    const { rows, columns, weights, visible } = this.picture;
    const lines = rows.map((label, row) => {
      const from = row * columns.length;
      return [
        label,
        ...columns.map((_, column) => (!visible || visible[from + column] > 0 ? weights[from + column] : "")),
      ];
    });
    return { columns: ["word", ...columns], rows: lines };
  }

  build() {
    this.base = make("canvas", { "aria-hidden": "true" });
    this.moving = make("canvas", { "aria-hidden": "true" });
    this.live = make("p", { class: "unseen", "aria-live": "polite" });
    this.stage = make("div", { class: "matrix-stage" }, this.base, this.moving, this.grid.element);
    this.room = make("div", { class: "matrix-room" }, this.stage);
    this.view = make("div", { class: "matrix-view", onscroll: () => this.scrolled() }, this.room);
    const enlarge = () => this.enlarge(!this.enlarged);
    this.size = make("button", { type: "button", class: "quiet matrix-size", hidden: true, onclick: enlarge });
    this.root.append(make("div", { class: "matrix" }, this.view, this.size, this.live));
    this.stage.addEventListener("pointermove", (event) => this.hover(this.under(event)));
    this.stage.addEventListener("pointerleave", () => this.hover(null));
    this.stage.addEventListener("click", (event) => this.clicked(event));
    this.stage.addEventListener("dblclick", (event) => this.isolateFrom(this.under(event)));
    paint(this.base, () => this.draw());
    new ResizeObserver(() => this.resized()).observe(this.root);
  }

  enlarge(enlarged) {
    this.enlarged = enlarged;
    this.layOut();
    if (enlarged) this.reveal(this.grid.current);
  }

  resized() {
    if (this.picture && Math.abs(this.root.clientWidth - (this.width ?? 0)) >= 1) this.layOut();
  }

  layOut() {
    this.width = this.root.clientWidth;
    this.plan = null; // an element that is hidden has no width; it is laid out when it is shown
    if (!this.width) return;
    const height = typeof this.height === "function" ? this.height(this.width) : this.height;
    this.plan = planOf(this.picture, this.width, height, this.enlarged);
    const { full, width, height: shown, fits } = this.plan;
    this.view.classList.toggle("scrolls", full.width > width + 1 || full.height > shown + 1);
    this.view.style.setProperty("height", height ? `${Math.max(height, 1)}px` : `${shown}px`);
    this.room.style.setProperty("width", `${full.width}px`);
    this.room.style.setProperty("height", `${full.height}px`);
    this.stage.style.setProperty("width", `${width}px`);
    this.stage.style.setProperty("height", `${shown}px`);
    this.size.hidden = fits;
    this.size.textContent = this.enlarged ? "Show it whole" : "Enlarge";
    this.scrolled();
  }

  scrolled() {
    if (!this.plan) return;
    this.plan.scrollX = this.view.scrollLeft;
    this.plan.scrollY = this.view.scrollTop;
    this.draw();
  }

  draw() {
    if (!this.plan) return;
    drawBase(sizedPen(this.base, this.plan.width, this.plan.height), this.picture, this.plan);
    this.pen = sizedPen(this.moving, this.plan.width, this.plan.height);
    this.drawMoving();
  }

  drawSoon() {
    this.waiting ??= requestAnimationFrame(() => this.drawMoving());
  }

  drawMoving() {
    cancelAnimationFrame(this.waiting);
    this.waiting = null;
    if (!this.pen || !this.plan) return;
    const focused = this.grid.hasFocus ? this.grid.current : null;
    const marks = { pinned: this.pinned, current: this.hovered, focused, isolated: this.isolated };
    drawMoving(this.pen, this.picture, this.plan, marks);
  }

  under(event) {
    const box = this.stage.getBoundingClientRect();
    return this.plan && cellAt(this.plan, event.clientX - box.left, event.clientY - box.top);
  }

  hover(cell) {
    if (same(cell, this.hovered)) return;
    this.hovered = cell;
    this.drawSoon();
    this.onhover(cell && this.told(cell));
  }

  moved(cell, aloud = true) {
    this.reveal(cell);
    this.hover(cell);
    this.drawSoon();
    if (aloud) this.live.textContent = this.describe(this.told(cell));
  }

  clicked(event) {
    const cell = this.under(event);
    this.grid.element.focus({ preventScroll: true });
    if (cell) this.pinFrom(cell);
  }

  pinFrom(cell) {
    this.grid.current = this.grid.inside(cell.row ?? this.grid.current.row, cell.column ?? this.grid.current.column);
    this.onpin(this.told(cell));
    if (cell.row !== null && cell.column !== null) this.live.textContent = `Pinned. ${this.describe(this.told(cell))}`;
  }

  isolateFrom(cell) {
    if (cell) this.onisolate(this.told(cell));
  }

  reveal({ row, column }) {
    if (!this.plan || !this.view.classList.contains("scrolls")) return;
    const { left, top, cellWidth, cellHeight, width, height } = this.plan;
    const { x, y } = rectangleOf(this.plan, row, column);
    const shift = (start, size, low, high) => (start < low ? start - low : Math.max(0, start + size - high));
    this.view.scrollBy(shift(x, cellWidth, left, width), shift(y, cellHeight, top, height));
  }

  told({ row, column }) {
    const { rows, columns, weights, visible } = this.picture;
    const value = row === null || column === null ? null : weights[row * columns.length + column];
    const [rowLabel, columnLabel] = [rows[row] ?? null, columns[column] ?? null];
    const masked = value !== null && !!visible && !visible[row * columns.length + column];
    return { row, column, value, masked, rowLabel, columnLabel };
  }
}

function plainSentence({ rowLabel, columnLabel, value, masked }) {
  return `${rowLabel}, ${columnLabel}: ${masked ? "masked" : digits(value)}`;
}

function same(one, other) {
  return one === other || (one && other && one.row === other.row && one.column === other.column);
}

function clip(label) {
  const text = String(label);
  return text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL)}…` : text;
}

function flat(numbers) {
  return Array.isArray(numbers[0]) ? Float64Array.from(numbers.flat()) : numbers;
}

// Where all may be looked at, nobody needs to ask cell by cell.
function masking(visible) {
  return visible.indexOf(0) < 0 ? null : visible;
}

function largestOf(numbers) {
  let most = 0;
  for (const number of numbers) if (Math.abs(number) > most && Number.isFinite(number)) most = Math.abs(number);
  return most;
}
