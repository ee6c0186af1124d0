/** Two sentences or outputs set side by side: which words differ, which one to watch, what to say of a change. */

import { attentionTitle } from "../../parts/heads.js";

const MOST = 500; // words of each that are set side by side

/** The words of both texts, each {text, differs}, by their longest common sequence. */
export function differing(first, second) {
  const [a, b] = [first, second].map((text) => text.split(/\s+/).filter(Boolean).slice(0, MOST));
  const longest = lengths(a, b);
  const marked = [[], []];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      marked[0].push({ text: a[i++], differs: false });
      marked[1].push({ text: b[j++], differs: false });
    } else if (j >= b.length || (i < a.length && longest[i + 1][j] >= longest[i][j + 1])) marked[0].push({
      text: a[i++],
      differs: true,
    });
    else marked[1].push({ text: b[j++], differs: true });
  }
  return marked;
}

/** A sentence with one word exchanged as in a pair, such as tired for wide; the same sentence if it has none. */
export function editOf(text, pairs) {
  const parts = text.split(/(\s+)/);
  for (const [first, second] of pairs) {
    const [one, other] = differing(first, second).map((words) => words.filter(({ differs }) => differs).map(({ text: word }) => bare(word)));
    if (one.length !== 1 || other.length !== 1) continue;
    for (const [from, to] of [[one[0], other[0]], [other[0], one[0]]]) {
      const at = parts.findIndex((part) => bare(part) === from);
      if (at >= 0) return parts.with(at, parts[at].replace(from, () => to)).join("");
    }
  }
  return text;
}

/** The number of the word to watch: the wanted one, "it", or the last that is no sign. */
export function wordToWatch(words, wanted) {
  const texts = wanted === null ? [] : [wanted, "it"];
  for (const text of texts) {
    const found = text === undefined ? -1 : words.findIndex((word) => word.text.toLowerCase() === text.toLowerCase());
    if (found >= 0) return found;
  }
  return Math.max(0, words.findLastIndex((word) => !word.special));
}

/** The largest change in plain words; a word of a decoder does not see what comes after it. */
export function changeSentence({ first, second, distance }, labels, word, isCausal, head) {
  const unseen = isCausal ? " No word here sees later ones: choose a word after the place where the sentences part." : "";
  if (distance < 0.005) return `“${word}” looks at the same words in both sentences, in every head.${unseen}`;
  const moved = second.map((weight, place) => weight - first[place]);
  const gained = moved.indexOf(Math.max(...moved));
  const lost = moved.indexOf(Math.min(...moved));
  return `${head} changed most: ${Math.round(100 * distance)} % of what “${word}” looks at went elsewhere, most of it from “${labels[lost]}” to “${labels[gained]}”.`;
}

/** What each word gained, the second less the first. */
export function differenceOf({ first, second }) {
  return second.map((weight, place) => weight - first[place]);
}

/** What people call the head of a change. */
export function headName({ kind, layer, head }) {
  return `${attentionTitle(kind, layer)}, head ${head}`;
}

/** A word without the marks that follow it. */
export function bare(word) {
  return word.replace(/[.,;:!?]+$/, "");
}

function lengths(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(
      table[i + 1][j],
      table[i][j + 1],
    );
  }
  return table;
}
