/**
 * Attention by hand: small matrices worked out in double precision, the same steps and the same rules as
 * regard.inspection.by_hand. A matrix is a list of rows, and a row of it is a token.
 */

export const LARGEST = 1e30;
export const COLDEST = 1e-6;
export const HOTTEST = 1e6;
const NAMES = { x: "X", wq: "W^Q", wk: "W^K", wv: "W^V", q: "Q", k: "K", v: "V", scores: "S", weights: "A" };

/** What people call a matrix that is given under a short name. */
export function nameOf(name) {
  return NAMES[name] ?? name;
}

/** A number as a person typed it, or an Error whose message says what to write instead. */
export function readNumber(typed, place) {
  const plain = String(typed).trim().replace(/[−–]/g, "-").replace(",", ".");
  const number = plain === "" ? NaN : Number(plain);
  if (Number.isFinite(number) && Math.abs(number) <= LARGEST) return number;
  if (plain === "") throw new Error(`${place} is empty; write a number such as 0 or 1.5`);
  const shown = plain.length > 24 ? `${plain.slice(0, 23)}…` : plain;
  if (Math.abs(number) > LARGEST) throw new Error(`${place} holds ${shown}; write a number between -1e30 and 1e30`);
  throw new Error(`${place} holds “${shown}”, which is not a number; write one such as 0, -2 or 1.5`);
}

/** Rows times columns: the product of two matrices. */
export function multiply(left, right) {
  if (left[0].length !== right.length) throw new Error(`${shape(left)} and ${shape(right)} do not multiply`);
  return left.map((row) => right[0].map((_, j) => row.reduce((sum, number, i) => sum + number * right[i][j], 0)));
}

/** The same with rows as columns. */
export function turn(matrix) {
  return matrix[0].map((_, j) => matrix.map((row) => row[j]));
}

/** Rows x columns, in words. */
export function shape(matrix) {
  return `${matrix.length} x ${matrix[0].length}`;
}

/** Where the working begins: with inputs, with scores or with weights. */
export function startOf(given) {
  return ["x", "q", "scores", "weights"].find((name) => name in given);
}

/**
 * Every step from what is given to the output.
 *
 * rules: scale (divide by the root of the key width), causal, temperature, decimals (null: no early rounding).
 * keyWidth: dₖ where scores are given; otherwise the queries' own width.
 */
export function workOut(given, rules, keyWidth = null) {
  const { query, key, value } = project(given);
  const width = "x" in given || "q" in given ? query[0].length : keyWidth;
  const scores = multiply(query, turn(key));
  const divisor = divisorOf(rules, width);
  const scaled = scores.map((row) => row.map((score) => score / (divisor * checkedTemperature(rules))));
  const masked = scaled.map((row, i) => row.map((score, j) => (rules.causal && j > i ? -Infinity : score)));
  const exponentials = masked.map(powers);
  const weights = exponentials.map(shares);
  const output = value && multiply(weights, value);
  const rounded = rules.decimals === null ? null : roundEarly(weights, value, rules.decimals);
  return { query, key, value, width, scores, divisor, scaled, masked, exponentials, weights, output, rounded };
}

/** For each query the keys with the largest weight; more than one where they tie. */
export function strongest(weights) {
  return weights.map((row) => {
    const largest = Math.max(...row);
    return row.flatMap((weight, key) => (largest - weight <= 1e-8 + 1e-9 * largest ? [key] : []));
  });
}

/**
 * Weights rounded so that every row keeps its sum: each is cut, and the units then missing go to the largest
 * remainders, to the earlier one where two tie.
 */
export function roundToWhole(weights, decimals) {
  const unit = 10 ** decimals;
  return weights.map((row) => {
    const units = row.map((weight) => weight * unit);
    const cut = units.map((number) => Math.floor(number + 1e-9));
    const missing = Math.round(total(units) - total(cut));
    const rest = units.map((number, i) => Math.round((number - cut[i]) * 1e9));
    const largestFirst = row.map((_, i) => i).sort((a, b) => rest[b] - rest[a] || a - b);
    for (const place of largestFirst.slice(0, missing)) cut[place] += 1;
    return cut.map((number) => number / unit);
  });
}

/** All numbers of a matrix in one format: as many decimals as they need, four at most. */
export function writeNumbers(matrix, signed = false) {
  const finite = matrix.flat().filter(Number.isFinite);
  const largest = Math.max(0, ...finite.map(Math.abs));
  const plus = signed && finite.some((number) => number < 0);
  const write = largest >= 1e6 || (largest > 0 && largest < 1e-3) ? (n) => n.toExponential(3) : fixed(finite);
  return matrix.map((row) => row.map((number) => withSign(number, write, plus)));
}

/** One number in the same format. */
export function writeNumber(number) {
  return writeNumbers([[number]])[0][0];
}

function withSign(number, write, plus) {
  if (number === -Infinity) return "−∞";
  const written = write(number).replace(/^-(0(?:\.0*)?)$/, "$1").replaceAll("-", "−");
  return plus && !written.startsWith("−") ? `+${written}` : written;
}

function fixed(finite) {
  const needs = [0, 1, 2, 3].find((n) => finite.every((x) => Math.abs(x - Number(x.toFixed(n))) <= 1e-9));
  return (number) => number.toFixed(needs ?? 4);
}

function project(given) {
  if ("x" in given) {
    for (const name of ["wq", "wk", "wv"]) checkProduct(given.x, given[name], name);
    return {
      query: multiply(given.x, given.wq),
      key: multiply(given.x, given.wk),
      value: multiply(given.x, given.wv),
    };
  }
  if ("q" in given) return { query: given.q, key: given.k, value: given.v ?? null };
  const scores = "scores" in given ? given.scores : logarithms(given.weights);
  // With one axis for each key, a query's dot products with the keys are its own numbers.
  const axes = scores[0].map((_, i) => scores[0].map((_, j) => Number(i === j)));
  return { query: scores, key: axes, value: given.v ?? null };
}

function checkProduct(x, weights, name) {
  if (weights.length === x[0].length) return;
  throw new Error(`X is ${shape(x)} and ${NAMES[name]} is ${shape(weights)}; ${NAMES[name]} needs ${x[0].length} rows`);
}

function logarithms(weights) {
  weights.forEach((row, i) => {
    const low = row.find((weight) => weight <= 0);
    if (low !== undefined) throw new Error(`A, row ${i} holds ${low}; a weight is above 0, however small`);
    const sum = total(row);
    if (Math.abs(sum - 1) > 1e-5) {
      throw new Error(`A, row ${i} adds up to ${writeNumber(sum)}; the weights of a row are shares of 1, change another one too`);
    }
  });
  return weights.map((row) => row.map(Math.log));
}

function divisorOf(rules, width) {
  if (!rules.scale) return 1;
  if (width === null) throw new Error("scores alone do not tell dₖ, whose root divides them; write dₖ, or switch the division off");
  return Math.sqrt(width);
}

function checkedTemperature({ temperature }) {
  if (temperature >= COLDEST && temperature <= HOTTEST) return temperature;
  throw new Error(`the temperature is ${temperature}; it must be above 0 (1 changes nothing, near 0 the largest score takes all)`);
}

function powers(row) {
  const largest = Math.max(...row);
  return row.map((score) => (largest === -Infinity ? 0 : Math.exp(score - largest)));
}

function shares(row) {
  const sum = total(row);
  return row.map((power) => (sum === 0 ? 0 : power / sum));
}

function roundEarly(weights, value, decimals) {
  const cut = roundToWhole(weights, decimals);
  return { decimals, weights: cut, output: value && multiply(cut, value) };
}

function total(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0);
}
