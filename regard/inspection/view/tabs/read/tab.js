/** Tab "Read": fill a gap or tell the class, and what the place that decides looks at. */

import { make, fill } from "../../core/dom.js";
import { beside, panel } from "../../parts/panel.js";
import { sentenceBar, sentenceField, Examples } from "../../parts/sentence.js";
import { choice } from "../../parts/controls.js";
import { Chips } from "../../parts/chips.js";
import { Words } from "../../parts/words.js";
import { Matrix } from "../../pictures/matrix.js";
import { attentionLegend } from "../../parts/legend.js";
import { offerMatrix, offerSaves } from "../../saving/save.js";
import { shareTable, sharesSvg, tokenText } from "../../parts/share_table.js";
import { average, rowsOf } from "../../core/alignment.js";
import { PanelRequests } from "../../core/requests.js";
import { TabBase, isReady } from "../../core/tab.js";

const TOP = 10;

/** Fill and classify. */
class ReadTab extends TabBase {
  constructor(root, context) {
    super(context);
    const { answers, looking } = this.build(root);
    const cards = [answers, beside(this.words.element), beside(this.hint)];
    this.answerRequests = new PanelRequests(context, { name: "answers", cards });
    this.lookRequests = new PanelRequests(context, { name: "looking", cards: [looking] });
    this.trace.on(() => this.refresh());
    this.state.on(["readhead", "mask"], () => this.refresh());
  }

  async show() {
    this.isShown = true;
    this.examples.show(4);
    await this.refresh();
  }

  hide() {
    this.isShown = false;
    this.answerRequests.stop();
    this.lookRequests.stop();
  }

  build(root) {
    this.examples = new Examples(this);
    this.words = new Chips("Words; choose one to hide it");
    this.hint = make("p", { class: "hint" });
    const answers = panel({ title: "What the model says", class: "read-answers" });
    this.answersHeading = answers.heading;
    this.answers = make("div", { class: "shares-room" });
    answers.body.append(this.answers);
    offerSaves(answers.foot, this, {
      name: "what the model says",
      isThere: () => !!this.rows,
      svg: () => sharesSvg(this.answersHeading.textContent, this.rows),
      table: () => this.table(),
    });
    const looking = this.buildLooking();
    root.append(
      sentenceBar(sentenceField({ state: this.state }), this.examples.element),
      this.hint,
      this.words.element,
      make("div", { class: "side-by-side" }, answers.element, looking.element),
    );
    return { answers, looking };
  }

  buildLooking() {
    const looking = panel({ title: "What it looks at", class: "read-looking" });
    this.lookingHeading = looking.heading;
    this.place = choice({
      label: "Seen from",
      options: [],
      onchange: (place) => this.state.set({ mask: place }),
    });
    this.head = choice({ label: "Head", options: [], onchange: (head) => this.state.set({ readhead: head }) });
    this.saying = make("p", { class: "sentence-of" });
    const room = make("div", {});
    this.shaded = new Words(room, {
      label: "The sentence, shaded by what is looked at",
      short: "It reads",
      onhover: () => {},
      onpin: (place) => this.pick(place),
    });
    const map = make("div", {});
    this.matrix = new Matrix(
      map,
      { label: "Each head's row for this place", rowIdea: "ink", columnIdea: "key" },
    );
    this.matrix.onpin = ({ row }) => row !== null && this.state.set({ readhead: this.names[row].value });
    looking.body.append(
      make("div", { class: "controls" }, this.place.root, this.head.root),
      this.saying,
      room,
      make("h3", { text: "All heads" }),
      map,
      attentionLegend(),
    );
    this.folded = offerMatrix(looking.foot, this, {
      name: "what it looks at",
      isThere: () => !!this.names,
      matrix: this.matrix,
      caption: "Each head's row for this place",
      address: (ending) => this.fileOf(ending),
    });
    return looking;
  }

  // Every weight of the sentence, or a page on which the place that decides is pinned.
  fileOf(ending) {
    const { current } = this.trace;
    if (!current || ending === "npz") return this.source.saveAddress(current?.trace ?? "none", ending);
    const [layer, head] = (this.state.get("readhead") ?? "").split(".");
    const seen = head === undefined ? {} : { layer, head };
    const place = { kind: current.kinds[0].name, query: this.places(current)[this.gapNumber()] };
    return this.source.saveAddress(current.trace, ending, { ...place, ...seen });
  }

  get isMasked() {
    return this.model().output === "masked";
  }

  /** How this model spells a gap. */
  get gap() {
    return this.model().examples.join(" ").match(/\[MASK\]|<mask>|\[mask\]/)?.[0] ?? "[MASK]";
  }

  async refresh() {
    const trace = this.trace.current;
    if (!this.isShown || !trace) return;
    const answers = this.answerRequests.run((ask) => this.answersOf(ask, trace), (rows) => {
      this.drawWords(trace);
      this.drawAnswers(rows);
    });
    await Promise.all([answers, this.look(trace)]);
  }

  answersOf(ask, trace) {
    const hasGap = trace.sides.source.tokens.some(({ special }) => special === "mask");
    if (this.isMasked) return hasGap ? this.fillGaps(ask, trace) : [];
    return ask.can("classify") && this.model().output === "classes" ? this.tellClass(ask, trace) : [];
  }

  async fillGaps(ask, trace) {
    const { masks } = await ask.fill({ ...this.trace.conditions, text: trace.text, top: TOP });
    const number = Math.min(this.gapNumber(), masks.length - 1);
    return masks[number].map(({ text: word, probability }) => ({
      label: tokenText(word),
      share: probability,
      onclick: () => this.put(trace, number, word.trim()),
      title: `Put ${tokenText(word)} into the gap`,
    }));
  }

  async tellClass(ask, { text }) {
    const { probabilities } = await ask.classify({ ...this.trace.conditions, text });
    return Object.entries(probabilities).map(([label, share]) => ({ label, share })).toSorted((a, b) => b.share - a.share);
  }

  drawAnswers(rows) {
    this.rows = rows;
    const title = this.isMasked ? "What stands in the gap" : this.model().output === "classes" ? "Which class it is" : "Vectors";
    this.answersHeading.textContent = title;
    const nothing = this.isMasked ? `Choose a word to hide it, or write ${this.gap}.` : "This model gives a vector for each word and no answer of its own.";
    const rest = 1 - rows.reduce((sum, { share }) => sum + share, 0);
    const others = { label: "all others together", share: rest, kind: "others" };
    const all = this.isMasked && rest > 0 ? [...rows, others] : rows;
    const table = () => shareTable(title, ["word", "bar", "probability"], all);
    fill(this.answers, rows.length ? table() : make("p", { class: "hint", text: nothing }));
  }

  table() {
    return { columns: ["word", "probability"], rows: this.rows.map(({ label, share }) => [label, share]) };
  }

  drawWords({ sides: { source } }) {
    const { words, text: sentence } = source;
    this.hint.textContent = this.isMasked ? "Choose a word to hide it; the model tells what could stand there." : "";
    const chips = this.isMasked ? words.filter(({ special }) => !special || special === "mask") : [];
    this.words.show(chips.map((word) => {
      const isGap = word.special === "mask";
      const text = isGap ? this.gap : word.text;
      const name = isGap ? `${text}, a gap` : `Hide ${text}`;
      const onclick = () => !isGap && this.replace(sentence, word, this.gap);
      return { text, name, kind: isGap ? "gap" : "", isDown: isGap, onclick };
    }));
  }

  put({ sides: { source } }, number, text) {
    const gaps = source.words.filter(({ special }) => special === "mask");
    this.replace(source.text, gaps[number], text);
  }

  /** Write something in the place of one word. */
  replace(sentence, { span: [start, end] }, by) {
    const letters = Array.from(sentence); // a span counts characters, of which some are two code units
    const text = [...letters.slice(0, start), by, ...letters.slice(end)].join("");
    this.state.set({ text, mask: null }, { push: true });
  }

  /** The tokens from which it can be seen: the gaps, or the sign that stands for the whole text. */
  places({ sides }) {
    const { tokens } = sides.source;
    const gaps = tokens.flatMap(({ special }, place) => (special === "mask" ? [place] : []));
    return gaps.length ? gaps : [0];
  }

  gapNumber() {
    const places = this.places(this.trace.current);
    return Math.max(0, places.indexOf(Number(this.state.get("mask") ?? places[0])));
  }

  look(trace) {
    const { name: kind, layers } = trace.kinds[0];
    const numbers = Array.from({ length: layers }, (_, layer) => layer);
    return this.lookRequests.run(
      (ask) => Promise.all(numbers.map((layer) => ask.layer(trace.trace, kind, layer))),
      (sheets) => this.takeLooks(trace, sheets),
    );
  }

  takeLooks(trace, sheets) {
    const { tokens, words } = trace.sides.source;
    const places = this.places(trace);
    const place = places[this.gapNumber()];
    this.place.offer(places.map((at) => [String(at), `${at}: ${tokens[at].text}`]), String(place));
    this.place.root.hidden = places.length < 2;
    const share = (row) => words.map(({ positions }) => positions.reduce((sum, key) => sum + row[key], 0));
    this.names = sheets.flatMap(({ arrays }, layer) => Array.from(
      { length: trace.heads },
      (_, head) => ({
        value: `${layer}.${head}`,
        name: `layer ${layer}, head ${head}`,
        row: share(rowsOf(arrays.weights, head)[place]),
      }),
    ));
    this.drawLooking(tokens[place].text, words, sheets.length);
  }

  drawLooking(from, words, layers) {
    const last = this.names.slice(-this.names.length / layers);
    const mean = average(last.map(({ row }) => [row]))[0];
    const options = [
      ["mean", `the last layer, all heads averaged`],
      ...this.names.map(({ value, name }) => [value, name]),
    ];
    this.head.offer(options, this.state.get("readhead") ?? "mean");
    const chosen = this.names.findIndex(({ value }) => value === this.head.select.value);
    const row = chosen < 0 ? mean : this.names[chosen].row;
    const most = words[row.indexOf(Math.max(...row))];
    this.lookingHeading.textContent = `What ${from} looks at`;
    const seen = options.find(([value]) => value === this.head.select.value)[1];
    const why = this.isMasked ? "" : " The class is read off from here.";
    this.saying.textContent = `In ${seen}, ${from} looks most at “${most.text}”.${why}`;
    this.shaded.show(words, true);
    this.shaded.shade(row);
    this.matrix.show({
      rows: this.names.map(({ name, value }) => (this.matrix.root.clientWidth < 480 ? value : name)),
      columns: words.map(({ text }) => text),
      weights: this.names.map((each) => each.row),
      pinned: chosen < 0 ? null : { row: chosen, column: 0 },
    });
    this.folded.refresh();
  }

  pick(place) {
    const trace = this.trace.current;
    const word = trace.sides.source.words[place];
    if (word.special === "mask") this.state.set({ mask: String(word.positions[0]) });
  }
}

/** @type {import("../../core/tab.js").TabEntry} */
export const READ = {
  name: "read",
  title: "Read",
  needs: ["fill"],
  fits: (model) => isReady(model) && model.family === "encoder-only",
  Tab: ReadTab,
};
