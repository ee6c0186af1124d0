/** Where two readings of one sentence part, and which two words contend there. */

import { distance, probabilities } from "./chances.js";
import { rowsOf } from "./alignment.js";

/** The place after which two outputs first say different words: {position, words: [id, id]}; null where never. */
export function forkOf(first, second) {
  for (let place = 1; place < Math.min(first.length, second.length); place++) {
    if (first[place].id !== second[place].id) return {
      position: place - 1,
      words: [first[place].id, second[place].id],
    };
  }
  return null;
}

/**
 * The pair of example sentences that a sentence belongs to, whatever mark ends it: {other, watched}; null where none.
 *
 * @param {string} text
 * @param {string[][]} pairs each [first sentence, second sentence, the word to watch]
 */
export function pairOf(text, pairs) {
  const own = plain(text);
  for (const [first, second, watched] of pairs) {
    if (plain(first) === own) return { other: second, watched };
    if (plain(second) === own) return { other: first, watched };
  }
  return null;
}

/** A sentence without the marks at its end, and with straight apostrophes. */
export function plain(text) {
  return text.trim().replace(/[.!?]+$/, "").replaceAll("’", "'");
}

/** The two likeliest words after a position. */
export function likeliestTwo(logits) {
  let [first, second] = [0, -1];
  for (let id = 1; id < logits.length; id++) {
    if (logits[id] > logits[first]) [first, second] = [id, first];
    else if (second < 0 || logits[id] > logits[second]) second = id;
  }
  return [first, second];
}

/** The position at which the second likeliest word is strongest, with both. */
export function closestRace(all) {
  let best = null;
  all.forEach((logits, position) => {
    const words = likeliestTwo(logits);
    const share = probabilities(logits)[words[1]];
    if (!best || share > best.share) best = { position, words, share };
  });
  return best && { position: best.position, words: best.words };
}

/** The position whose distribution changed most, with the word that lost most and the one that gained most. */
export function widestChange(before, after) {
  let best = null;
  before.forEach((logits, position) => {
    const [was, is] = [probabilities(logits), probabilities(after[position])];
    const moved = distance(was, is);
    if (!best || moved > best.moved) best = { position, moved, words: losersAndGainers(was, is) };
  });
  return best;
}

/**
 * The position at which the last layer's second likeliest word is strongest, or the last position.
 *
 * @param {any} probabilities (layers, positions, likeliest words)
 * @param {number | null} place a position counted from the end; null for the closest race
 */
export function likeliestRivals({ shape: [layers, positions, top], data }, place = null) {
  if (place !== null) return positions + place;
  const second = Array.from({ length: positions }, (_, at) => data[((layers - 1) * positions + at) * top + 1] ?? 0);
  return second.indexOf(Math.max(...second));
}

/** The head of a kind whose row `query` gives a source word the largest weight. */
export async function strongestHead(source, trace, kind, query, word) {
  const { layers } = trace.kinds.find(({ name }) => name === kind);
  const places = trace.sides.source.words.filter(({ text }) => text === word).flatMap(({ positions }) => positions);
  const sheets = await Promise.all(Array.from(
    { length: layers },
    (_, layer) => source.layer(trace.trace, kind, layer),
  ));
  let best = { weight: -1 };
  sheets.forEach(({ arrays }, layer) => {
    for (let head = 0; head < trace.heads; head++) {
      const row = rowsOf(arrays.weights, head)[query];
      const weight = Math.max(0, ...places.map((place) => row[place]));
      if (weight > best.weight) best = { weight, layer, head };
    }
  });
  return { kind, layer: best.layer, head: best.head, query, key: null };
}

function losersAndGainers(was, is) {
  let [lost, gained] = [0, 0];
  for (let id = 0; id < was.length; id++) {
    const change = is[id] - was[id];
    if (change < is[lost] - was[lost]) lost = id;
    if (change > is[gained] - was[gained]) gained = id;
  }
  return [lost, gained];
}
