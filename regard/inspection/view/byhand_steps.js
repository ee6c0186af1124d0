/**
 * A problem worked out as cards, one for each step: formula, matrices, a sentence, and one word written out.
 *
 * A case: {worked, words, queryWords, start, given, rules, turned, row, before, written, source}; `before` holds
 * what each matrix said last time, `written` what it says now.
 */

import { make } from "./dom.js";
import { strongest, turn, writeNumber, writeNumbers } from "./byhand_arithmetic.js";
import { equation, grid, symbol } from "./byhand_grid.js";
import { writeOutProducts, writeOutScores, writeOutDivision, writeOutSoftmax, writeOutMixture } from "./byhand_row.js";

/** All cards of a case, in order. */
export function stepCards(it) {
  return [project, score, divide, mask, softmax, mix, round, divideAfterAll, answer].map((step) => step(it)).filter(Boolean);
}

/** What the scores are divided by, as it would be written. */
export function divisorInWords({ worked, rules }) {
  const parts = [worked.divisor !== 1 && `√${worked.width}`, rules.temperature !== 1 && writeNumber(rules.temperature)].filter(Boolean);
  return parts.length < 2 ? (parts[0] ?? "1") : `(${parts.join(" · ")})`;
}

function project(it) {
  if (it.start !== "x") return null;
  const { worked } = it;
  const parts = [["Q", worked.query, "query"], ["K", worked.key, "key"], ["V", worked.value, "value"]];
  const grids = parts.map(([name, values, idea]) => matrix(it, name, values, { idea, rows: it.words }));
  return card("1", "Project", product(it.turned), [
    say("Every input meets three learned matrices. Its ", idea("query", "query"), " says what it looks for, its ", idea("key", "key"), " what it offers, its ", idea("value", "value"), " what it hands over."),
    make("div", { class: "equation" }, grids),
    note("A value is not a relevance. Who is relevant to whom is settled by queries and keys alone; the value is what is then handed over."),
  ], writeOutProducts(it));
}

function score(it) {
  if (it.start === "weights") return null;
  const scores = () => pairs(it, "S", it.worked.scores);
  if (it.start === "scores") {
    return card("2", "Score", ["S = ", idea("query", "Q"), " ", turnedIdea("key", "K")], [
      say("One number for each pair, the dot product of a ", idea("query", "query"), " and a ", idea("key", "key"), ": here these are given, and you can change them above."),
      note("High means relevant, near zero unrelated. But softmax sees only differences: adding 5 to a whole row changes nothing, and no score of its own means “ignore”."),
    ]);
  }
  const { query, key } = it.worked;
  const factors = [matrix(it, "Q", query, { idea: "query", rows: it.queryWords }), "×", turnedKey(it, key), "=", scores()];
  return card("2", "Score", it.turned ? ["S", raised("T"), " = ", idea("key", "K"), " ", turnedIdea("query", "Q")] : ["S = ", idea("query", "Q"), " ", turnedIdea("key", "K")], [
    say("One number for each pair of a ", idea("query", "query"), " and a ", idea("key", "key"), `. A ${line(it)} is one query's.`),
    equation(factors, it.turned),
    it.turned && note("With a token as a column, as here, the slides write the scores QᵀK. With a token as a row the same numbers are QKᵀ."),
    note("A dot product is 1 for equal and −1 for opposite directions only where both vectors have length 1 (then it is the cosine). These have not."),
  ], writeOutScores(it));
}

function divide(it) {
  const { worked, rules } = it;
  if (worked.divisor === 1 && rules.temperature === 1) {
    return it.start === "x" && card("3", "Divide by √dₖ", "left out here", [say("Switch “Divide by √dₖ” on to see what the paper's division changes.")]);
  }
  const name = `S / ${divisorInWords(it)}`;
  return card("3", worked.divisor === 1 ? "Divide by the temperature" : "Divide by √dₖ", name, [
    worked.divisor !== 1 && say(`The keys are ${worked.width} numbers long. Long vectors make large scores, and large scores would leave softmax almost nothing but 0 and 1.`),
    rules.temperature !== 1 && say(`The temperature ${writeNumber(rules.temperature)} makes the weights ${rules.temperature > 1 ? "flatter" : "sharper"}.`),
    equation([pairs(it, name, worked.scaled)], it.turned),
    worked.divisor !== 1 && note("Without the division the gradients vanish rather than explode: a softmax that is sure of itself hardly changes."),
  ], writeOutDivision(it, divisorInWords(it)));
}

function mask(it) {
  if (!it.rules.causal) return null;
  const divided = it.worked.divisor !== 1 || it.rules.temperature !== 1;
  const name = divided ? `S / ${divisorInWords(it)} + M` : "S + M";
  return card("M", "Mask", name, [
    say(`Pairs ${it.turned ? "below" : "above"} the diagonal are later words. They become minus infinity, so that softmax gives them exactly 0: no word can look ahead.`),
    equation([pairs(it, name, it.worked.scaled, { hidden: isMasked(it) })], it.turned),
    note("M holds 0 and −∞ and is added after the division. Written inside it, as on some slides, it does no harm only because those two stay what they are when divided."),
  ]);
}

function softmax(it) {
  const given = it.start === "weights" && it.worked.divisor === 1 && it.rules.temperature === 1;
  const along = it.turned ? "down each column" : "along each row";
  return card("4", given ? "Weights" : "Softmax", given ? "A is given" : ["a = e", raised("s"), " / Σ e", raised("s")], [
    say(given ? `What each word takes from every word: shares, so that ${along} the sum Σ is 1.` : `The scores become shares, ${along}: a larger score has a larger share, and the sum Σ is 1.`),
    equation([weightGrid(it, "A", it.worked.weights)], it.turned),
    !given && note("Softmax is taken over the scores alone; V comes after it. And a score of 0 or below does not mean “ignore”: every word that is not masked keeps a positive weight, however small."),
  ], !given && writeOutSoftmax(it));
}

function mix(it) {
  if (!it.worked.output) return null;
  const { weights, value, output } = it.worked;
  return card("5, 6", "Weigh the values and sum", it.turned ? [idea("output", "Z"), raised("T"), " = ", turnedIdea("value", "V"), " A", raised("T")] : [idea("output", "Z"), " = A ", idea("value", "V")], [
    say("Each word becomes a mixture of what all the words it looks at hand over: a new ", idea("output", "vector"), " for every word."),
    mixed(it, "", weights, value, output),
  ], writeOutMixture(it));
}

function round(it) {
  const { rounded, value, weights } = it.worked;
  if (!rounded) return null;
  const places = `${rounded.decimals} decimal${rounded.decimals === 1 ? "" : "s"}`;
  return card("≈", "Rounded as one goes", `weights to ${places} before they are used`, [
    it.source && say(`The well-known worked example that these inputs come from prints 0.0, 0.5, 0.5 where the exact weights are 0.0634, 0.4683, 0.4683: it rounds the weights before it uses them. Neither is wrong: a model computes the exact ones above, a person with a pencil these.`),
    rounded.output ? mixed(it, "rounded ", rounded.weights, value, rounded.output) : equation([weightGrid(it, "rounded A", rounded.weights)], it.turned),
    say(`The rule: cut every weight, then give what is missing to the largest remainders (to the earlier one where two are equal), so that Σ stays 1.${whyNotPlain(weights, rounded.decimals)}`),
  ]);
}

function divideAfterAll(it) {
  if (!it.divided) return null;
  const { weights, value, output, width } = it.divided;
  return card("√", `With the division by √${width}`, ["softmax(", idea("query", "Q"), " ", turnedIdea("key", "K"), " / √dₖ) ", idea("value", "V")], [
    say("The paper divides. The same inputs then give softer weights, and other outputs:"),
    mixed(it, "divided ", weights, value, output),
  ]);
}

function answer(it) {
  const rows = strongest(it.worked.weights).map((best, query) => {
    const names = best.map((key) => it.words[key]).join(" and ");
    return make("li", {}, idea("query", it.queryWords[query]), " → ", idea("key", names), best.length > 1 && " alike");
  });
  const learned = ["wq", "wk", "wv"].filter((name) => name in it.given).length;
  return card("?", "Questions", "", [
    learned > 0 && say("How many weight matrices are learned? ", make("b", { text: String(learned) }), ": W", raised("Q"), ", W", raised("K"), " and W", raised("V"), ". The rest is computed."),
    say("Which word does each look at most?"),
    make("ul", { class: "answers" }, rows),
  ]);
}

function card(sign, title, formula, content, aside = null) {
  const heading = make("h3", {}, make("span", { class: "sign-of-step", text: sign }), ` ${title} `, make("span", { class: "formula" }, formula));
  return make("section", { class: "panel step-card", "data-step": sign }, heading, make("div", { class: "step-main" }, content), aside);
}

function matrix(it, name, values, settings) {
  const table = grid(values, { ...settings, name, turned: it.turned, before: it.before?.[name] });
  it.written[name] = table.written;
  return table;
}

// Kᵀ in an equation: the keys' words stand above it.
function turnedKey(it, key) {
  const settings = { name: "K", idea: "key", columns: it.turned ? null : it.words, rows: it.turned ? it.words : null };
  if (it.turned) return grid(key, { ...settings, before: it.before?.K });
  const table = grid(turn(key), settings);
  table.querySelector("caption").replaceChildren(symbol("K", true));
  return table;
}

function pairs(it, name, values, settings = {}) {
  return matrix(it, name, values, { ...settings, rows: it.queryWords, columns: it.words, signed: true });
}

function weightGrid(it, name, values) {
  const sums = writeNumbers(values.map((row) => [row.reduce((a, b) => a + b, 0)])).map((row) => row[0]);
  return matrix(it, name, values, { rows: it.queryWords, columns: it.words, hidden: isMasked(it), hiddenSign: "·", shaded: true, sums });
}

function mixed(it, prefix, weights, value, output) {
  const factors = [
    matrix(it, `${prefix}A`, weights, { rows: it.queryWords, columns: it.words, hidden: isMasked(it), hiddenSign: "·", shaded: true }),
    "×",
    matrix(it, "V", value, { idea: "value" }),
    "=",
    matrix(it, `${prefix}Z`, output, { idea: "output", rows: it.queryWords }),
  ];
  return equation(factors, it.turned);
}

function isMasked(it) {
  return (i, j) => it.worked.masked[i][j] === -Infinity;
}

function whyNotPlain(exact, decimals) {
  for (const row of exact) {
    const plain = row.map((weight) => Number(weight.toFixed(decimals)));
    const sum = plain.reduce((a, b) => a + b, 0);
    if (Math.abs(sum - 1) < 1e-9 || sum === 0) continue;
    const numbers = plain.map((weight) => weight.toFixed(decimals)).join(", ");
    return ` Plain rounding would make ${writeNumbers([row])[0].join(", ")} into ${numbers}, which is ${sum.toFixed(decimals)} in all.`;
  }
  return "";
}

function product(turned) {
  return ["Q", "K", "V"].flatMap((letter, number) => {
    const name = { Q: "query", K: "key", V: "value" }[letter];
    const weights = make("span", { class: name }, symbol(`W^${letter}`, turned));
    const parts = turned ? [turnedIdea(name, letter), " = ", weights, " X", raised("T")] : [idea(name, letter), " = X ", weights];
    return [number ? "\u2003" : "", ...parts];
  });
}

function line(it) {
  return it.turned ? "column" : "row";
}

function idea(name, text) {
  return make("b", { class: name, text });
}

function turnedIdea(name, letter) {
  return make("span", { class: name }, symbol(letter, true));
}

function raised(text) {
  return make("sup", { text });
}

function say(...words) {
  return make("p", {}, words);
}

function note(text) {
  return make("p", { class: "note", text });
}
