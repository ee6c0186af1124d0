/** One word's row with every number that goes into it, as lines of arithmetic under each step. */

import { make } from "../../core/dom.js";
import { turn, writeNumber, writeNumbers } from "./arithmetic.js";
import { coloured } from "../../parts/coloured.js";

/** q = x W^Q, number by number. */
export function writeOutProducts({ given, worked, row, queryWords, turned }) {
  const x = given.x[row];
  const lines = turn(given.wq).map((column, number) => [
    name("query", `q${number}`),
    "=",
    products(x, column, "", "query"),
    "=",
    strong("query", worked.query[row][number]),
  ]);
  const meets = turned ? `column ${row} of X^T with each row of (W^Q)^T` : `row ${row} of X with each column of W^Q`;
  return writtenOut(`q of ${queryWords[row]}: ${meets}`, lines);
}

/** Each score of the word: its query with every key. */
export function writeOutScores({ worked, row, words, queryWords }) {
  const scores = writeNumbers(worked.scores)[row];
  const lines = worked.key.map((key, number) => [
    name("key", words[number]),
    "",
    products(worked.query[row], key, "query", "key"),
    "=",
    make("b", { text: scores[number] }),
  ]);
  return writtenOut(`The scores of ${queryWords[row]}`, lines);
}

/** Each score divided. */
export function writeOutDivision({ worked, rules, row, words, queryWords }, divisor) {
  const scores = writeNumbers(worked.scores)[row];
  const scaled = writeNumbers(worked.scaled)[row];
  const by = writeNumber(worked.divisor * rules.temperature);
  const lines = scores.map((score, number) => [
    name("key", words[number]),
    "",
    `${score} / ${by}`,
    "=",
    make("b", { text: scaled[number] }),
  ]);
  return writtenOut(`${queryWords[row]}, divided by ${divisor} = ${by}`, lines);
}

/** The shares: powers, their sum, the division. */
export function writeOutSoftmax({ worked, row, words, queryWords }) {
  const scores = worked.masked[row];
  const largest = Math.max(...scores);
  const powers = writeNumbers([worked.exponentials[row]])[0];
  const sum = writeNumber(worked.exponentials[row].reduce((a, b) => a + b, 0));
  const weights = writeNumbers(worked.weights)[row];
  const lines = scores.map((score, number) => [
    name("key", words[number]),
    "",
    score === -Infinity ? ["e", raised("−∞"), " = 0"] : [
      "e",
      raised(difference(score, largest)),
      ` = ${powers[number]}, / ${sum}`,
    ],
    "=",
    make("b", { text: weights[number] }),
  ]);
  return writtenOut(
    `The weights of ${queryWords[row]}; taking the largest score off all of them changes no share`,
    lines,
  );
}

/** The values weighted and summed. */
export function writeOutMixture({ worked, row, words, queryWords }) {
  const weights = writeNumbers(worked.weights)[row];
  const weighted = writeNumbers(worked.value.map((value, key) => value.map((number) => number * worked.weights[row][key])));
  const values = writeNumbers(worked.value);
  const seen = worked.masked[row].map((score) => score !== -Infinity);
  const lines = words.flatMap((word, key) =>
    seen[key] ? [[
      name("value", word),
      "",
      [`${weights[key]} · `, vector("value", values[key])],
      "=",
      vector("", weighted[key]),
    ]] : [],
  );
  const sum = [
    name("output", queryWords[row]),
    "",
    "added up",
    "=",
    vector("output", writeNumbers([worked.output[row]])[0]),
  ];
  return writtenOut(`${queryWords[row]} as a mixture`, [...lines, sum]);
}

function writtenOut(title, lines) {
  const rows = lines.map((cells) => make(
    "tr",
    {},
    cells.map((cell, number) => make(number ? "td" : "th", number ? {} : { scope: "row" }, cell)),
  ));
  const table = make(
    "table",
    { class: "written-out" },
    make("caption", {}, coloured(title)),
    make("tbody", {}, rows),
  );
  return make("div", { class: "scrolls-aside" }, table);
}

function products(left, right, leftIdea, rightIdea) {
  const [a, b] = [left, right].map((numbers) => writeNumbers([numbers])[0]);
  return a.flatMap((number, i) => [
    i ? " + " : "",
    make("span", { class: leftIdea, text: number }),
    "·",
    make("span", { class: rightIdea, text: b[i].startsWith("−") ? `(${b[i]})` : b[i] }),
  ]);
}

function difference(score, largest) {
  const taken = writeNumber(largest);
  return `${writeNumber(score)} − ${taken.startsWith("−") ? `(${taken})` : taken}`;
}

function vector(idea, numbers) {
  return make("span", { class: `vector ${idea}`, text: `[${numbers.join("  ")}]` });
}

function name(idea, text) {
  return make("span", { class: idea, text });
}

function strong(idea, number) {
  return make("b", { class: idea, text: writeNumber(number) });
}

function raised(text) {
  return make("sup", { text });
}
