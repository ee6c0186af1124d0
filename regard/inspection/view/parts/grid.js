/**
 * What a screen reader and the keyboard meet in place of a drawn matrix: a grid with one tab stop.
 *
 * Only a window around the current cell is in the document, with its true row and column numbers, so that 512
 * tokens cost no more than 24.
 */

import { make, fill, uniqueId, digits } from "../core/dom.js";

const WINDOW = 24;

/** A grid over a picture as matrix_drawing.js takes it. */
export class Grid {
  constructor({ label, onmove, onpin, onrelease, onfocus, onblur }) {
    this.id = uniqueId("grid");
    this.current = { row: 0, column: 0 };
    this.pinned = null;
    this.picture = null;
    this.onmove = onmove;
    this.onpin = onpin;
    this.onrelease = onrelease;
    const settings = {
      class: "matrix-grid",
      role: "grid",
      tabindex: "0",
      "aria-label": label,
      "aria-readonly": "true",
    };
    this.element = make("div", { ...settings, onkeydown: (event) => this.press(event), onfocus, onblur });
  }

  /** Whether the keyboard is here. */
  get hasFocus() {
    return this.element.ownerDocument.activeElement === this.element || this.element.matches(":focus");
  }

  /** Stand for another picture; the current cell stays where it can. */
  show(picture, pinned) {
    this.picture = picture;
    this.pinned = pinned;
    if (pinned && !this.hasFocus) this.current = { row: pinned.row ?? 0, column: pinned.column ?? 0 };
    this.current = this.inside(this.current.row, this.current.column);
    this.render();
  }

  /** Mark another cell as pinned. */
  pin(pinned) {
    this.pinned = pinned;
    if (pinned) this.current = this.inside(pinned.row ?? this.current.row, pinned.column ?? this.current.column);
    this.render();
  }

  press(event) {
    const target = this.destination(event);
    if (target) this.move(target);
    else if (event.key === "Enter" || event.key === " ") this.onpin(this.current);
    else if (event.key === "Escape") this.onrelease();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  destination({ key, ctrlKey, metaKey }) {
    const { row, column } = this.current;
    const [last, end] = [this.picture.rows.length - 1, this.picture.columns.length - 1];
    const whole = ctrlKey || metaKey;
    const moves = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [whole ? 0 : row, 0],
      End: [whole ? last : row, end],
      PageUp: [row - 10, column],
      PageDown: [row + 10, column],
    };
    return moves[key] ? this.inside(...moves[key]) : null;
  }

  move(target) {
    this.current = target;
    const inWindow = this.element.querySelector(`#${this.cellId(target.row, target.column)}`);
    if (inWindow) this.element.setAttribute("aria-activedescendant", inWindow.id);
    else this.render();
    this.onmove(target);
  }

  inside(row, column) {
    const within = (number, count) => Math.max(0, Math.min(number, count - 1));
    return { row: within(row, this.picture.rows.length), column: within(column, this.picture.columns.length) };
  }

  render() {
    const { rows, columns } = this.picture;
    const [firstRow, lastRow] = windowAround(this.current.row, rows.length);
    const [firstColumn, lastColumn] = windowAround(this.current.column, columns.length);
    const lines = [this.headerRow(firstColumn, lastColumn)];
    for (let row = firstRow; row < lastRow; row++) lines.push(this.bodyRow(row, firstColumn, lastColumn));
    fill(this.element, lines);
    this.element.setAttribute("aria-rowcount", rows.length + 1);
    this.element.setAttribute("aria-colcount", columns.length + 1);
    this.element.setAttribute("aria-activedescendant", this.cellId(this.current.row, this.current.column));
  }

  headerRow(first, last) {
    const corner = make("span", { role: "columnheader", "aria-colindex": "1", text: "word" });
    const row = make("div", { role: "row", "aria-rowindex": "1" }, corner);
    for (let column = first; column < last; column++) {
      row.append(
        make("span", { role: "columnheader", "aria-colindex": column + 2, text: this.picture.columns[column] }),
      );
    }
    return row;
  }

  bodyRow(row, first, last) {
    const header = make("span", { role: "rowheader", "aria-colindex": "1", text: this.picture.rows[row] });
    const line = make("div", { role: "row", "aria-rowindex": row + 2 }, header);
    for (let column = first; column < last; column++) line.append(this.cell(row, column));
    return line;
  }

  cell(row, column) {
    const { columns, weights, visible } = this.picture;
    const at = row * columns.length + column;
    const isSeen = !visible || visible[at] > 0;
    return make("span", {
      role: "gridcell",
      id: this.cellId(row, column),
      "aria-colindex": column + 2,
      "aria-selected": this.pinned?.row === row && this.pinned?.column === column ? "true" : null,
      "data-row": row,
      "data-column": column,
      "data-value": isSeen ? weights[at] : null,
      text: isSeen ? digits(weights[at]) : "masked",
    });
  }

  cellId(row, column) {
    return `${this.id}-${row}-${column}`;
  }
}

function windowAround(at, count) {
  const first = Math.max(0, Math.min(at - WINDOW / 2, count - WINDOW));
  return [first, Math.min(count, first + WINDOW)];
}
