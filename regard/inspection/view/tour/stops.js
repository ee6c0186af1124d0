/**
 * The stops of the tour: what is said, and what the page shows meanwhile.
 *
 * `words` hold for every model; what depends on trained weights is said by `measure`. `show` is the part of the page
 * that a stop speaks of.
 */

import { findingOf, headsOf, interventionEffect, lossesOf, partingOf } from "./measuring.js";
import { UNCHANGED } from "../core/state.js";

const TIRED = "The animal didn't cross the street because it was too tired";
const WIDE = "The animal didn't cross the street because it was too wide";

/** @type {{ title: string, words: any, state: (model: any) => any, note?: any, show?: string, measure?: any, fits?: (model: any) => boolean }[]} */
const STOPS = [
  {
    title: "Words become vectors",
    words: [
      `“${TIRED}.” Each word becomes a vector, a list of numbers that training has found for it.`,
      "Its place in the sentence is added as a vector too, for attention by itself knows no order: without places a sentence is a bag of words. Both stand further down as strips.",
    ],
    show: ".panel.vectors",
    state: () => ({ ...UNCHANGED, tab: "inspect", text: TIRED }),
  },
  {
    title: "Query, key and value",
    words: [
      "Each vector meets three learned matrices. Its query says what the word looks for, its key what it offers, its value what it hands over.",
      "Think of a dictionary made soft: not one key answers, every key answers a little. Here are three small inputs; change any number, and every step follows.",
    ],
    note: "Some slides call the value a relevance. Relevance is settled by query and key; the value is what is then handed over.",
    state: () => ({ tab: "byhand", example: "B", cells: null, rules: null }),
  },
  {
    title: "Scores become shares",
    words: [
      "A query meets a key: their numbers are multiplied one by one and added up. Here the scores are 112 and 96.",
      "Divided by √64 they are 14 and 12, and softmax makes shares of them: 0.88 and 0.12. Undivided, the first word would take everything.",
    ],
    note: "No score means “ignore”: softmax sees only differences, and every word that is not masked keeps a little.",
    state: () => ({ tab: "byhand", example: "A", cells: null, rules: null }),
  },
  {
    title: "What does “it” look at?",
    words: [
      "Now a trained model, and every number its own. In the matrix each row is a word that asks, each column a word that answers; darker is more.",
      "One row is chosen already. Click its darkest cell: the six steps beside it show how that number came about, and a tick says that it equals the model's.",
    ],
    measure: (source, model) => findingOf(source, model, TIRED),
    show: ".panel.picture",
    state: () => ({ ...UNCHANGED, tab: "inspect", text: TIRED, picture: null }),
  },
  {
    title: "Several heads, several questions",
    words: [
      "Every layer looks with several heads at once, each with its own three matrices, so several can look at several things.",
      "Move over the small pictures. Press X on one to switch it off and read what the output loses.",
    ],
    note: "Heads are not there for speed: one wide head would run in parallel too.",
    measure: (source, model) => headsOf(source, model, TIRED),
    show: ".panel.picture",
    state: () => ({ ...UNCHANGED, tab: "inspect", text: TIRED, picture: "heads" }),
  },
  {
    title: "One word changes the meaning",
    words: [
      "“… too tired” or “… too wide”: what “it” means is settled by the last word. In French one sees it: l'animal is masculine (il … fatigué), la rue feminine (elle … large).",
      "Here both sentences stand side by side, and every head is ranked by how much of its attention moved.",
    ],
    measure: (source, model) => partingOf(source, model, TIRED, WIDE, "it"),
    show: ".compare-finding, .compare-map",
    state: () => ({ ...UNCHANGED, tab: "compare", text: TIRED, second: WIDE, watched: null }),
  },
  {
    title: "Intervene",
    words: [
      "Is it attention that decides? Below the picture, slide the weight of “it” from “street” over to “animal” and watch the probabilities of the word that is written for it. Undo brings everything back.",
    ],
    show: ".intervention",
    state: () => ({ ...UNCHANGED, tab: "inspect", text: WIDE, picture: null, takefrom: "street", giveto: "animal" }),
    measure: (source, model) => interventionEffect(source, model, { first: WIDE, second: TIRED, word: "it", from: "street", to: "animal" }),
    fits: ({ family }) => family === "encoder-decoder",
  },
  {
    title: "No looking ahead",
    words: [
      "A decoder writes from left to right, so no word may look at a later one: it is not written yet. The scores above the diagonal become minus infinity, and softmax makes exactly 0 of them.",
      "The slide prints this matrix with a column for each word; tick “A word is a column” to have it that way round.",
    ],
    note: "M, the matrix of 0 and −∞, belongs behind the division. Inside it does no harm only because 0 and −∞ stay what they are.",
    state: () => ({ tab: "byhand", example: "C", cells: null, rules: null }),
  },
  {
    title: "Encoder and decoder",
    words: [
      "The encoder has read the sentence. The decoder writes the translation a word at a time, and at each step its cross-attention asks the source words.",
      "Press Next in “The decoder, word by word”. Below, beam search tries several translations at once; each branch says why it died.",
    ],
    show: ".panel.decoding",
    state: () => ({ ...UNCHANGED, tab: "translate", text: TIRED, step: null }),
    fits: ({ family }) => family === "encoder-decoder",
  },
  {
    title: "A probability for every word",
    words: [
      "What comes out is a probability for every word of the vocabulary. Temperature divides the scores before softmax: toward 0 the likeliest word takes all, above 1 the others gain.",
      "Sample a word and go on writing; the same seed writes the same words.",
    ],
    show: ".panel.write-next",
    note: "Plain softmax is temperature 1, neither rigid nor creative. What is rigid is always to take the likeliest.",
    state: ({ family, examples }) => ({
      ...UNCHANGED,
      tab: "write",
      text: family === "decoder-only" ? (examples[0] ?? TIRED) : TIRED,
      ids: null,
      at: null,
      temperature: null,
      topk: null,
      topp: null,
    }),
    fits: ({ family }) => family !== "encoder-only",
  },
  {
    title: "All of it was learned",
    words: [
      "At step 0 the matrices hold chance, and so does the picture. Press Play and see how attention, loss and translation change.",
      "That is the whole story: vectors, three matrices a head, shares, sums, and a great many small steps downhill. Now type sentences of your own.",
    ],
    measure: lossesOf,
    show: ".panel.training-progress",
    state: ({ snapshots }) => ({ ...UNCHANGED, tab: "training", text: TIRED, checkpoint: String(snapshots[0]) }),
    fits: ({ snapshots }) => snapshots.length > 1,
  },
];

/** The stops that a model can show; without a trained one, those by hand. */
export function stopsFor(model) {
  if (!model || model.state !== "ready") return STOPS.filter(({ state }) => state({ snapshots: [], examples: [] }).tab === "byhand");
  return STOPS.filter(({ fits }) => !fits || fits(model));
}
