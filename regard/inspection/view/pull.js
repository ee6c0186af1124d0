/** Pull attention by hand: move a word's weight to another word and see what the output makes of it. */

import { make, fill, digits } from "./dom.js";
import { panel } from "./panel.js";
import { button, choice, slider } from "./controls.js";
import { attentionTitle } from "./heads.js";
import { kindOf, requestOf } from "./tracing.js";
import { rowsOf } from "./alignment.js";
import { track } from "./share_table.js";
import { isSameRow, moveWeight, setWeight, sharesOf, wholeRow, withPull } from "./pulling.js";
import { PullEffect } from "./pull_effect.js";
import { Turns } from "./turns.js";

const SAME_MOVE = 800; // milliseconds within which changes by one control are undone together
const RESTING = 60; // milliseconds without a change before the model reads the sentence again

/** The panel; show({kind, layer, head, query}) whenever another row is looked at. */
export class PullPanel {
  constructor(root, context) {
    Object.assign(this, context);
    this.turns = new Turns(this.fail);
    this.history = [];
    const { element, heading, body } = panel({ title: "Pull attention by hand", class: "pull" });
    Object.assign(this, { element, heading });
    this.from = choice({ label: "Take from", options: [], onchange: () => this.chooseWords() });
    this.to = choice({ label: "give to", options: [], onchange: () => this.chooseWords() });
    this.amount = slider({ label: "Weight moved", least: 0, most: 1, step: 0.01, value: 0, onchange: (n) => this.move(n) });
    this.saying = make("p", { class: "sentence-of" });
    this.table = make("div", { class: "pull-row" });
    this.undoer = button("Undo", () => this.undo());
    this.resetter = button("Reset", () => this.change([], "reset"));
    this.effect = new PullEffect(context);
    const controls = make("div", { class: "controls" }, this.from.root, this.to.root);
    body.append(controls, this.amount.root, make("div", { class: "buttons" }, this.undoer, this.resetter), this.effect.element, this.saying, this.table);
    root.append(element);
    this.state.on(["text", "model", "target"], (changed) => this.forget(changed));
    this.state.on(["pulls"], () => this.place && this.show(this.place));
  }

  // A row that was pulled belongs to the sentence that it was pulled in.
  forget(changed) {
    this.history = [];
    if (!changed.has("pulls") && this.state.get("pulls").length) this.state.set({ pulls: [] });
  }

  /** Show the row of a place; `words` are those of its keys. */
  async show(place) {
    this.place = place;
    if (!this.source.can("trace") || place.query === null) {
      this.element.hidden = true;
      return;
    }
    await this.turns.run(async (isNewest) => {
      const request = { ...requestOf(this.state), pulls: [] };
      const base = await this.source.trace(request);
      const { arrays } = await this.source.layer(base.trace, place.kind, place.layer);
      if (!isNewest() || place.query >= arrays.weights.shape[1]) return;
      this.take(base, arrays, place);
      this.draw();
      await new Promise((done) => setTimeout(done, RESTING));
      if (!isNewest()) return;
      await this.effect.show({ base, request, pulls: this.state.get("pulls"), isNewest });
    });
  }

  take(base, arrays, place) {
    const { keys, queries } = kindOf(base, place.kind);
    const original = wholeRow(rowsOf(arrays.weights, place.head)[place.query]);
    const columns = arrays.visible.shape[1];
    const seen = arrays.visible.data.subarray(place.query * columns, (place.query + 1) * columns);
    const words = base.sides[keys].words.map((word) => ({ ...word, hidden: !word.positions.some((at) => seen[at] > 0) }));
    const name = JSON.stringify([base.trace, place]);
    const isOther = name !== this.name;
    Object.assign(this, { name, original, words, asking: base.sides[queries].tokens[place.query].text });
    this.row = this.pulled()?.row ?? original;
    if (isOther) this.offerWords();
  }

  pulled() {
    return this.state.get("pulls").find((pull) => isSameRow(pull, { ...this.place }));
  }

  offerWords() {
    const shares = sharesOf(this.row, this.words);
    const open = this.words.map((word, number) => ({ word, number })).filter(({ word }) => !word.hidden);
    const ranked = open.filter(({ word }) => !word.special).toSorted((a, b) => shares[b.number] - shares[a.number]);
    const options = open.map(({ word, number }) => [String(number), word.text]);
    const [first, second] = [ranked[0] ?? open[0], ranked[1] ?? open.at(-1)];
    this.from.offer(options, String(first.number));
    this.to.offer(options, String(second.number));
    this.start = this.row;
  }

  chooseWords() {
    this.start = this.row;
    this.draw();
  }

  draw() {
    const { kind, layer, head } = this.place;
    const [from, to] = [Number(this.from.select.value), Number(this.to.select.value)];
    this.element.hidden = false;
    this.heading.textContent = `Pull by hand what “${this.asking}” looks at`;
    const most = sharesOf(this.start, this.words)[from];
    const given = Math.max(0, most - sharesOf(this.row, this.words)[from]);
    this.amount.range.max = this.amount.typed.max = Math.max(0.01, Math.ceil(most * 100) / 100);
    this.amount.set(Math.round(given * 1e4) / 1e4);
    this.amount.range.disabled = this.amount.typed.disabled = from === to || most < 1e-6;
    this.undoer.disabled = !this.history.length;
    this.resetter.disabled = !this.state.get("pulls").length;
    const place = `${attentionTitle(kind, layer)}, head ${head}`;
    this.saying.textContent = from === to ? "Choose two different words." : `${place}: the row always adds up to ${digits(this.row.reduce((a, b) => a + b, 0))}${this.factor ?? ""}.`;
    this.drawRow();
  }

  drawRow() {
    const [before, now] = [this.original, this.row].map((row) => sharesOf(row, this.words));
    const head = make("tr", {}, ["word", "the model's own", "now", ""].map((text) => make("th", { scope: "col", text })));
    const active = document.activeElement?.dataset?.pullWord;
    const rows = this.words.map((word, number) => !word.hidden && this.line(word, number, before[number], now[number]));
    fill(this.table, make("table", { class: "pull-table" }, make("caption", { class: "unseen", text: "The row, word by word" }), make("thead", {}, head), make("tbody", {}, rows)));
    if (active !== undefined) this.table.querySelector(`[data-pull-word="${active}"]`)?.focus();
  }

  line(word, number, before, now) {
    const input = make("input", {
      type: "number", min: 0, max: 1, step: 0.01, value: digits(now, 4), "aria-label": `Weight of ${word.text}`, "data-pull-word": number,
      onchange: () => this.type(number, Number(input.value)),
    });
    const changed = Math.abs(now - before) > 5e-5;
    return make("tr", { class: changed ? "changed" : "" }, make("th", { scope: "row", class: "key", dir: "auto", text: word.text }), make("td", { class: "figure", text: digits(before) }), make("td", {}, input), track(now, before));
  }

  move(amount) {
    const [from, to] = [Number(this.from.select.value), Number(this.to.select.value)];
    this.factor = "";
    this.put(moveWeight(this.start, this.words, from, to, amount), "slider");
  }

  type(word, weight) {
    if (!Number.isFinite(weight)) return;
    const { row, factor } = setWeight(this.row, this.words, word, weight);
    this.factor = factor === null ? "; the others share the rest alike" : `; the other words were multiplied by ${digits(factor)} for that`;
    this.start = row;
    this.put(row, `word ${word}`);
  }

  put(row, control) {
    const { kind, layer, head, query } = this.place;
    this.row = row;
    this.change(withPull(this.state.get("pulls"), { kind, layer, head, query, row }, this.original), control);
  }

  change(pulls, control) {
    const isSameMove = control === this.control && performance.now() - this.changed < SAME_MOVE;
    if (!isSameMove) this.history.push(this.state.get("pulls"));
    Object.assign(this, { control, changed: performance.now() });
    if (control === "reset") this.factor = "";
    this.state.set({ pulls });
    if (control === "reset") this.start = this.row = this.original;
  }

  undo() {
    const before = this.history.pop();
    if (!before) return;
    this.control = this.factor = null;
    this.state.set({ pulls: before });
    this.start = this.row = this.pulled()?.row ?? this.original;
    this.draw();
    this.announce("The last pull is undone.");
  }
}
