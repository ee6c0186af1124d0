/** Intervention attention by hand: move a word's weight to another word and see what the output makes of it. */

import { make, digits } from "../../core/dom.js";
import { panel } from "../../parts/panel.js";
import { button, choice, slider } from "../../parts/controls.js";
import { attentionTitle } from "../../parts/heads.js";
import { kindOf, requestBefore } from "../../core/tracing.js";
import { rowsOf } from "../../core/alignment.js";
import { offerSaves } from "../../saving/save.js";
import { moveEverywhere, interventionOf, setWeight, sharesOf, wholeRow, withIntervention } from "./interventions.js";
import { InterventionOutcome } from "./intervention_outcome.js";
import { InterventionRow } from "./intervention_row.js";
import { strongestHead } from "../../core/rivals.js";
import { rowName } from "../../core/rows.js";
import { PanelRequests } from "../../core/requests.js";

const SAME_MOVE = 800; // milliseconds within which changes by one control are undone together
const MOST_INTERVENTIONS = 64;

/** The panel; show({kind, layer, head, query}) whenever another row is looked at. */
export class InterventionPanel {
  constructor(root, context) {
    this.state = context.state;
    this.tracing = context.trace;
    this.source = context.source;
    this.notify = context.notify;
    this.history = [];
    this.moved = 0;
    const card = this.build(root, context);
    const subject = () => this.subject;
    this.requests = new PanelRequests(context, { name: "intervention", cards: [card], subject });
    this.scopeRequests = new PanelRequests(context, { name: "intervention-rows", cards: [card], subject });
    this.state.on(["text", "model", "target"], (changed) => this.forget(changed));
    this.state.on(["interventions"], () => this.place && this.show(this.place));
    this.state.on(["takefrom", "giveto"], () => this.words && this.offerWords());
  }

  /** What is asked for now, apart from the interventions; what is drawn may still be of another sentence. */
  get subject() {
    return JSON.stringify(requestBefore(this.tracing));
  }

  build(root, context) {
    const card = panel({ title: "Intervene on attention", class: "intervention" });
    const { element, heading, body, foot } = card;
    this.element = element;
    this.heading = heading;
    this.from = choice({ label: "Take from", options: [], onchange: () => this.chooseWords() });
    this.to = choice({ label: "give to", options: [], onchange: () => this.chooseWords() });
    this.scope = choice({
      label: "Change in",
      options: [["head", "this head"]],
      value: "head",
      onchange: () => this.begin(),
    });
    this.part = slider({
      label: "Part of its weight moved",
      least: 0,
      most: 1,
      step: 0.01,
      value: 0,
      onchange: (part) => this.move(part),
    });
    this.saying = make("p", { class: "hint" });
    this.table = new InterventionRow({ ontype: (word, typed) => this.type(word, typed) });
    this.undoer = button("Undo", () => this.undo());
    this.resetter = button("Reset", () => this.reset());
    this.stepOpener = button("Go to the step that writes it", () => this.goToStep(), { hidden: true });
    this.outcome = new InterventionOutcome(context);
    const controls = make("div", { class: "controls" }, this.from.root, this.to.root, this.scope.root);
    body.append(
      controls,
      this.part.root,
      make("div", { class: "buttons" }, this.undoer, this.resetter, this.stepOpener),
      this.outcome.element,
      this.saying,
      this.table.element,
    );
    offerSaves(foot, context, {
      name: "intervention",
      isThere: () => !!this.words,
      table: () => this.table.table(),
    });
    root.append(element);
    return card;
  }

  // A row that was changed belongs to the sentence that it was changed in.
  forget(changed) {
    this.history = [];
    if (!changed.has("interventions") && this.state.get("interventions").length) this.state.set({ interventions: [] });
  }

  async show(place) {
    this.place = place;
    if (!this.tracing.current) return;
    if (!this.source.can("trace") || place.query === null) {
      this.element.hidden = true;
      return;
    }
    const request = requestBefore(this.tracing);
    const load = async (ask) => {
      const base = await ask.trace(request);
      return { base, sheet: await ask.layer(base.trace, place.kind, place.layer) };
    };
    let isThere = false;
    const isDrawn = await this.requests.run(load, ({ base, sheet }) => {
      isThere = place.query < sheet.arrays.weights.shape[1];
      if (isThere) this.take(base, sheet.arrays);
      if (isThere) this.draw();
    });
    if (!isDrawn || !isThere) return;
    const outcome = { base: this.base, request, interventions: this.state.get("interventions") };
    if (await this.outcome.show(outcome)) this.offerStep();
  }

  take(base, { weights, visible }) {
    const { kind, layer, query } = this.place;
    const { keys } = kindOf(base, kind);
    const columns = visible.shape[1];
    const seen = visible.data.subarray(query * columns, (query + 1) * columns);
    const name = JSON.stringify([base.trace, this.place]);
    const isOther = name !== this.name;
    const words = base.sides[keys].words.map((word) => ({
      ...word,
      hidden: !word.positions.some((at) => seen[at] > 0),
    }));
    const originals = Array.from(
      { length: base.heads },
      (_, head) => ({ kind, layer, head, query, row: wholeRow(rowsOf(weights, head)[query]) }),
    );
    this.base = base;
    this.drawn = this.subject;
    this.name = name;
    this.words = words;
    this.originals = originals;
    this.asking = rowName(base, kindOf(base, kind), false, query);
    if (!isOther) return;
    this.offerScopes();
    this.offerWords();
    this.begin();
  }

  /** The row that is looked at: the model's own, and as it is changed now. */
  get original() {
    return this.originals[this.place.head].row;
  }

  get row() {
    return interventionOf(this.state.get("interventions"), this.place)?.row ?? this.original;
  }

  offerScopes() {
    const { kind, layer } = this.place;
    const { layers } = kindOf(this.base, kind);
    const all = layers * this.base.heads <= MOST_INTERVENTIONS ? [[
      "kind",
      `all ${layers * this.base.heads} ${kind} heads`,
    ]] : [];
    this.scope.offer([["head", "this head alone"], ["layer", `all heads of layer ${layer}`], ...all]);
  }

  offerWords() {
    const shares = sharesOf(this.row, this.words);
    const open = this.words.map((word, number) => ({
      ...word,
      number,
      share: shares[number],
    })).filter(({ hidden }) => !hidden);
    const telling = open.filter(({ special, text }) => !special && text.length > 3);
    const ranked = (telling.length > 1 ? telling : open).toSorted((a, b) => b.share - a.share);
    const named = (text) => open.find((word) => word.text === text);
    const from = named(this.state.get("takefrom")) ?? ranked[0];
    const to = named(this.state.get("giveto")) ?? ranked.find((word) => word !== from) ?? from;
    const options = open.map(({ number, text }) => [String(number), text]);
    this.from.offer(options, from.number);
    this.to.offer(options, to.number);
  }

  chooseWords() {
    const text = ({ select }) => this.words[Number(select.value)].text;
    this.state.set({ takefrom: text(this.from), giveto: text(this.to) });
    this.begin();
  }

  /** What is moved from now on is moved away from how the rows are at this moment. */
  begin() {
    this.start = this.state.get("interventions");
    this.moved = 0;
    this.factor = "";
    if (this.words) this.draw();
  }

  draw() {
    const { kind, layer, head } = this.place;
    this.element.hidden = false;
    this.heading.textContent = `Intervene on what ${this.asking} looks at`;
    const isSame = this.from.select.value === this.to.select.value;
    this.part.set(this.moved);
    this.part.range.disabled = this.part.typed.disabled = isSame;
    this.undoer.disabled = !this.history.length;
    this.resetter.disabled = !this.state.get("interventions").length;
    const sum = digits(this.row.reduce((all, share) => all + share, 0));
    this.saying.textContent = isSame
      ? "Choose two different words."
      : `${attentionTitle(kind, layer)}, head ${head}: the row adds up to ${sum}, as it always does` +
        `${this.factor ?? ""}. You can also type a weight; the others then make room.`;
    this.drawRow();
  }

  drawRow() {
    this.table.show({ words: this.words, original: this.original, row: this.row });
  }

  // The rivals are written by the decoder, in a step of its own.
  offerStep() {
    const { base, place } = this;
    const position = this.outcome.rivals?.position;
    const isThere = place.kind === "cross" && place.query === position;
    this.stepOpener.hidden = isThere || position === undefined || !base.kinds.some(({ name }) => name === "cross");
  }

  goToStep() {
    const { text } = this.words[Number(this.from.select.value)];
    return this.scopeRequests.run(
      (ask) => strongestHead(ask, this.base, "cross", this.outcome.rivals.position, text),
      (place) => this.state.set(place, { push: true }),
    );
  }

  move(part) {
    if (this.drawn !== this.subject) return this.draw();
    this.moved = part;
    this.factor = "";
    return this.scopeRequests.run((ask) => this.rowsInScope(ask), (rows) => {
      const [from, to] = [this.from, this.to].map(({ select }) => Number(select.value));
      this.change(moveEverywhere(this.start, rows, this.words, from, to, part), "slider");
    });
  }

  /** The model's own rows of all heads that are changed together. */
  async rowsInScope(ask) {
    const scope = this.scope.select.value;
    if (scope === "head") return [this.originals[this.place.head]];
    if (scope === "layer") return this.originals;
    const { kind, query } = this.place;
    const { base } = this;
    const numbers = Array.from({ length: kindOf(base, kind).layers }, (_, layer) => layer);
    const sheets = await Promise.all(numbers.map((layer) => ask.layer(base.trace, kind, layer)));
    return sheets.flatMap(({ arrays }, layer) => Array.from(
      { length: base.heads },
      (_, head) => ({ kind, layer, head, query, row: wholeRow(rowsOf(arrays.weights, head)[query]) }),
    ));
  }

  type(word, typed) {
    const weight = Number(typed);
    if (typed === "" || !Number.isFinite(weight) || this.drawn !== this.subject) return this.drawRow();
    const { row, factor } = setWeight(this.row, this.words, word, weight);
    const intervention = { ...this.originals[this.place.head], row };
    this.change(withIntervention(this.state.get("interventions"), intervention, this.original), `word ${word}`);
    this.begin();
    this.factor = factor === null ? " (the others share the rest alike)" : ` (the other words were multiplied by ${digits(factor)})`;
    return this.draw();
  }

  change(interventions, control) {
    const isSameMove = control === this.control && performance.now() - this.changed < SAME_MOVE;
    if (!isSameMove) this.history.push(this.state.get("interventions"));
    this.control = control;
    this.changed = performance.now();
    this.state.set({ interventions });
  }

  reset() {
    this.change([], "reset");
    this.begin();
    this.notify.confirm("All interventions are removed.");
  }

  undo() {
    if (!this.history.length) return;
    this.control = null;
    this.state.set({ interventions: this.history.pop() });
    this.begin();
    this.notify.confirm("The last intervention is undone.");
  }
}
