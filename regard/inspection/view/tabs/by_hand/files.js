/** Attention by hand to take away: the weights as a drawing, every matrix as lines of a table and as arrays. */

import { writeNumber } from "./arithmetic.js";
import { matrixSvg } from "../../pictures/matrix_svg.js";
import { listOf, matrixOf } from "../../saving/npz.js";

const NAMES = ["query", "key", "value", "scores", "scaled", "masked", "weights", "output"];
const LOOK = { numbers: "all", decimals: 4, signed: false, largest: 1, rowIdea: "query", columnIdea: "key" };

/** The weights. */
export function drawingOf({ weights, masked, words, queryWords }) {
  const visible = masked.flat().map((score) => Number(score !== -Infinity));
  return matrixSvg({ rows: queryWords, columns: words, weights: weights.flat(), visible, ...LOOK });
}

/** Every matrix of the working, a line for each of its rows; the shorter ones are filled up. */
export function linesOf(worked) {
  const written = (number) => (Number.isFinite(number) ? number : writeNumber(number));
  const lines = NAMES.flatMap((name) => (worked[name] ?? []).map((row, place) => [name, place, ...row.map(written)]));
  const widest = Math.max(...lines.map(({ length }) => length));
  const columns = Array.from({ length: widest - 2 }, (_, column) => `column ${column}`);
  const rows = lines.map((line) => [...line, ...Array(widest - line.length).fill("")]);
  return { columns: ["matrix", "row", ...columns], rows };
}

/** What is given and what was worked out, each as it is, and the words. */
export function matricesOf({ given, words, queryWords, ...worked }) {
  const made = NAMES.filter((name) => worked[name]).map((name) => [name, worked[name]]);
  const matrices = [...Object.entries(given), ...made].map(([name, rows]) => [name, matrixOf(rows)]);
  return { words: listOf(words), asking: listOf(queryWords), ...Object.fromEntries(matrices) };
}
