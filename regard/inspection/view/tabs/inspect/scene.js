/** What is to be drawn of one head: its labels, weights, and where the chosen cell stands among them. */

import { quoted } from "../../core/dom.js";
import { kindOf, partsOf } from "../../core/tracing.js";
import { telling, largestIn } from "../../core/choice.js";
import { rowName, rowTexts } from "../../core/rows.js";

/**
 * The scene of a choice over the sheet of its layer.
 *
 * row and column count what is shown, words or tokens; query and key are always positions of tokens.
 */
export function sceneOf(trace, choice, sheet, isWords) {
  const kind = kindOf(trace, choice.kind);
  const rows = partsOf(trace, kind.queries, isWords);
  const columns = partsOf(trace, kind.keys, isWords);
  const weights = headOf(sheet, choice.head);
  const row = choice.query === null ? telling(weights, rows, columns) : placeOf(rows, choice.query);
  const column = choice.key === null ? largestIn(weights, row, columns.length) : placeOf(columns, choice.key);
  const place = {
    query: choice.query ?? positionOf(rows[row], row),
    key: choice.key ?? positionOf(columns[column], column),
  };
  return {
    ...choice,
    ...place,
    trace,
    kindInfo: kind,
    rows,
    rowTexts: rowTexts(trace, kind, isWords),
    columns,
    weights,
    visible: sheet.arrays.visible.data,
    sheet,
    row,
    column,
    isWords,
  };
}

/** The weights of one head out of a layer's sheet, row by row. */
export function headOf({ arrays }, head) {
  const [, rows, columns] = arrays.weights.shape;
  return arrays.weights.data.subarray(head * rows * columns, (head + 1) * rows * columns);
}

/** One row of a scene. */
export function rowOf(scene, row) {
  return scene.weights.subarray(row * scene.columns.length, (row + 1) * scene.columns.length);
}

/** Where a token stands among words or tokens. */
export function placeOf(parts, position) {
  if (!parts[0]?.positions) return position;
  return Math.max(0, parts.findIndex(({ positions }) => positions.includes(position)));
}

/** The position of the first token of a word, or of a token itself. */
export function positionOf(part, place) {
  return part.positions ? part.positions[0] : place;
}

/** Put the exact weights of a row, as its steps have them, over those that came in few bits; false where they cannot be. */
export function sharpen(scene, { arrays }) {
  const asks = scene.rows[scene.row];
  if (asks.positions?.length > 1) return false;
  scene.columns.forEach(({ positions }, column) => {
    const exact = (positions ?? [column]).reduce((sum, key) => sum + arrays.weights.data[key], 0);
    scene.weights[scene.row * scene.columns.length + column] = exact;
  });
  return true;
}

/** Where the server gives a file of a scene: every weight of the sentence, or a page with this row pinned; or null. */
export function fileOf(source, scene, ending) {
  if (!scene) return source.saveAddress("none", ending);
  const { kind, layer, head, row, isWords, trace } = scene;
  const place = ending === "npz" ? {} : { kind, layer, head, words: isWords || null, query: row };
  return source.saveAddress(trace.trace, ending, place);
}

/** What a row says in one sentence: the words looked at most. */
export function rowSentence(scene, row) {
  const weights = rowOf(scene, row);
  const order = Array.from(weights.keys()).sort((one, other) => weights[other] - weights[one]);
  const told = order.slice(0, 3).filter((key, place) => place === 0 || weights[key] >= 0.05);
  const said = told.map((key) => `${quoted(scene.columns[key].text)} (${weights[key].toFixed(2)})`);
  const list = said.length > 1 ? `${said.slice(0, -1).join(", ")} and ${said.at(-1)}` : said[0];
  return `${askerOf(scene, row)} looks most at ${list}.`;
}

/** What a cell says in one sentence. */
export function cellSentence(scene, row, column) {
  const [asks, answers] = [askerOf(scene, row), quoted(scene.columns[column].text)];
  const at = row * scene.columns.length + column;
  if (!scene.visible[at]) return `${asks} may not look at ${answers}: that word comes later.`;
  return `${asks} looks at ${answers} with weight ${scene.weights[at].toFixed(4)}.`;
}

// At the start of a sentence.
function askerOf({ trace, kindInfo, isWords }, row) {
  const name = rowName(trace, kindInfo, isWords, row);
  return name[0].toUpperCase() + name.slice(1);
}
