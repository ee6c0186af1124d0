/**
 * A row of attention changed by hand, over the words that its tokens make up; it always sums to 1.
 *
 * words: [{positions}], each with the places of its tokens in the row; what may not be looked at stays 0.
 */

/** The share of each word. */
export function sharesOf(row, words) {
  return words.map(({ positions }) => positions.reduce((sum, place) => sum + row[place], 0));
}

/** The same row with so much weight taken from one word and given to another. */
export function moveWeight(row, words, from, to, amount) {
  const shares = sharesOf(row, words);
  const moved = Math.max(0, Math.min(amount, shares[from]));
  if (from === to || moved === 0) return [...row];
  const changed = spread(row, words[from].positions, shares[from] - moved);
  return spread(changed, words[to].positions, shares[to] + moved);
}

/** The row with one word's weight set, and what the others were multiplied by so that the sum is 1 again. */
export function setWeight(row, words, word, weight) {
  const shares = sharesOf(row, words);
  const wanted = Math.max(0, Math.min(1, weight));
  const others = 1 - shares[word];
  if (others <= 1e-12) return { row: evenly(row, words, word, wanted), factor: null };
  const factor = (1 - wanted) / others;
  const own = new Set(words[word].positions);
  const scaled = row.map((share, place) => (own.has(place) ? share : share * factor));
  return { row: spread(scaled, words[word].positions, wanted), factor };
}

/** The interventions with this one in place of any for the same row; a row that is as it was is taken out. */
export function withIntervention(interventions, intervention, original) {
  const others = interventions.filter((each) => !isSameRow(each, intervention));
  const isUnchanged = intervention.row.every((share, place) => Math.abs(share - original[place]) < 1e-9);
  return isUnchanged ? others : [...others, { ...intervention, row: shortened(intervention.row) }];
}

/** The intervention of that row, if there is one. */
export function interventionOf(interventions, place) {
  return interventions.find((intervention) => isSameRow(intervention, place));
}

/**
 * The interventions after the same part of a word's weight was moved to another word in several rows at once.
 *
 * originals: the model's own rows, {kind, layer, head, query, row}; what `start` has changed already is kept.
 */
export function moveEverywhere(start, originals, words, from, to, part) {
  return originals.reduce((interventions, own) => {
    const row = interventionOf(start, own)?.row ?? own.row;
    const amount = part * sharesOf(row, words)[from];
    return withIntervention(interventions, { ...own, row: moveWeight(row, words, from, to, amount) }, own.row);
  }, start);
}

/** A row whose rounding has been mended: shares divided by their sum. */
export function wholeRow(row) {
  const sum = row.reduce((all, share) => all + share, 0);
  return row.map((share) => share / (sum || 1));
}

// The address holds these numbers: five decimals are enough, and the largest makes up for what is cut off.
function shortened(row) {
  const short = row.map((share) => Math.round(share * 1e5) / 1e5);
  const rest = 1 - short.reduce((sum, share) => sum + share, 0);
  const largest = short.indexOf(Math.max(...short));
  short[largest] = Math.round((short[largest] + rest) * 1e5) / 1e5;
  return short;
}

function isSameRow(one, other) {
  return ["kind", "layer", "head", "query"].every((name) => one[name] === other[name]);
}

function spread(row, places, wanted) {
  const now = places.reduce((sum, place) => sum + row[place], 0);
  const changed = [...row];
  for (const place of places) changed[place] = now > 1e-12 ? (row[place] * wanted) / now : wanted / places.length;
  return changed;
}

// Where all the weight lies on one word, what it gives up goes to the others alike.
function evenly(row, words, word, wanted) {
  const own = new Set(words[word].positions);
  const others = words.flatMap(({ positions, hidden }, number) => (number === word || hidden ? [] : positions));
  if (!others.length) return [...row];
  const changed = row.map((share, place) => (own.has(place) ? share : 0));
  for (const place of others) changed[place] = (1 - wanted) / others.length;
  return spread(changed, words[word].positions, wanted);
}
