/**
 * A problem worked out as cards, one for each step: formula, matrices, a sentence, and one word written out.
 *
 * A case: {worked, divided, words, queryWords, start, given, rules, turned, row, before, written, source};
 * `before` holds what each matrix said last time, `written` what it says now, `divided` the same problem with
 * the paper's division.
 */

import { make } from "../../core/dom.js";
import { strongest, writeNumber, writeNumbers } from "./arithmetic.js";
import { coloured } from "../../parts/coloured.js";
import { equation } from "./grid.js";
import { isMasked, matrix, mixed, pairs, scoring, weightGrid } from "./matrices.js";
import { writeOutDivision, writeOutMixture, writeOutProducts, writeOutScores, writeOutSoftmax } from "./row.js";

const STEPS = [project, score, divide, mask, softmax, mix, round, divideAfterAll, answer];

/** All cards of a case, in order. */
export function stepCards(it) {
  return STEPS.map((step) => step(it)).filter(Boolean);
}

/** What the scores are divided by, as it would be written. */
function divisorInWords({ worked, rules }) {
  const root = worked.divisor !== 1 && `√${worked.width}`;
  const heat = rules.temperature !== 1 && writeNumber(rules.temperature);
  const parts = [root, heat].filter(Boolean);
  return parts.length < 2 ? (parts[0] ?? "1") : `(${parts.join(" · ")})`;
}

function project(it) {
  if (it.start !== "x") return null;
  const { query, key, value } = it.worked;
  const parts = [["Q", query, "query"], ["K", key, "key"], ["V", value, "value"]];
  const grids = parts.map(([name, values, idea]) => matrix(it, name, values, { idea, rows: it.words }));
  const formula = it.turned
    ? "[query]Q^T[/] = [query](W^Q)^T[/] X^T\u2003[key]K^T[/] = [key](W^K)^T[/] X^T\u2003[value]V^T[/] = [value](W^V)^T[/] X^T"
    : "[query]Q[/] = X [query]W^Q[/]\u2003[key]K[/] = X [key]W^K[/]\u2003[value]V[/] = X [value]W^V[/]";
  return card("1", "Project", formula, writeOutProducts(it), [
    say(
      "Every input meets three learned matrices. Its [query]query[/] says what it looks for, its " +
        "[key]key[/] what it offers, its [value]value[/] what it hands over.",
    ),
    make("div", { class: "equation" }, grids),
    note(
      "A value is not a relevance. Who is relevant to whom is settled by queries and keys alone; the value " +
        "is what is then handed over.",
    ),
  ]);
}

function score(it) {
  if (it.start === "weights") return null;
  const formula = it.turned ? "S^T = [key]K[/] [query]Q^T[/]" : "S = [query]Q[/] [key]K^T[/]";
  return it.start === "scores" ? givenScores(formula) : madeScores(it, formula);
}

function givenScores(formula) {
  return card("2", "Score", formula, null, [
    say(
      "One number for each pair, the dot product of a [query]query[/] and a [key]key[/]: here these are " +
        "given, and you can change them above.",
    ),
    note(
      "High means relevant, near zero unrelated. But softmax sees only differences: adding 5 to a whole row " +
        "changes nothing, and no score of its own means “ignore”.",
    ),
  ]);
}

function madeScores(it, formula) {
  const line = it.turned ? "column" : "row";
  return card("2", "Score", formula, writeOutScores(it), [
    say(`One number for each pair of a [query]query[/] and a [key]key[/]. A ${line} is one query's.`),
    scoring(it),
    it.turned &&
      note(
        "With a token as a column, as here, the slides write the scores QᵀK. With a token as a row the same " +
          "numbers are QKᵀ.",
      ),
    note(
      "A dot product is 1 for equal and −1 for opposite directions only where both vectors have length 1 " +
        "(then it is the cosine). These have not.",
    ),
  ]);
}

function divide(it) {
  const { worked, rules } = it;
  const [root, heat] = [worked.divisor !== 1, rules.temperature !== 1];
  if (!root && !heat) return it.start === "x" && undivided();
  const name = `S / ${divisorInWords(it)}`;
  const title = root ? "Divide by √dₖ" : "Divide by the temperature";
  return card("3", title, name, writeOutDivision(it, divisorInWords(it)), [
    root &&
      say(
        `The keys are ${worked.width} numbers long. Long vectors make large scores, and large scores would ` +
          "leave softmax almost nothing but 0 and 1.",
      ),
    heat && say(`The temperature ${writeNumber(rules.temperature)} makes the weights ${rules.temperature > 1 ? "flatter" : "sharper"}.`),
    equation([pairs(it, name, worked.scaled)], it.turned),
    root &&
      note(
        "Without the division the gradients vanish rather than explode: a softmax that is sure of itself " +
          "hardly changes.",
      ),
  ]);
}

function undivided() {
  const text = "Switch “Divide by √dₖ” on to see what the paper's division changes.";
  return card("3", "Divide by √dₖ", "left out here", null, [say(text)]);
}

function mask(it) {
  if (!it.rules.causal) return null;
  const divided = it.worked.divisor !== 1 || it.rules.temperature !== 1;
  const name = divided ? `S / ${divisorInWords(it)} + M` : "S + M";
  return card("M", "Mask", name, null, [
    say(
      `Pairs ${it.turned ? "below" : "above"} the diagonal are later words. They become minus infinity, so ` +
        "that softmax gives them exactly 0: no word can look ahead.",
    ),
    equation([pairs(it, name, it.worked.scaled, { hidden: isMasked(it) })], it.turned),
    note(
      "M holds 0 and −∞ and is added after the division. Written inside it, as on some slides, it does no " +
        "harm only because those two stay what they are when divided.",
    ),
  ]);
}

function softmax(it) {
  const along = it.turned ? "down each column" : "along each row";
  if (it.start === "weights" && it.worked.divisor === 1 && it.rules.temperature === 1) {
    return card("4", "Weights", "A is given", null, [
      say(`What each word takes from every word: shares, so that ${along} the sum Σ is 1.`),
      equation([weightGrid(it, "A", it.worked.weights)], it.turned),
    ]);
  }
  return card("4", "Softmax", "a = e^s / Σ e^s", writeOutSoftmax(it), [
    say(`The scores become shares, ${along}: a larger score has a larger share, and the sum Σ is 1.`),
    equation([weightGrid(it, "A", it.worked.weights)], it.turned),
    note(
      "Softmax is taken over the scores alone; V comes after it. And a score of 0 or below does not mean " +
        "“ignore”: every word that is not masked keeps a positive weight, however small.",
    ),
  ]);
}

function mix(it) {
  const { weights, value, output } = it.worked;
  if (!output) return null;
  const formula = it.turned ? "[output]Z^T[/] = [value]V^T[/] A^T" : "[output]Z[/] = A [value]V[/]";
  return card("5, 6", "Weigh the values and sum", formula, writeOutMixture(it), [
    say(
      "Each word becomes a mixture of what all the words it looks at hand over: a new [output]vector[/] for " +
        "every word.",
    ),
    mixed(it, "", weights, value, output),
  ]);
}

function round(it) {
  const { rounded, value, weights } = it.worked;
  if (!rounded) return null;
  const places = `${rounded.decimals} decimal${rounded.decimals === 1 ? "" : "s"}`;
  const alone = () => equation([weightGrid(it, "rounded A", rounded.weights)], it.turned);
  return card("≈", "Rounded as one goes", `weights to ${places} before they are used`, null, [
    it.source &&
      say(
        "The well-known worked example that these inputs come from prints 0.0, 0.5, 0.5 where the exact " +
          "weights are 0.0634, 0.4683, 0.4683: it rounds the weights before it uses them. Neither is wrong: " +
          "a model computes the exact ones above, a person with a pencil these.",
      ),
    rounded.output ? mixed(it, "rounded ", rounded.weights, value, rounded.output) : alone(),
    say(
      "The rule: cut every weight, then give what is missing to the largest remainders (to the earlier one " +
        `where two are equal), so that Σ stays 1.${whyNotPlain(weights, rounded.decimals)}`,
    ),
  ]);
}

function divideAfterAll(it) {
  if (!it.divided) return null;
  const { weights, value, output, width } = it.divided;
  const formula = "softmax([query]Q[/] [key]K^T[/] / √dₖ) [value]V[/]";
  return card("√", `With the division by √${width}`, formula, null, [
    say("The paper divides. The same inputs then give softer weights, and other outputs:"),
    mixed(it, "divided ", weights, value, output),
  ]);
}

function answer(it) {
  const rows = strongest(it.worked.weights).map((best, query) => {
    const asking = make("b", { class: "query", text: it.queryWords[query] });
    const answering = make("b", { class: "key", text: best.map((key) => it.words[key]).join(" and ") });
    return make("li", {}, asking, " → ", answering, best.length > 1 && " alike");
  });
  return card("?", "Questions", "", null, [
    "x" in it.given &&
      say("How many weight matrices are learned? Three: W^Q, W^K and W^V. The rest is computed."),
    say("Which word does each look at most?"),
    make("ul", { class: "answers" }, rows),
  ]);
}

function card(sign, title, formula, aside, content) {
  const number = make("span", { class: "sign-of-step", text: sign });
  const written = make("span", { class: "formula" }, coloured(formula));
  const main = make("div", { class: "step-main" }, content);
  return make("section", { class: "panel step-card", "data-step": sign }, make("h3", {}, number, ` ${title} `, written), main, aside);
}

function whyNotPlain(exact, decimals) {
  for (const row of exact) {
    const plain = row.map((weight) => Number(weight.toFixed(decimals)));
    const sum = plain.reduce((a, b) => a + b, 0);
    if (Math.abs(sum - 1) < 1e-9 || sum === 0) continue;
    const [before, after] = [writeNumbers([row])[0], plain.map((weight) => weight.toFixed(decimals))];
    return ` Plain rounding would make ${before.join(", ")} into ${after.join(", ")}, which is ${sum.toFixed(decimals)} in all.`;
  }
  return "";
}

function say(text) {
  return make("p", {}, coloured(text));
}

function note(text) {
  return make("p", { class: "note", text });
}
