/** Tab "Compare": two sentences, what one word looks at in each, over all heads, and what the model writes. */

import { make, fill, digits } from "../../core/dom.js";
import { beside, panel, segments } from "../../parts/panel.js";
import { sentenceBar, sentenceField } from "../../parts/sentence.js";
import { button, tick } from "../../parts/controls.js";
import { Chips } from "../../parts/chips.js";
import { Matrix } from "../../pictures/matrix.js";
import { signedLegend } from "../../parts/legend.js";
import { foldedTable } from "../../parts/table.js";
import { offerSaves } from "../../saving/save.js";
import { changeSentence, differenceOf, differing, editOf, headName, wordToWatch } from "./comparing.js";
import { CompareFinding } from "./finding.js";
import { CompareOne } from "./one_head.js";
import { CompareOutputs } from "./outputs.js";
import { listOf, matrixOf } from "../../saving/npz.js";
import { PanelRequests } from "../../core/requests.js";
import { pairOf, plain } from "../../core/rivals.js";
import { TabBase, isReady } from "../../core/tab.js";

const FEW = 16;
const PAUSE = 150; // milliseconds of rest before two sentences are compared

/** Two sentences side by side. */
class CompareTab extends TabBase {
  constructor(root, context) {
    super(context);
    this.chosen = 0;
    this.answer = null;
    this.watched = "";
    this.isCausal = false;
    const map = this.build(root);
    const cards = [map, this.outputs.card, this.one.card, beside(this.words), beside(this.finding.element)];
    this.requests = new PanelRequests(context, { name: "compare", cards });
    this.state.on(["second", "watched"], () => this.refresh());
    this.trace.on(() => this.refresh());
  }

  async show() {
    this.isShown = true;
    const { pairs } = this.model();
    if (!this.state.get("second")) this.proposeSecond(pairs);
    const named = new Map(pairs.toReversed().map((pair) => [`${shortest(pair[0], pair[1])}: what “${pair[2]}” means`, pair]));
    fill(
      this.presets,
      [...named].toReversed().map(([name, pair]) => button(name, () => this.takePair(pair), { class: "chip" })),
    );
    await this.refresh();
  }

  hide() {
    this.isShown = false;
    this.requests.stop();
  }

  /** The first sentence stays; the second is the other one of its pair, or an edit of it. */
  proposeSecond(pairs) {
    const text = this.state.get("text");
    const pair = text?.trim() ? pairs.find((each) => each.slice(0, 2).includes(text)) : pairs[0];
    if (pair) this.takePair(pair, {});
    else if (text?.trim()) this.state.set({ second: editOf(text, pairs) });
  }

  /**
   * @param {string[]} pair
   * @param {object} others what else is set with the pair
   */
  takePair([first, second], others = { watched: null }) {
    const isTurned = second === this.state.get("text");
    this.state.set(
      { text: isTurned ? second : first, second: isTurned ? first : second, ...others },
      { push: true },
    );
  }

  build(root) {
    this.presets = make("div", { class: "chips", role: "group", "aria-label": "Pairs to begin with" });
    this.chips = { source: new Chips("Words that are read"), target: new Chips("Words that are written") };
    this.words = make("div", { class: "watch-words" }, this.chips.source.element, this.chips.target.element);
    const sentences = make("section", { class: "compare-sentences", "aria-label": "Two sentences" },
      sentenceBar(sentenceField({ state: this.state, name: "text", label: "First sentence" })),
      sentenceBar(sentenceField({ state: this.state, name: "second", label: "Second sentence" })),
      this.presets,
    );
    this.finding = new CompareFinding();
    this.outputs = new CompareOutputs(this);
    this.one = new CompareOne(this, { onopen: () => this.open() });
    const map = this.buildMap();
    root.append(
      sentences,
      this.finding.element,
      make("div", { class: "side-by-side" }, map.element, make("div", { class: "stacked" }, this.outputs.element, this.one.element)),
    );
    return map;
  }

  buildMap() {
    const map = panel({ title: "What changed, head by head", class: "compare-map" });
    this.mapHeading = map.heading;
    this.saying = make("p", { class: "sentence-of" });
    this.kinds = make("div", { class: "controls" });
    const room = make("div", {});
    this.legend = make("div", {});
    this.all = tick({ label: "Show every head", value: false, onchange: () => this.draw() });
    const label = "Difference map: a row for each head, the one that changed most first; a column for each word";
    this.matrix = new Matrix(room, {
      label,
      rowIdea: "ink",
      columnIdea: "key",
      describe: ({
        rowLabel,
        columnLabel,
        value,
      }) => `${rowLabel}: “${columnLabel}” ${value < 0 ? "lost" : "gained"} ${digits(Math.abs(value))}`,
    });
    this.matrix.onpin = ({ row }) => this.choose(row ?? this.chosen);
    map.body.append(
      this.kinds,
      this.saying,
      room,
      this.legend,
      this.all.root,
      make("p", { class: "hint", text: "Watch another word:" }),
      this.words,
    );
    this.folded = foldedTable({ caption: "Every head, ranked by how much its attention moved", give: () => this.ranking() });
    map.foot.append(this.folded);
    offerSaves(map.foot, this, {
      name: "difference map",
      isThere: () => !!this.answer,
      canvas: () => this.matrix.canvas(),
      svg: () => this.matrix.svg(),
      table: () => this.ranking(),
      arrays: () => this.rows(),
    });
    return map;
  }

  async refresh() {
    const { current } = this.trace;
    const second = this.state.get("second");
    if (!this.isShown || !current || !second?.trim()) return;
    const { side, word, nearest } = this.watchedIn(current, second);
    const { model, ablate, snapshot } = this.trace.conditions;
    const load = async (ask) => {
      await ask.rest(PAUSE);
      return ask.compare({ model, ablate, snapshot, first: current.text, second, side, word, nearest });
    };
    await this.requests.run(load, (answer) => {
      this.answer = answer;
      this.watched = current.sides[side].words[answer.word].text;
      this.isCausal = current.kinds[0].causal;
      this.drawWords(current, side, answer.word);
      this.draw();
      this.outputs.show(answer);
      this.finding.show(answer, { first: current.text, second, watched: this.watched });
    });
  }

  /**
   * The word to watch: the chosen one, or one that tells most, or the nearest that both sentences have.
   * Later words are unseen by a causal model's word.
   */
  watchedIn(trace, second) {
    const [side, number] = (this.state.get("watched") ?? "").split(".");
    const word = trace.sides[side]?.words[Number(number)] && Number(number);
    if (word !== undefined) return { side, word, nearest: false };
    const { queries, causal } = trace.kinds[0];
    const pair = pairOf(trace.text, this.model().pairs);
    const isPair = pair && plain(pair.other) === plain(second);
    const wanted = causal ? null : isPair ? pair.watched : undefined;
    return { side: queries, word: wordToWatch(trace.sides[queries].words, wanted), nearest: true };
  }

  drawWords(trace, chosenSide, chosen) {
    for (const [side, chips] of Object.entries(this.chips)) {
      const words = trace.sides[side]?.words ?? [];
      chips.element.hidden = !words.length;
      chips.show(words.map(({ text, special }, number) => {
        const isDown = side === chosenSide && number === chosen;
        const onclick = () => this.state.set({ watched: `${side}.${number}` });
        return { text, kind: special ? "special" : "", isDown, onclick };
      }));
    }
  }

  draw() {
    if (!this.answer) return;
    const changes = this.changes();
    this.chosen = 0;
    this.shown = this.all.box.checked ? changes : changes.slice(0, FEW);
    this.all.root.hidden = changes.length <= FEW;
    const differences = this.shown.map(differenceOf);
    const largest = Math.max(0.01, ...differences.flat().map(Math.abs));
    this.mapHeading.textContent = `What “${this.watched}” looks at: what changed, head by head`;
    this.saying.textContent = changeSentence(
      changes[0],
      this.labels(),
      this.watched,
      this.isCausal,
      headName(changes[0]),
    ) + (this.trace.conditions.interventions.length ? " Both sentences are read without the interventions." : "");
    this.matrix.show({
      rows: this.shown.map(this.matrix.root.clientWidth < 480 ? shorterName : shortName),
      columns: this.labels(),
      weights: differences,
      signed: true,
      largest,
      pinned: this.cell(),
    });
    fill(this.legend, signedLegend(largest, "weight lost and gained, from the first sentence to the second"));
    this.folded.refresh();
    this.drawOne();
  }

  /** The changes of the kind that is looked at, and buttons for the others where there are any. */
  changes() {
    const kinds = [...new Set(this.answer.changes.map(({ kind }) => kind))];
    const kind = kinds.includes(this.kind) ? this.kind : this.answer.changes[0].kind;
    const pick = (other) => {
      this.kind = other;
      this.draw();
    };
    fill(
      this.kinds,
      kinds.length > 1 && segments({
        label: "Attention",
        choices: kinds.map((each) => [each, each]),
        chosen: kind,
        onchoose: pick,
      }),
    );
    return this.answer.changes.filter((change) => change.kind === kind);
  }

  labels() {
    return this.answer.keys[this.shown[0].keys];
  }

  choose(row) {
    this.chosen = row;
    this.drawOne();
    this.matrix.pin(this.cell());
  }

  // The head that is open, and in it the word whose weight moved most.
  cell() {
    const moved = differenceOf(this.shown[this.chosen]).map(Math.abs);
    return { row: this.chosen, column: moved.indexOf(Math.max(...moved)) };
  }

  drawOne() {
    this.one.show(this.shown[this.chosen], this.labels(), this.watched);
  }

  open() {
    const { kind, layer, head } = this.shown[this.chosen];
    const query = this.answer.first.words[this.answer.word]?.positions[0] ?? null;
    this.state.set({ tab: "inspect", kind, layer, head, query, key: null }, { push: true });
  }

  /** Every head with its distance and what each word gained. */
  ranking() {
    const rows = this.changes().map((change) => [headName(change), change.distance, ...differenceOf(change)]);
    return { columns: ["head", "distance", ...this.labels()], rows };
  }

  /** The word's row in every head of both sentences, for a file: heads in the same order, a column for each word. */
  rows() {
    const changes = this.changes();
    const all = (name) => changes.map((change) => change[name]);
    const lists = ["kind", "layer", "head", "distance"].map((name) => [name, listOf(all(name))]);
    const [first, second] = [matrixOf(all("first")), matrixOf(all("second"))];
    return { words: listOf(this.labels()), ...Object.fromEntries(lists), first, second };
  }
}

function shortName({ layer, head }) {
  return `layer ${layer}, head ${head}`;
}

// As the command line writes it; for a narrow page.
function shorterName({ layer, head }) {
  return `${layer}.${head}`;
}

// "tired / wide" rather than two whole sentences.
function shortest(first, second) {
  const [a, b] = differing(first, second).map((words) => words.filter(({ differs }) => differs).map(({ text }) => text).join(" "));
  return a && b ? `${a} / ${b}` : first;
}

/** @type {import("../../core/tab.js").TabEntry} */
export const COMPARE = {
  name: "compare",
  title: "Compare",
  needs: ["compare"],
  fits: isReady,
  Tab: CompareTab,
};
