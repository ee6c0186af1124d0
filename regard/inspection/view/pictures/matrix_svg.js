/** A matrix as a drawing that can be scaled, printed and edited: the same labels, colours and numbers. */

import { svg } from "../core/dom.js";
import { ideaColour, inkOn } from "../core/colour.js";
import { SANS, MONO, planOf, rectangleOf } from "./matrix_plan.js";
import { shadeOf, isVisible, written } from "./matrix_drawing.js";

const WIDTH = 760;
const MOST = 40000; // cells beyond which a drawing is no longer of use to anyone

/** The whole picture as an svg element. */
export function matrixSvg(picture) {
  if (picture.weights.length > MOST) throw new Error(
    `This matrix has ${picture.weights.length} cells, too many for an SVG; save the PNG.`,
  );
  const plan = planOf(picture, WIDTH, null, true);
  const { width, height } = plan.full;
  const size = {
    viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`,
    width: Math.ceil(width),
    height: Math.ceil(height),
  };
  const drawing = svg("svg", { xmlns: "http://www.w3.org/2000/svg", ...size, "font-family": SANS, "font-size": 13 });
  drawing.append(svg("rect", { width: "100%", height: "100%", fill: ideaColour("card") }), hatch());
  picture.rows.forEach((label, row) => drawing.append(rowLabel(picture, plan, label, row)));
  picture.columns.forEach((label, column) => drawing.append(columnLabel(picture, plan, label, column)));
  for (let row = 0; row < plan.rows; row++) {
    for (let column = 0; column < plan.columns; column++) drawing.append(...cell(picture, plan, row, column));
  }
  return drawing;
}

function rowLabel(picture, plan, label, row) {
  const { y, height } = rectangleOf(plan, row, 0);
  const place = { x: plan.left - 8, y: y + height / 2, "text-anchor": "end", "dominant-baseline": "central" };
  return svg("text", { ...place, fill: ideaColour(picture.rowIdea), text: label });
}

function columnLabel(picture, plan, label, column) {
  const { x, width } = rectangleOf(plan, 0, column);
  const middle = x + width / 2;
  const place = plan.isFlat
    ? { x: middle, y: plan.top - 8, "text-anchor": "middle" }
    : { transform: `translate(${middle} ${plan.top - 7}) rotate(-90)`, "dominant-baseline": "central" };
  return svg("text", { ...place, fill: ideaColour(picture.columnIdea), text: label });
}

function cell(picture, plan, row, column) {
  const { x, y, width, height } = rectangleOf(plan, row, column);
  const box = { x: x + 0.5, y: y + 0.5, width: width - 1, height: height - 1, rx: 2 };
  if (!isVisible(picture, row, column)) return [svg("rect", { ...box, fill: "url(#hatch)" })];
  const shade = shadeOf(picture, row, column);
  const value = picture.weights[row * picture.columns.length + column];
  const drawn = svg("rect", { ...box, fill: `rgb(${shade.join(", ")})` });
  if (width < 34) return [drawn];
  const place = { x: x + width / 2, y: y + height / 2, "text-anchor": "middle", "dominant-baseline": "central" };
  const font = { "font-family": MONO, "font-size": 11, fill: inkOn(shade) };
  return [drawn, svg("text", { ...place, ...font, text: written(picture, value) })];
}

function hatch() {
  const line = svg("path", { d: "M0 6 L6 0", stroke: ideaColour("hatch-ink"), "stroke-width": 1 });
  const settings = { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse" };
  return svg("defs", {}, svg("pattern", settings, line));
}
