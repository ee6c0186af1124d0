/**
 * A matrix on a canvas. A plan says where everything stands; the base is drawn once, what moves lies above it.
 *
 * A picture: {rows, columns, weights, visible, signed, largest, numbers, decimals, rowIdea, columnIdea}; labels
 * are strings, weights and visible lie row by row.
 */

import { drawLabels, drawStrongLabels } from "./matrix_labels.js";
import { MONO, rectangleOf, windowOf } from "./matrix_plan.js";
import { attentionShade, signedShade, dyePixels, inkOn, ideaColour, coloursAreForced } from "../core/colour.js";

const APART = 5; // pixels of a cell from which on there is a gap between it and the next
const ROUND = 14; // and its corners are round
const ROOM = 1.25; // a cell's digits need so many times their own height

/** Give a canvas a size in the page's pixels and a pen that draws in them. */
export function sizedPen(canvas, width, height) {
  const ratio = Math.min(3, globalThis.devicePixelRatio || 1);
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  // Not the size asked for: a canvas that is stretched by a part of a pixel shows seams.
  canvas.style.setProperty("width", `${canvas.width / ratio}px`);
  canvas.style.setProperty("height", `${canvas.height / ratio}px`);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

/** Draw cells and labels: all that does not move. */
export function drawBase(pen, picture, plan) {
  pen.clearRect(0, 0, plan.width, plan.height);
  pen.save();
  pen.beginPath();
  pen.rect(plan.left, plan.top, plan.width - plan.left, plan.height - plan.top);
  pen.clip();
  if (isApart(plan)) drawCells(pen, picture, plan);
  else drawRaster(pen, picture, plan);
  drawMasked(pen, picture, plan);
  pen.restore();
  drawLabels(pen, picture, plan);
}

/** Draw what moves: the pinned cell, the cell under the pointer, its row's numbers, rows that are set aside. */
export function drawMoving(pen, picture, plan, { pinned, current, focused, isolated }) {
  pen.clearRect(0, 0, plan.width, plan.height);
  pen.save();
  pen.beginPath();
  pen.rect(plan.left - 2, plan.top - 2, plan.width, plan.height);
  pen.clip();
  if (isolated !== null && isolated !== undefined) fadeOthers(pen, plan, isolated);
  if (pinned && picture.numbers !== "all" && picture.numbers !== "none") drawRowNumbers(pen, picture, plan, pinned.row);
  if (current && current.row !== pinned?.row && picture.numbers !== "none") drawRowNumbers(
    pen,
    picture,
    plan,
    current.row,
  );
  if (current) outline(pen, plan, current, ideaColour("ink"), 1.5);
  if (pinned) outline(pen, plan, pinned, ideaColour("pin"), 2.5);
  if (focused) outline(pen, plan, focused, ideaColour("ink"), 2.5, 2.5);
  pen.restore();
  drawStrongLabels(pen, picture, plan, pinned, current);
}

/** The colour of a cell. */
export function shadeOf(picture, row, column) {
  const value = picture.weights[row * picture.columns.length + column];
  return picture.signed ? signedShade(value, picture.largest) : attentionShade(value);
}

/** Whether a cell may be looked at. */
export function isVisible(picture, row, column) {
  return !picture.visible || picture.visible[row * picture.columns.length + column] > 0;
}

/** A cell's number as it is written in it. */
export function written(picture, value) {
  const text = value.toFixed(picture.decimals);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

function drawCells(pen, picture, plan) {
  const [firstRow, lastRow, firstColumn, lastColumn] = windowOf(plan);
  const threshold = picture.numbers === "all" ? -Infinity : picture.numbers === "none" ? Infinity : 0.3;
  for (let row = firstRow; row < lastRow; row++) {
    for (let column = firstColumn; column < lastColumn; column++) {
      if (!isVisible(picture, row, column)) continue;
      drawCell(pen, picture, plan, row, column);
      const value = picture.weights[row * picture.columns.length + column];
      if (value >= threshold && !picture.signed) drawNumber(pen, picture, plan, row, column);
      else if (threshold === -Infinity) drawNumber(pen, picture, plan, row, column);
    }
  }
}

function drawCell(pen, picture, plan, row, column) {
  const { x, y, width, height } = rectangleOf(plan, row, column);
  if (coloursAreForced()) return drawForcedCell(pen, picture, plan, row, column);
  const [red, green, blue] = shadeOf(picture, row, column);
  pen.fillStyle = `rgb(${red}, ${green}, ${blue})`;
  if (Math.min(width, height) < ROUND) return pen.fillRect(x, y, width - 1, height - 1);
  pen.beginPath();
  pen.roundRect(x, y, width - 1, height - 1, 2);
  return pen.fill();
}

function isApart(plan) {
  return Math.min(plan.cellWidth, plan.cellHeight) >= APART;
}

// Where a person has forced their own colours, the area of a square stands for the weight, and a frame for the cell.
function drawForcedCell(pen, picture, plan, row, column) {
  const { x, y, width, height } = rectangleOf(plan, row, column);
  pen.fillStyle = ideaColour("card");
  pen.fillRect(x, y, width, height);
  pen.strokeStyle = ideaColour("line");
  pen.lineWidth = 1;
  pen.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  if (fitsNumber(pen, picture, plan)) return drawNumber(pen, picture, plan, row, column);
  const value = picture.weights[row * picture.columns.length + column];
  const side = Math.sqrt(Math.min(1, Math.abs(value) / (picture.signed ? picture.largest || 1 : 1)));
  pen.fillStyle = ideaColour("ink");
  pen.fillRect(x + (width * (1 - side)) / 2, y + (height * (1 - side)) / 2, width * side, height * side);
}

// Many small cells: a pixel each, stretched; where cells are smaller than pixels, the largest of them counts.
function drawRaster(pen, picture, plan) {
  const [firstRow, lastRow, firstColumn, lastColumn] = windowOf(plan);
  const pool = Math.max(1, Math.ceil(1 / Math.min(plan.cellWidth, plan.cellHeight)));
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil((lastColumn - firstColumn) / pool);
  canvas.height = Math.ceil((lastRow - firstRow) / pool);
  const small = canvas.getContext("2d");
  const image = small.createImageData(canvas.width, canvas.height);
  dyePixels(image, (number) => {
    const y = Math.floor(number / image.width);
    return shadeOfLargest(picture, firstRow + y * pool, firstColumn + (number - y * image.width) * pool, pool);
  });
  small.putImageData(image, 0, 0);
  const { x, y } = rectangleOf(plan, firstRow, firstColumn);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(canvas, x, y, canvas.width * pool * plan.cellWidth, canvas.height * pool * plan.cellHeight);
}

function shadeOfLargest(picture, row, column, pool) {
  if (pool === 1) return shadeOf(picture, row, column);
  let best = [row, column, -1];
  for (let i = row; i < Math.min(row + pool, picture.rows.length); i++) {
    for (let j = column; j < Math.min(column + pool, picture.columns.length); j++) {
      const size = Math.abs(picture.weights[i * picture.columns.length + j]);
      if (size > best[2]) best = [i, j, size];
    }
  }
  return shadeOf(picture, best[0], best[1]);
}

// What may not be looked at is hatched: runs of cells as one path, filled with one pattern.
function drawMasked(pen, picture, plan) {
  if (!picture.visible) return;
  const [firstRow, lastRow, firstColumn, lastColumn] = windowOf(plan);
  const gap = isApart(plan) ? 1 : 0;
  const { visible } = picture;
  pen.beginPath();
  let any = false;
  for (let row = firstRow; row < lastRow; row++) {
    const from = row * plan.columns;
    for (let column = firstColumn; column < lastColumn; column++) {
      if (visible[from + column] > 0) continue;
      const start = column;
      while (column < lastColumn && !(visible[from + column] > 0)) column++;
      const { x, y, height } = rectangleOf(plan, row, start);
      pen.rect(x, y, rectangleOf(plan, row, column).x - x - gap, height - gap);
      any = true;
    }
  }
  if (!any) return;
  pen.fillStyle = ideaColour("card");
  pen.fill();
  pen.fillStyle = hatching(pen);
  pen.fill();
}

function hatching(pen) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 12;
  const small = canvas.getContext("2d");
  small.strokeStyle = ideaColour("hatch-ink");
  small.lineWidth = 1.5;
  small.beginPath();
  for (const shift of [-12, 0, 12]) {
    small.moveTo(shift - 1, 13);
    small.lineTo(shift + 13, -1);
  }
  small.stroke();
  const pattern = pen.createPattern(canvas, "repeat");
  const ratio = pen.getTransform().a || 1;
  pattern.setTransform(new DOMMatrix([1 / ratio, 0, 0, 1 / ratio, 0, 0]));
  return pattern;
}

function drawRowNumbers(pen, picture, plan, row) {
  if (row === null || row === undefined || row >= plan.rows || !fitsNumber(pen, picture, plan)) return;
  for (let column = 0; column < plan.columns; column++) {
    if (!isVisible(picture, row, column)) continue;
    drawCell(pen, picture, plan, row, column);
    drawNumber(pen, picture, plan, row, column);
  }
}

function drawNumber(pen, picture, plan, row, column) {
  if (!fitsNumber(pen, picture, plan)) return;
  const { x, y, width, height } = rectangleOf(plan, row, column);
  pen.font = numberFont(plan);
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillStyle = coloursAreForced() ? ideaColour("ink") : inkOn(shadeOf(picture, row, column));
  const value = picture.weights[row * picture.columns.length + column];
  pen.fillText(written(picture, value), x + width / 2, y + height / 2 + 0.5, width - 3);
}

function fitsNumber(pen, picture, plan) {
  pen.font = numberFont(plan);
  const sample = picture.signed ? written(picture, -(picture.largest || 1)) : written(picture, 0);
  return plan.cellHeight >= 10 * ROOM && pen.measureText(sample).width + 4 <= plan.cellWidth;
}

function numberFont(plan) {
  return `${plan.cellWidth >= 38 ? 11.5 : 10}px ${MONO}`;
}

function fadeOthers(pen, plan, row) {
  const { y, height } = rectangleOf(plan, row, 0);
  pen.globalAlpha = 0.82;
  pen.fillStyle = ideaColour("card");
  pen.fillRect(plan.left, plan.top, plan.width, Math.max(0, y - plan.top));
  pen.fillRect(plan.left, y + height, plan.width, plan.height);
  pen.globalAlpha = 1;
}

function outline(pen, plan, { row, column }, colour, thickness, inset = 0) {
  if (row === null || column === null || row === undefined || column === undefined) return;
  const { x, y, width, height } = rectangleOf(plan, row, column);
  const least = Math.max(0, 7 - Math.min(width, height)) / 2; // a mark that is seen around the smallest cell
  pen.strokeStyle = colour;
  pen.lineWidth = thickness;
  pen.beginPath();
  pen.roundRect(x + inset - least, y + inset - least, width - 2 * inset + 2 * least, height - 2 * inset + 2 * least, 3);
  pen.stroke();
}
