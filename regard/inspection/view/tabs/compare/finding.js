/** What a comparison shows, in one sentence: the word that each sentence leads to, and the heads that changed. */

import { make, quoted } from "../../core/dom.js";
import { writeShare } from "../../core/chances.js";
import { tokenText } from "../../parts/share_table.js";
import { bare, differing, headName } from "./comparing.js";

const MOST = 3;
const SAME = "Both sentences are the same; change a word of the second one.";
const CHANGED = 0.05; // of a row; below, a head is not named

/** The strip above the map; show(answer, {first, second, watched}) as often as needed. */
export class CompareFinding {
  constructor() {
    this.claim = make("strong", { class: "claim" });
    this.detail = make("span", { class: "soft" });
    this.element = make("p", { class: "compare-finding" }, this.claim, " ", this.detail);
  }

  show(answer, { first, second, watched }) {
    this.claim.textContent = claimOf(answer, endings(first, second));
    this.detail.textContent = first === second ? SAME : headsSentence(answer.changes, watched);
  }
}

/**
 * The likeliest word of each sentence where their outputs part, or both outputs.
 *
 * @param {any} answer of a comparison
 * @param {string[]} names of both sentences
 */
export function claimOf({ next, outputs }, [first, second]) {
  if (!next.length) {
    const [one, other] = outputs.map((text) => quoted(text ?? ""));
    return outputs[0] === outputs[1] ? `Both sentences give ${one}.` : `${first} gives ${one}, ${second} gives ${other}.`;
  }
  const likeliest = (name) => next.reduce((best, each) => (each[name] > best[name] ? each : best));
  const [one, other] = [likeliest("first"), likeliest("second")];
  const word = ({ text }) => quoted(tokenText(text));
  const share = (number) => writeShare(number, 2);
  if (one.text === other.text) return `Both sentences give ${word(one)} (${share(one.first)} and ${share(other.second)}).`;
  return `${first} gives ${word(one)} (${share(one.first)}), ${second} gives ${word(other)} (${share(other.second)}).`;
}

/** The heads in which the watched word moved most of its attention. */
export function headsSentence(changes, watched) {
  const moved = changes.filter(({ distance }) => distance >= CHANGED);
  if (!moved.length) return `No head moved more than ${100 * CHANGED} % of the attention of ${quoted(watched)}.`;
  const named = moved.slice(0, MOST).map((change) => `${inSentence(headName(change))} (${Math.round(100 * change.distance)} %)`);
  const rest = moved.length > MOST ? ` and ${moved.length - MOST} more` : "";
  return `The attention of ${quoted(watched)} moved most in ${named.join("; ")}${rest}.`;
}

// "Encoder, layer 2" within a sentence.
function inSentence(name) {
  return name[0].toLowerCase() + name.slice(1);
}

// "tired" and "wide": the words in which two sentences differ; whole sentences where all do.
function endings(first, second) {
  const [one, other] = differing(first, second).map((words) => words.filter(({ differs }) => differs).map(({ text }) => bare(text)).join(" "));
  return one && other ? [quoted(one), quoted(other)] : ["The first sentence", "the second"];
}
