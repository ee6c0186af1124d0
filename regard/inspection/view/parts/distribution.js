/** The next word: bars of the likeliest, all others together, entropy; recomputed from logits at once. */

import { make, fill } from "../core/dom.js";
import { distribution, rank, writeShare } from "../core/chances.js";
import { shareTable, sharesSvg, tokenText } from "./share_table.js";

const MORE = 40;

/** What may come next, as a table of bars with a sentence about it. */
export class Distribution {
  constructor(root, { label, most = 12, onchoose = null }) {
    this.label = label;
    this.most = most;
    this.shown = most;
    this.onchoose = onchoose;
    this.sentence = make("p", { class: "sentence-of" });
    this.table = make("div", { class: "shares-room" });
    this.more = make("button", { type: "button", class: "quiet", onclick: () => this.showMore() });
    root.append(this.sentence, this.table, this.more);
  }

  /** logits of all ids, their texts, {temperature, topK, topP}, the id that follows in the text (or null). */
  show({ logits, tokens, settings = {}, followed = null, label = this.label }) {
    if (logits !== this.logits) this.order = rank(logits);
    this.logits = logits;
    this.tokens = tokens;
    this.settings = settings;
    this.followed = followed;
    this.label = label;
    this.now = distribution(logits, this.order, settings);
    this.draw();
    return this.now;
  }

  /** Say that there is nothing to show. */
  clear(sentence) {
    this.now = null;
    fill(this.sentence, sentence);
    fill(this.table);
    this.more.hidden = true;
  }

  /** The whole distribution, for a file. */
  full() {
    const { order, shares, plain } = this.now;
    const rows = Array.from(
      order,
      (id, place) => [place, id, this.tokens[id] ?? "", shares[place], plain[place]],
    );
    return { columns: ["rank", "id", "token", "probability", "probability at temperature 1"], rows };
  }

  /** The picture for a file. */
  svg() {
    return sharesSvg(this.label, this.rows().map(({ label, share }) => ({ label, share })));
  }

  draw() {
    const heads = ["word", "bar", "probability", "at temperature 1, nothing cut"];
    fill(this.table, shareTable(this.label, heads, this.rows()));
    fill(this.sentence, this.saying());
    const left = this.now.order.length - this.shown;
    this.more.hidden = left <= 0;
    this.more.textContent = this.shown > this.most ? "Show fewer" : `Show ${Math.min(MORE, left)} more`;
  }

  showMore() {
    this.shown = this.shown > this.most ? this.most : this.most + MORE;
    this.draw();
  }

  rows() {
    const { order, shares, plain, kept } = this.now;
    const count = Math.min(this.shown, order.length);
    const isPlain = this.isPlain();
    /** @type {any[]} */
    const rows = Array.from(order.subarray(0, count), (id, place) => ({
      label: tokenText(this.tokens[id] ?? `id ${id}`),
      share: shares[place],
      plain: isPlain ? null : plain[place],
      note: isPlain ? null : writeShare(plain[place]),
      kind: place >= kept ? "cut" : id === this.followed ? "chosen" : "",
      onclick: this.onchoose && place < kept ? () => this.onchoose(id, place) : null,
      title: `Take ${tokenText(this.tokens[id] ?? `id ${id}`)}`,
    }));
    if (count < order.length) rows.push(this.others(count, isPlain));
    return rows;
  }

  others(count, isPlain) {
    const { order, shares, plain } = this.now;
    const rest = (all) => all.subarray(count).reduce((sum, share) => sum + share, 0);
    const label = `all ${(order.length - count).toLocaleString("en")} others together`;
    return {
      label,
      share: rest(shares),
      plain: isPlain ? null : rest(plain),
      note: isPlain ? null : writeShare(rest(plain)),
      kind: "others",
    };
  }

  isPlain() {
    /** @type {{ temperature?: number, topK?: number, topP?: number }} */
    const { temperature = 1, topK = 0, topP = 1 } = this.settings;
    return temperature === 1 && !topK && topP >= 1;
  }

  saying() {
    const { entropy, kept, order, cut } = this.now;
    const like = 2 ** entropy;
    const parts = [
      make("b", { text: `Entropy ${entropy.toFixed(2)} bits`, "data-value": entropy }),
      like < 1.05 ? ": the model is all but sure." : `: as open as a choice between ${like.toFixed(like < 10 ? 1 : 0)} equally likely words.`,
    ];
    if (kept < order.length && cut > 0) {
      const [left, all] = [kept, order.length].map((count) => count.toLocaleString("en"));
      parts.push(` ${left} of ${all} words are left; what was cut had ${writeShare(cut)}.`);
    }
    if (kept === 1 && order.length > 1) parts.push(" Only the likeliest is left, and it is always taken.");
    return parts;
  }
}

/** The whole width 0 to 1, cut among the words in order, with a mark where the next draw falls. */
export function chanceStrip({ now, tokens, uniform, place }) {
  const strip = make("div", { class: "chance-strip", "aria-hidden": "true" });
  let rest = 1;
  for (let at = 0; at < Math.min(now.kept, 30); at++) {
    const share = now.shares[at];
    if (share < 0.004 && at > 0) break;
    rest -= share;
    const text = share > 0.06 ? tokenText(tokens[now.order[at]] ?? "") : "";
    strip.append(make(
      "span",
      { class: at === place ? "hit" : "", text, style: { "inline-size": `${100 * share}%` } },
    ));
  }
  if (rest > 1e-4) strip.append(make("span", { class: "rest", style: { "inline-size": `${100 * rest}%` } }));
  const mark = make("span", { class: "mark", style: { "inset-inline-start": `${100 * uniform}%` } });
  return make("div", { class: "chance-room", "data-value": uniform }, strip, mark);
}
