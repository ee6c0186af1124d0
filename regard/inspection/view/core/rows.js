/**
 * How rows of attention are named. A row of a translation's decoder belongs to a step that reads one word and writes
 * the next, so it is named by both: "qu' → il".
 */

import { quoted } from "./dom.js";
import { partsOf } from "./tracing.js";

const END = "<end>";

/** Whether the rows of a kind of attention are steps that write: those of a translation's decoder. */
export function rowsWrite(trace, kind) {
  return !!trace.sides.source && kind.queries === "target";
}

/** The text of every row of a kind, over words or tokens. */
export function rowTexts(trace, kind, isWords) {
  const texts = partsOf(trace, kind.queries, isWords).map(({ text }) => text);
  return rowsWrite(trace, kind) ? texts.map((text, row) => `${text} → ${texts[row + 1] ?? END}`) : texts;
}

/** What a row is called in a sentence: the step that writes a word, or the word that asks. */
export function rowName(trace, kind, isWords, row) {
  const parts = partsOf(trace, kind.queries, isWords);
  if (!rowsWrite(trace, kind)) return quoted(parts[row].text);
  const next = parts[row + 1];
  return `the step that writes ${next ? quoted(next.text) : "the end"}`;
}
