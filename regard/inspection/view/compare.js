/** Tab "Compare": two sentences, what one word looks at in each, over all heads, and what the model writes. */

import { make, fill, digits } from "./dom.js";
import { panel } from "./panel.js";
import { sentenceField } from "./sentence.js";
import { button, tick } from "./controls.js";
import { Matrix } from "./matrix.js";
import { signedLegend } from "./legend.js";
import { foldedTable } from "./table.js";
import { offerSaves } from "./save.js";
import { attentionTitle } from "./heads.js";
import { tokenText } from "./share_table.js";
import { shadeSigned } from "./shading.js";
import { writeShare } from "./chances.js";
import { changeSentence, differing, labelsFor, wordToWatch } from "./comparing.js";
import { Turns } from "./turns.js";

const FEW = 16;
const PAUSE = 150;

/** Two sentences side by side. */
export class CompareTab {
  constructor(root, context) {
    Object.assign(this, context);
    this.turns = new Turns(this.fail);
    this.chosen = 0;
    this.build(root);
    this.state.on(["text", "second", "model", "off", "watched", "snapshot"], () => this.refreshSoon());
    this.trace.on(() => this.refreshSoon());
  }

  async show() {
    this.isShown = true;
    const { pairs } = this.model();
    if (!this.state.get("second") && pairs.length) this.takePair(pairs.find((pair) => pair.includes(this.state.get("text"))) ?? pairs[0]);
    const named = new Map(pairs.toReversed().map((pair) => [`${shortest(pair[0], pair[1])}: what “${pair[2]}” means`, pair]));
    const presets = [...named].toReversed().map(([name, pair]) => button(name, () => this.takePair(pair), { class: "chip" }));
    fill(this.presets, presets);
    await this.refresh();
  }

  hide() {
    this.isShown = false;
    clearTimeout(this.timer);
  }

  takePair([first, second]) {
    const isTurned = second === this.state.get("text");
    this.state.set({ text: isTurned ? second : first, second: isTurned ? first : second, watched: null }, { push: true });
  }

  build(root) {
    this.presets = make("div", { class: "chips", role: "group", "aria-label": "Pairs to begin with" });
    this.words = make("div", { class: "chips", role: "group", "aria-label": "The word to watch" });
    const sentences = make("section", { class: "compare-sentences", "aria-label": "Two sentences" },
      sentenceField({ state: this.state, name: "text", label: "First sentence" }),
      sentenceField({ state: this.state, name: "second", label: "Second sentence" }),
      this.presets,
      make("p", { class: "hint", text: "Choose the word to watch:" }),
      this.words,
    );
    root.append(sentences, this.buildOutputs(), make("div", { class: "side-by-side" }, this.buildMap(), this.buildOne()));
  }

  buildOutputs() {
    const { element, body } = panel({ title: "What the model makes of them", class: "compare-outputs" });
    this.outputs = make("div", { class: "outputs" });
    this.next = make("div", {});
    body.append(this.outputs, this.next);
    return element;
  }

  buildMap() {
    const map = panel({ title: "What changed, head by head", class: "compare-map" });
    this.mapHeading = map.heading;
    this.saying = make("p", { class: "sentence-of" });
    const room = make("div", {});
    this.legend = make("div", {});
    this.all = tick({ label: "Show every head", value: false, onchange: () => this.draw() });
    const label = "Difference map: a row for each head, the one that changed most first; a column for each word";
    this.matrix = new Matrix(room, { label, rowIdea: "ink", columnIdea: "key", describe: ({ rowLabel, columnLabel, value }) => `${rowLabel}: “${columnLabel}” ${value < 0 ? "lost" : "gained"} ${digits(Math.abs(value))}` });
    this.matrix.onpin = ({ row }) => this.choose(row ?? 0);
    map.body.append(this.saying, room, this.legend, this.all.root);
    map.foot.append(foldedTable({ caption: "Every head, ranked by how much its attention moved", give: () => this.ranking() }));
    offerSaves(map.foot, { name: "difference map", canvas: () => this.matrix.canvas(), svg: () => this.matrix.svg(), table: () => this.ranking(), link: () => this.state.link(), announce: this.announce });
    return map.element;
  }

  buildOne() {
    const one = panel({ title: "One head", class: "compare-one" });
    this.oneHeading = one.heading;
    this.one = make("div", {});
    this.opener = button("Open this head in Look", () => this.open());
    one.body.append(this.one, make("div", { class: "buttons" }, this.opener));
    return one.element;
  }

  refreshSoon() {
    if (!this.isShown) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), PAUSE);
  }

  async refresh() {
    const { current } = this.trace;
    const [first, second] = [this.state.get("text"), this.state.get("second")];
    if (!current || current.text !== first || !second?.trim()) return;
    const side = current.kinds[0].queries;
    const parts = current.sides[side].words;
    const pair = this.model().pairs.find((each) => each.includes(first) && each.includes(second));
    const word = wordToWatch(parts, this.state.get("watched"), pair?.[2]);
    await this.turns.run(async (isNewest) => {
      this.drawWords(parts, word);
      const answer = await this.source.compare({ model: this.model().name, first, second, side, word, off: this.state.get("off") });
      if (!isNewest()) return;
      Object.assign(this, { answer, side, watched: parts[word].text, chosen: 0 });
      this.draw();
    });
  }

  drawWords(parts, chosen) {
    const focused = [...this.words.children].indexOf(document.activeElement);
    const chips = parts.map((word, number) => {
      const settings = { type: "button", class: `chip${word.special ? " special" : ""}`, text: word.text, dir: "auto", "aria-pressed": String(number === chosen) };
      return make("button", { ...settings, onclick: () => this.state.set({ watched: String(number) }) });
    });
    fill(this.words, chips);
    if (focused >= 0) chips[Math.min(focused, chips.length - 1)]?.focus();
  }

  draw() {
    if (!this.answer) return;
    const { changes } = this.answer;
    this.shown = this.all.box.checked ? changes : changes.slice(0, FEW);
    this.all.root.hidden = changes.length <= FEW;
    const differences = this.shown.map(({ first, second }) => second.map((weight, i) => weight - first[i]));
    const largest = Math.max(0.01, ...differences.flat().map(Math.abs));
    const best = changes[0];
    this.mapHeading.textContent = `What “${this.watched}” looks at: what changed, head by head`;
    this.saying.textContent = best ? changeSentence(best, this.labels(best), this.watched, nameOf(best)) : "";
    this.matrix.show({ rows: this.shown.map(nameOf), columns: this.labels(best), weights: differences, signed: true, largest, pinned: this.cell() });
    fill(this.legend, signedLegend(largest, "weight lost and gained, from the first sentence to the second"));
    this.drawOne();
    this.drawOutputs();
  }

  labels(change) {
    return labelsFor(this.answer, change);
  }

  choose(row) {
    this.chosen = row;
    this.drawOne();
    this.matrix.pin(this.cell());
  }

  // The head that is open, and in it the word whose weight moved most.
  cell() {
    const { first, second } = this.shown[this.chosen];
    const moved = second.map((weight, i) => Math.abs(weight - first[i]));
    return { row: this.chosen, column: moved.indexOf(Math.max(...moved)) };
  }

  drawOne() {
    const change = this.shown[this.chosen];
    if (!change) return;
    this.oneHeading.textContent = `${nameOf(change)}: ${digits(change.distance, 3)} of the attention moved`;
    const largest = Math.max(0.01, ...change.second.map((weight, i) => Math.abs(weight - change.first[i])));
    const rows = this.labels(change).map((label, i) => {
      const moved = change.second[i] - change.first[i];
      return make("tr", {}, make("th", { scope: "row", class: "key", dir: "auto", text: label }), make("td", { class: "figure", text: digits(change.first[i]) }), make("td", { class: "figure", text: digits(change.second[i]) }), shadeSigned(make("td", { class: "figure", text: signed(moved), "data-value": moved }), moved, largest));
    });
    const heads = ["word", "first", "second", "change"].map((text) => make("th", { scope: "col", text }));
    const table = make("table", { class: "numbers aligned" }, make("caption", { text: `What “${this.watched}” looks at in both sentences` }), make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows));
    fill(this.one, make("div", { class: "table-room", tabindex: "0", role: "region", "aria-label": "One head in both sentences" }, table));
  }

  open() {
    const { kind, layer, head } = this.shown[this.chosen];
    const words = this.answer.first.words;
    const query = words[this.answer.word]?.positions[0] ?? null;
    this.state.set({ tab: "look", kind, layer, head, query, key: null }, { push: true });
  }

  drawOutputs() {
    const { outputs, next } = this.answer;
    const marked = outputs[0] === null ? [] : differing(outputs[0], outputs[1]);
    const line = (words, title) => make("div", {}, make("h3", { text: title }), make("p", { class: "output-line", dir: "auto" }, words.map(({ text, differs }) => [make(differs ? "mark" : "span", { text }), " "])));
    fill(this.outputs, marked.length > 0 && [line(marked[0], "First"), line(marked[1], "Second")]);
    const rows = next.slice(0, 6).map(({ text, first, second, change }) => [tokenText(text), writeShare(first), writeShare(second), signed(change)]);
    const cells = rows.map(([label, ...numbers]) => make("tr", {}, make("th", { scope: "row", dir: "auto", text: label }), numbers.map((text) => make("td", { class: "figure", text }))));
    const heads = ["word", "first", "second", "change"].map((text) => make("th", { scope: "col", text }));
    const caption = marked.length > 0 ? "The next word where the outputs part" : "The next word";
    fill(this.next, rows.length > 0 && make("div", { class: "table-room", tabindex: "0", role: "region", "aria-label": caption }, make("table", { class: "numbers aligned" }, make("caption", { text: caption }), make("thead", {}, make("tr", {}, heads)), make("tbody", {}, cells))));
  }

  /** Every head with its distance and both rows. */
  ranking() {
    const columns = ["head", "distance", ...this.labels(this.answer.changes[0])];
    const rows = this.answer.changes.map((change) => [nameOf(change), change.distance, ...change.second.map((weight, i) => weight - change.first[i])]);
    return { columns, rows };
  }
}

function nameOf({ kind, layer, head }) {
  return `${attentionTitle(kind, layer)}, head ${head}`;
}

function signed(number) {
  return number > 0 ? `+${digits(number)}` : digits(number);
}

// "tired / wide" rather than two whole sentences.
function shortest(first, second) {
  const [a, b] = differing(first, second).map((words) => words.filter(({ differs }) => differs).map(({ text }) => text).join(" "));
  return a && b ? `${a} / ${b}` : first;
}
