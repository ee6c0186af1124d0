/** The words beside a matrix's rows and above its columns. */

import { ideaColour } from "./colour.js";
import { SANS, rectangleOf, windowOf } from "./matrix_plan.js";

/** Draw the labels that have room, or only the strong ones: those of the row and column looked at. */
export function drawLabels(pen, picture, plan, strong, onlyStrong = false) {
  const [firstRow, lastRow, firstColumn, lastColumn] = windowOf(plan);
  pen.direction = "ltr";
  pen.textBaseline = "middle";
  const rowStep = everySo(plan.cellHeight);
  const columnStep = everySo(plan.cellWidth);
  for (let row = firstRow; row < lastRow; row++) {
    if (onlyStrong ? row === strong.row : row % rowStep === 0) drawRowLabel(pen, picture, plan, row, onlyStrong);
  }
  for (let column = firstColumn; column < lastColumn; column++) {
    if (onlyStrong ? column === strong.column : column % columnStep === 0) drawColumnLabel(
      pen,
      picture,
      plan,
      column,
      onlyStrong,
    );
  }
}

// Labels that cannot all stand keep a clear distance.
function everySo(size) {
  return size >= 13 ? 1 : Math.ceil(20 / size);
}

function drawRowLabel(pen, picture, plan, row, isStrong) {
  const { y, height } = rectangleOf(plan, row, 0);
  const middle = y + height / 2;
  if (middle < plan.top) return;
  pen.font = `${isStrong ? 650 : 400} 13px ${SANS}`;
  if (isStrong) blank(pen, 0, middle - 10, plan.left - 3, 20);
  pen.textAlign = "right";
  pen.fillStyle = ideaColour(picture.rowIdea);
  pen.fillText(shortened(pen, picture.rows[row], plan.left - 12), plan.left - 8, middle);
}

function drawColumnLabel(pen, picture, plan, column, isStrong) {
  const { x, width } = rectangleOf(plan, 0, column);
  const middle = x + width / 2;
  if (middle < plan.left) return;
  pen.font = `${isStrong ? 650 : 400} 13px ${SANS}`;
  pen.save();
  pen.translate(middle, plan.top - 7);
  if (!plan.isFlat) pen.rotate(-Math.PI / 2);
  if (isStrong && plan.isFlat) blank(pen, -width / 2, -16, width, 20);
  if (isStrong && !plan.isFlat) blank(pen, -3, -8.5, plan.top, 17);
  pen.textAlign = plan.isFlat ? "center" : "left";
  pen.fillStyle = ideaColour(picture.columnIdea);
  pen.fillText(shortened(pen, picture.columns[column], plan.isFlat ? width : plan.top - 10), 0, plan.isFlat ? -5 : 0);
  pen.restore();
}

function blank(pen, x, y, width, height) {
  pen.fillStyle = ideaColour("card");
  pen.fillRect(x, y, width, height);
}

function shortened(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  const letters = [...text.slice(0, 80)];
  while (letters.length > 1 && pen.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return `${letters.join("")}…`;
}

