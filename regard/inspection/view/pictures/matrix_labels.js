/** The words beside a matrix's rows and above its columns. */

import { ideaColour } from "../core/colour.js";
import { READABLE, SANS, rectangleOf, windowOf } from "./matrix_plan.js";

const LINE = 17; // pixels that a line of letters takes

/** Draw the labels that have room: all of them, or every second, every third and so on. */
export function drawLabels(pen, picture, plan) {
  const [firstRow, lastRow, firstColumn, lastColumn] = windowOf(plan);
  const [rowStep, columnStep] = [everySo(plan.cellHeight), everySo(plan.cellWidth)];
  for (let row = firstRow; row < lastRow; row++) {
    if (row % rowStep === 0) drawRowLabel(pen, picture, plan, row, 400);
  }
  for (let column = firstColumn; column < lastColumn; column++) {
    if (column % columnStep === 0) drawColumnLabel(pen, picture, plan, column, 400);
  }
}

/** Draw strong labels for the pinned cell and the one looked at, over those that stand in their way. */
export function drawStrongLabels(pen, picture, plan, pinned, current) {
  const rows = told(pinned?.row, current?.row, plan.rows, plan.cellHeight);
  for (const row of rows) {
    for (const other of covered(row, plan.rows, plan.cellHeight)) blankRow(pen, plan, other);
    drawRowLabel(pen, picture, plan, row, 650);
  }
  const columns = told(pinned?.column, current?.column, plan.columns, plan.cellWidth);
  for (const column of columns) {
    for (const other of covered(column, plan.columns, plan.cellWidth)) blankColumn(pen, plan, other);
    drawColumnLabel(pen, picture, plan, column, 650);
  }
}

function everySo(size) {
  return size >= READABLE ? 1 : Math.ceil(LINE / size);
}

// The pinned one gives way to the one looked at where the two would touch.
function told(pinned, current, count, size) {
  const places = [...new Set([pinned, current])].filter((place) => Number.isInteger(place) && place < count);
  const touch = size < READABLE && places.length > 1 && Math.abs(pinned - current) * size < LINE;
  return touch ? [current] : places;
}

// The label itself and, where labels are thinned out, those that it would touch.
function covered(place, count, size) {
  const step = everySo(size);
  const reach = step === 1 ? 0 : Math.ceil(LINE / size) - 1;
  const near = Array.from({ length: 2 * reach + 1 }, (_, shift) => place - reach + shift);
  return near.filter((other) => other >= 0 && other < count && (other === place || other % step === 0));
}

function blankRow(pen, plan, row) {
  const { y, height } = rectangleOf(plan, row, 0);
  const room = roomOf(plan.cellHeight);
  blank(pen, 0, y + (height - room) / 2, plan.left - 3, room);
}

function blankColumn(pen, plan, column) {
  const { x, width } = rectangleOf(plan, 0, column);
  const room = plan.isFlat ? width : roomOf(plan.cellWidth);
  blank(pen, x + (width - room) / 2, 0, room, plan.top - 3);
}

function roomOf(size) {
  return size < READABLE ? LINE : Math.min(size, 20);
}

function blank(pen, x, y, width, height) {
  pen.fillStyle = ideaColour("card");
  pen.fillRect(x, y, width, height);
}

function drawRowLabel(pen, picture, plan, row, weight) {
  const { y, height } = rectangleOf(plan, row, 0);
  const middle = y + height / 2;
  if (middle < plan.top) return;
  ready(pen, weight, "right", picture.rowIdea);
  pen.fillText(shortened(pen, picture.rows[row], plan.left - 12), plan.left - 8, middle);
}

function drawColumnLabel(pen, picture, plan, column, weight) {
  const { x, width } = rectangleOf(plan, 0, column);
  const middle = x + width / 2;
  if (middle < plan.left) return;
  ready(pen, weight, plan.isFlat ? "center" : "left", picture.columnIdea);
  pen.save();
  pen.translate(middle, plan.top - 7);
  if (!plan.isFlat) pen.rotate(-Math.PI / 2);
  pen.fillText(shortened(pen, picture.columns[column], plan.isFlat ? width : plan.top - 10), 0, plan.isFlat ? -5 : 0);
  pen.restore();
}

function ready(pen, weight, align, idea) {
  pen.direction = "ltr";
  pen.textBaseline = "middle";
  pen.textAlign = align;
  pen.font = `${weight} 13px ${SANS}`;
  pen.fillStyle = ideaColour(idea);
}

function shortened(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  const letters = [...text.slice(0, 80)];
  while (letters.length > 1 && pen.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return `${letters.join("")}…`;
}
