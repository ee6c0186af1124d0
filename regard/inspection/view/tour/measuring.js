/**
 * What the tour says of the loaded model, measured before it is said: each function gives {words, state}, sentences
 * and what the page shows with them.
 */

import { quoted, digits } from "../core/dom.js";
import { probabilities, writeShare } from "../core/chances.js";
import { forkOf, strongestHead } from "../core/rivals.js";
import { kindOf } from "../core/tracing.js";
import { rowName } from "../core/rows.js";
import { tokenText } from "../parts/share_table.js";
import { headOf, placeOf } from "../tabs/inspect/scene.js";
import { moveEverywhere, wholeRow } from "../tabs/inspect/interventions.js";

const MOST_INTERVENTIONS = 64; // that one request may hold

/** The finding about a sentence. */
export async function findingOf(source, model, text) {
  const { finding } = await source.trace(requestFor(model, text));
  return { words: [`Measured in this model: ${finding.claim} ${finding.detail}`] };
}

/** What each head of the proposed layer looks at most, for the proposed row. */
export async function headsOf(source, model, text) {
  const trace = await source.trace(requestFor(model, text));
  const { kind, layer, query } = trace.pinned;
  const attention = kindOf(trace, kind);
  const sheet = await source.layer(trace.trace, kind, layer, true);
  const [rows, columns] = [attention.queries, attention.keys].map((side) => trace.sides[side].words);
  const row = placeOf(rows, query);
  const most = Array.from({ length: trace.heads }, (_, head) => {
    const shares = headOf(sheet, head).subarray(row * columns.length, (row + 1) * columns.length);
    const at = shares.indexOf(Math.max(...shares));
    const looks = head ? "" : " looks most";
    return { at, text: `head ${head}${looks} at ${quoted(columns[at].text)} (${digits(shares[at], 2)})` };
  });
  const count = new Set(most.map(({ at }) => at)).size;
  const told = `for ${rowName(trace, attention, true, row)}, ${most.map((each) => each.text).join(", ")}.`;
  const verdict = count === 1 ? "All heads look most at the same word." : `The ${trace.heads} heads look most at ${count} different words.`;
  return { words: [`Measured in this layer: ${told} ${verdict}`] };
}

/** What the model makes of two sentences where its outputs part. */
export async function partingOf(source, { name: model }, first, second, word) {
  const trace = await source.trace(requestFor({ name: model }, first));
  const side = trace.kinds[0].queries;
  const number = Math.max(0, trace.sides[side].words.findIndex(({ text }) => text === word));
  const { next } = await source.compare({ model, first, second, side, word: number, ablate: [], snapshot: null });
  if (!next.length) return { words: [] };
  const likeliest = (name) => next.reduce((best, each) => (each[name] > best[name] ? each : best));
  const [one, other] = [likeliest("first"), likeliest("second")];
  const told = ({ text }, share) => `${quoted(tokenText(text))} (${writeShare(share, 2)})`;
  const both = `${told(one, one.first)} in the first sentence and ${told(other, other.second)} in the second`;
  const same = one.text === other.text ? " This model does not tell the two sentences apart here." : "";
  return { words: [`Measured in this model: the likeliest word is ${both}.${same}`] };
}

/**
 * What moving the weight of a word from one noun to another does to the output: in the encoder head in which it is
 * largest, and in all cross-attention heads of the step that writes.
 */
export async function interventionEffect(source, model, { first, second, word, from, to }) {
  const [base, other] = await Promise.all([first, second].map((text) => source.trace(requestFor(model, text))));
  const fork = forkOf(base.sides.target.tokens, other.sides.target.tokens);
  if (!fork) return { words: ["This model writes the same for both sentences, so there is no word to turn here."] };
  const { position, words: ids } = fork;
  const query = base.sides.source.words.find(({ text }) => text === word).positions[0];
  const place = await strongestHead(source, base, "encoder", query, from);
  const [inHead] = (await rowsAt(source, base, "encoder", query)).filter(({ layer, head }) => layer === place.layer && head === place.head);
  const ofStep = (await rowsAt(source, base, "cross", position)).slice(-MOST_INTERVENTIONS);
  const outcome = (own) => outcomeOf(source, requestFor(model, first), own, base, position, from, to);
  const [before, one, all] = [await outcome([]), await outcome([inHead]), await outcome(ofStep)];
  const name = tokenText(base.sides.target.tokens[position + 1].text);
  const share = ({ shares }) => writeShare(shares[ids[0]], 2);
  return {
    state: place,
    words: [
      `Measured in this model: ${quoted(word)} looks most at ${quoted(from)} in encoder, layer ${place.layer}, head ${place.head}. P(${name}) is ${share(before)}. With that weight moved to ${quoted(to)} it is ${share(one)}.`,
      verdictOf(before.translation, one.translation),
      `The same move in all ${ofStep.length} cross-attention heads of the step that writes “${name}” gives ${share(all)}.`,
    ],
  };
}

/** The losses at both ends of a run. */
export async function lossesOf(source, { name }) {
  const { steps } = await source.progress(name);
  if (steps.length < 2) return { words: [] };
  const [first, last] = [steps[0], steps.at(-1)];
  const fell = last.loss < first.loss ? "fell" : "went";
  return { words: [`In this run the loss ${fell} from ${digits(first.loss, 2)} at step ${first.step} to ${digits(last.loss, 2)} at step ${last.step}.`] };
}

function verdictOf(before, after) {
  if (before !== after) return `The translation turns into “${after}”: here this head decides.`;
  return "The translation stays the same: this head alone does not decide.";
}

/** The model's own rows of one query in all heads of a kind. */
async function rowsAt(source, trace, kind, query) {
  const { layers } = kindOf(trace, kind);
  const sheets = await Promise.all(Array.from({ length: layers }, (_, layer) => source.layer(trace.trace, kind, layer)));
  return sheets.flatMap((sheet, layer) => Array.from({ length: trace.heads }, (_, head) => {
    const [, , keys] = sheet.arrays.weights.shape;
    const row = Array.from(headOf(sheet, head).subarray(query * keys, (query + 1) * keys));
    return { kind, layer, head, query, row: wholeRow(row) };
  }));
}

async function outcomeOf(source, request, own, base, position, from, to) {
  const { words } = base.sides.source;
  const [away, there] = [from, to].map((word) => words.findIndex(({ text }) => text === word));
  const interventions = moveEverywhere([], own, words, away, there, 1);
  const trace = await source.trace({ ...request, interventions });
  const { arrays } = await source.next(trace.trace, position);
  return { shares: probabilities(arrays.logits.data), translation: trace.translation };
}

function requestFor({ name: model }, text) {
  return { model, text, target: null, target_ids: null, ablate: [], interventions: [], snapshot: null };
}
