/** Why one word is written and not another: the share of each input word in the log-odds of the two. */

import { make, fill, adjust, digits, quoted, svg, uniqueId } from "../../core/dom.js";
import { ideaColour, inkOn, paint, signedShade } from "../../core/colour.js";
import { PanelRequests } from "../../core/requests.js";
import { rowTexts } from "../../core/rows.js";
import { writeShare } from "../../core/chances.js";
import { button, choice } from "../../parts/controls.js";
import { signedLegend } from "../../parts/legend.js";
import { choose, panel, segments } from "../../parts/panel.js";
import { tokenText } from "../../parts/share_table.js";
import { foldedTable } from "../../parts/table.js";
import { offerSaves } from "../../saving/save.js";

const METHODS = [["integrated", "Integrated gradients"], ["gradient", "Input × gradient"]];
const SIDES = { source: "It reads", target: "It wrote" };
const BAR = { left: 150, width: 360, row: 22 };

/** The panel; show({trace, lens, place, word, instead}), onforce(place, id) when a word is to be written. */
export class WhyPanel {
  constructor(context, { onforce }) {
    this.context = context;
    this.state = context.state;
    this.card = panel({ title: "Why this word and not that one?", class: "why-word" });
    this.element = this.card.element;
    this.requests = new PanelRequests(context, { name: "why", cards: [this.card] });
    this.places = choice({ label: "At", onchange: (place) => this.state.set({ place: Number(place), word: null, instead: null }) });
    this.list = make("datalist", { id: uniqueId("words") });
    this.word = this.input("Why", "word");
    this.instead = this.input("and not", "instead");
    this.methods = segments({ label: "Method", choices: METHODS, chosen: "integrated", onchoose: (method) => this.state.set({ method }) });
    this.force = button("", () => onforce(this.asked.place, this.found.instead.ids[0]));
    this.saying = make("p", { class: "sentence-of" });
    this.room = make("div", { class: "shares-words" });
    this.legend = make("div", {});
    this.sum = make("p", { class: "hint" });
    this.card.body.append(
      make("div", { class: "controls" }, this.places.root, this.word.root, this.instead.root, this.list),
      make("div", { class: "controls" }, this.methods, this.force),
      this.saying,
      this.room,
      this.legend,
      this.sum,
    );
    this.offer(context);
  }

  // A word is typed or taken from the likeliest ones. An answer that arrives meanwhile leaves it as it is.
  input(label, name) {
    const id = uniqueId(name);
    const field = make("input", { type: "text", id, list: this.list.id, autocomplete: "off", spellcheck: "false", size: 12 });
    let isTyped = false;
    field.addEventListener("input", () => (isTyped = true));
    field.addEventListener("blur", () => (isTyped = false));
    field.addEventListener("change", () => {
      isTyped = false;
      this.take(name, field.value);
    });
    const set = (value) => {
      if (!isTyped) adjust(field, { value });
    };
    return { root: make("div", { class: "choice" }, make("label", { for: id, text: label }), field), set };
  }

  offer(context) {
    this.folded = foldedTable({ caption: "The share of each token, in nats", give: () => this.table() });
    this.card.foot.append(this.folded);
    offerSaves(this.card.foot, context, {
      name: "why this word",
      isThere: () => !!this.found,
      svg: () => this.svg(),
      table: () => this.table(),
    });
  }

  show(asked) {
    this.asked = asked;
    const { trace, lens, place, word, instead } = asked;
    const kind = trace.kinds.findLast(({ queries }) => queries === trace.written);
    this.places.root.hidden = !lens;
    this.places.offer(rowTexts(trace, kind, false).map((text, at) => [at, text]), place);
    const method = METHODS.some(([name]) => name === this.state.get("method")) ? this.state.get("method") : "integrated";
    choose(this.methods, method);
    return this.requests.run(
      async (ask) => ({ sheet: await ask.attribution(trace.trace, place, { word, instead, method }), tokens: await this.tokens(ask) }),
      ({ sheet, tokens }) => this.draw(trace, sheet, tokens),
    );
  }

  /** The texts of all answers: the vocabulary, or the labels of a classifier. */
  async tokens(ask) {
    const { labels, output, name } = this.context.model();
    return output === "classes" ? labels : ask.vocabulary(name);
  }

  draw(trace, { meta, arrays }, tokens) {
    this.trace = trace;
    this.found = meta;
    this.shares = Object.fromEntries(Object.entries(arrays).map(([side, { data }]) => [side, data]));
    this.texts = tokens;
    this.names = [meta.word, meta.instead].map(({ ids }) => tokenText(tokens[ids[0]] ?? String(ids[0])));
    const [word, instead] = this.names.map(quoted);
    this.card.heading.textContent = `Why ${word} and not ${instead}?`;
    this.drawInputs();
    fill(this.saying, this.sentence());
    this.drawWords();
    fill(this.legend, signedLegend(this.largest, `nats: blue speaks for ${word}, rust for ${instead}`));
    this.sum.textContent = this.sumSentence();
    this.folded.refresh();
  }

  drawInputs() {
    const { lens, place, trace } = this.asked;
    this.word.set(this.names[0]);
    this.instead.set(this.names[1]);
    const isLast = place === trace.sides[trace.written].tokens.length - 1;
    const canForce = trace.written === "target" && (trace.sides.source || isLast);
    adjust(this.force, { hidden: !canForce, text: `What if it wrote ${quoted(this.names[1])}?` });
    const offered = lens ? likeliestAt(lens, place).map((id) => tokenText(this.texts[id] ?? "")) : this.texts;
    fill(this.list, offered.map((value) => make("option", { value })));
  }

  /** Take a typed word: the token of that spelling, with or without a space before it. */
  take(name, typed) {
    const wanted = typed.trim();
    const same = (text) => tokenText(text) === wanted || text.trim() === wanted;
    const ids = this.texts.flatMap((text, id) => (same(text) ? [id] : []));
    const { lens, place } = this.asked;
    const likely = lens ? likeliestAt(lens, place).find((id) => ids.includes(id)) : undefined;
    const id = likely ?? ids[0];
    if (id === undefined) {
      this.card.fail(new Error(`${quoted(wanted)} is not a token of this model; type a word or a piece that is.`));
      return;
    }
    const other = name === "word" ? "instead" : "word";
    const isDrawn = this.found.position === null || this.found.position === place;
    const kept = isDrawn ? this.found[other].ids[0] : this.asked[other];
    // A word that is put against itself changes places with the other one.
    this.state.set({ place, [name]: id, [other]: kept === id ? this.found[name].ids[0] : kept });
  }

  get largest() {
    return Math.max(0.01, ...this.items().map(({ share }) => Math.abs(share)));
  }

  /** Every token with its share. */
  items() {
    return Object.entries(this.shares).flatMap(([side, shares]) => this.trace.sides[side].tokens.map(
      ({ text }, place) => ({ side, text, share: shares[place] }),
    ));
  }

  sentence() {
    const { word, instead, score } = this.found;
    const [first, second] = this.names.map(quoted);
    const items = this.items().toSorted((one, other) => other.share - one.share);
    const [most, least] = [items[0], items.at(-1)];
    const chances = `P(${this.names[0]}) ${writeShare(word.probability)}, P(${this.names[1]}) ${writeShare(instead.probability)}: log-odds ${digits(score, 2)}. `;
    const parts = [];
    if (most.share > 0) parts.push(`${quoted(most.text)} speaks most for ${first} (${signed(most.share)})`);
    if (least.share < 0) parts.push(`${quoted(least.text)} most for ${second} (${signed(least.share)})`);
    return [chances, parts.length > 0 && make("b", { text: `${parts.join(", ")}.` })];
  }

  sumSentence() {
    const { total, score, start, gap } = this.found;
    if (start === null) return `The slope of the log-odds by the size of each word’s vector; the slopes sum to ${digits(total, 2)}.`;
    return `All shares sum to ${digits(total, 2)}. Without words the log-odds are ${digits(start, 2)}, so they explain ${digits(score - start, 2)}; the error of the integral is ${digits(gap, 2)}.`;
  }

  drawWords() {
    const lists = Object.entries(this.shares).map(([side, shares]) => this.words(side, shares));
    fill(this.room, lists);
    paint(this.room, () => this.dye());
  }

  words(side, shares) {
    const { tokens } = this.trace.sides[side];
    const label = this.trace.sides.source ? SIDES[side] : SIDES.source;
    const items = tokens.map((token, place) => {
      const number = Math.abs(shares[place]) >= 0.05 * this.largest ? signed(shares[place]) : "";
      return make(
        "li",
        { class: `word${token.special ? " special" : ""}`, "data-value": shares[place] },
        make("span", { class: "word-text", dir: "auto", text: token.text }),
        make("span", { class: "word-weight", text: number }),
      );
    });
    return make("div", { class: "words-row" }, make("p", { class: "words-label", "aria-hidden": "true", text: label }), make("ul", { class: `words ${side}`, "aria-label": label }, items));
  }

  dye() {
    for (const item of this.room.querySelectorAll("li")) {
      const share = Number(item.dataset.value);
      const shade = Math.abs(share) > 0.01 * this.largest ? signedShade(share, this.largest) : null;
      item.style.setProperty("background-color", shade ? `rgb(${shade.join(", ")})` : "");
      item.style.setProperty("color", shade ? inkOn(shade) : "");
    }
  }

  table() {
    return { columns: ["token", "side", "share in nats"], rows: this.items().map(({ side, text, share }) => [text, side, share]) };
  }

  /** Bars from the middle, a row for each token. */
  svg() {
    const items = this.items();
    const [width, height] = [BAR.left + BAR.width + 80, BAR.row * (items.length + 1) + 12];
    const middle = BAR.left + BAR.width / 2;
    const bars = items.flatMap(({ text, share }, place) => {
      const y = BAR.row * (place + 1);
      const size = (Math.abs(share) / this.largest) * (BAR.width / 2);
      const shade = signedShade(share, this.largest);
      return [
        svg("text", { x: BAR.left - 10, y: y + 12, "text-anchor": "end", fill: ideaColour("ink"), text }),
        svg("rect", { x: share < 0 ? middle - size : middle, y: y + 2, width: Math.max(size, 0.5), height: BAR.row - 6, fill: `rgb(${shade.join(", ")})` }),
        svg("text", { x: width - 8, y: y + 12, "text-anchor": "end", fill: ideaColour("soft"), text: signed(share) }),
      ];
    });
    const title = svg("text", { x: middle, y: 14, "text-anchor": "middle", fill: ideaColour("soft"), text: `${this.names[1]} ← → ${this.names[0]}` });
    const look = { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "system-ui, sans-serif", "font-size": 13 };
    return svg("svg", look, svg("rect", { width, height, fill: ideaColour("card") }), title, bars);
  }
}

/** The ids of the last layer's likeliest words at a position. */
function likeliestAt({ arrays: { ids } }, place) {
  const [layers, positions, top] = ids.shape;
  const start = ((layers - 1) * positions + place) * top;
  return Array.from(ids.data.subarray(start, start + top));
}

function signed(number) {
  return number > 0 ? `+${digits(number, 2)}` : digits(number, 2);
}
