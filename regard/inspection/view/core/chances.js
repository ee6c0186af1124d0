/** What may come next: probabilities from logits, cut and drawn in the browser as regard.inference does. */

const COLD = 1e-4; // at a lower temperature the likeliest is all that is left

/** The ids from the likeliest to the least likely; of equals the lower id first. */
export function rank(logits) {
  const order = Uint32Array.from(logits, (_, id) => id);
  return order.sort((a, b) => logits[b] - logits[a] || a - b);
}

/**
 * What temperature, top-k and top-p make of the logits, in the order of `rank`.
 *
 * shares: the probability of each after all of it (0 where it is out); plain: softmax as it was; kept: how many
 * remain; cut: the share that the others had at this temperature; entropy: of the shares, in bits.
 */
export function distribution(logits, order, { temperature = 1, topK = 0, topP = 1 } = {}) {
  const plain = softmax(logits, order, 1);
  const cold = temperature < COLD;
  const warm = cold ? sure(order.length) : softmax(logits, order, temperature);
  const kept = cold ? 1 : survivors(warm, topK, topP);
  const mass = sum(warm, kept);
  const shares = warm.map((share, place) => (place < kept ? share / mass : 0));
  return { order, shares, plain, kept, cut: Math.max(0, 1 - mass), entropy: entropy(shares) };
}

/** Entropy in bits: how many yes-or-no questions the next word is worth. */
export function entropy(shares) {
  let bits = 0;
  for (const share of shares) if (share > 0) bits -= share * Math.log2(share);
  return Math.max(0, bits);
}

/** The place in the order on which a number between 0 and 1 falls, the shares laid end to end. */
export function draw(shares, uniform) {
  const aim = uniform * sum(shares, shares.length);
  let reached = 0;
  for (let place = 0; place < shares.length; place++) {
    reached += shares[place];
    if (reached > aim) return place;
  }
  return lastPositive(shares);
}

/** A number from 0 up to 1 that a seed and a place decide, so that the same seed writes the same words. */
export function uniformAt(seed, place) {
  let state = (Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) + Math.imul(place + 1, 0x6d2b79f5)) | 0;
  state = Math.imul(state ^ (state >>> 15), state | 1);
  state ^= state + Math.imul(state ^ (state >>> 7), state | 61);
  return ((state ^ (state >>> 14)) >>> 0) / 4294967296;
}

/** A share as people read it, never rounded up to a certainty or down to nothing. */
export function writeShare(share, digits = 3) {
  const least = 10 ** -digits;
  if (share > 0 && share < least / 2) return `< ${least.toFixed(digits)}`;
  if (share < 1 && share > 1 - least / 2) return `> ${(1 - least).toFixed(digits)}`;
  return share.toFixed(digits);
}

/** Half the sum of all differences: the share that went elsewhere. */
export function distance(first, second) {
  let all = 0;
  for (let i = 0; i < first.length; i++) all += Math.abs(first[i] - second[i]);
  return all / 2;
}

/** Softmax of logits in the order of ids. */
export function probabilities(logits) {
  const ids = Uint32Array.from(logits, (_, id) => id);
  return softmax(logits, ids, 1, logits.reduce((a, b) => Math.max(a, b), -Infinity));
}

function softmax(logits, order, temperature, largest = logits[order[0]]) {
  const shares = Float64Array.from(order, (id) => Math.exp((logits[id] - largest) / temperature));
  const all = sum(shares, shares.length);
  return shares.map((share) => share / all);
}

function sure(length) {
  const shares = new Float64Array(length);
  shares[0] = 1;
  return shares;
}

function survivors(shares, topK, topP) {
  const most = topK > 0 ? Math.min(topK, shares.length) : shares.length;
  if (!(topP < 1)) return most;
  const aim = topP * sum(shares, most);
  let reached = 0;
  for (let place = 0; place < most; place++) {
    reached += shares[place];
    if (reached >= aim) return place + 1;
  }
  return most;
}

function sum(shares, count) {
  let all = 0;
  for (let place = 0; place < count; place++) all += shares[place];
  return all;
}

function lastPositive(shares) {
  let place = shares.length - 1;
  while (place > 0 && shares[place] === 0) place -= 1;
  return place;
}
