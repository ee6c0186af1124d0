/** Beam search: how wide, how long, what was tried and what became of it. */

import { make, fill, digits } from "../../core/dom.js";
import { panel } from "../../parts/panel.js";
import { slider, tick } from "../../parts/controls.js";
import { foldedTable } from "../../parts/table.js";
import { offerSaves } from "../../saving/save.js";
import { Tree } from "./tree.js";
import { PanelRequests } from "../../core/requests.js";

const FEW = 3;

/** The panel; show(trace) asks for the tree of a trace's text. */
export class BeamPanel {
  constructor(context) {
    const { state } = context;
    this.state = state;
    this.tracing = context.trace;
    const card = panel({ title: "The beam: several translations at once", class: "beam" });
    const { element, body, foot } = card;
    this.element = element;
    this.requests = new PanelRequests(context, { name: "beam", cards: [card] });
    this.beams = slider({
      label: "Beams",
      least: 1,
      most: 8,
      step: 1,
      value: 4,
      limit: 16,
      onchange: (n) => state.set({ beams: Math.round(n) }),
    });
    this.penalty = slider({
      label: "Length penalty",
      least: 0,
      most: 2,
      step: 0.1,
      value: 0.6,
      limit: 10,
      onchange: (n) => state.set({ penalty: String(n) }),
    });
    this.all = tick({ label: "Show every branch that was dropped", value: false, onchange: () => this.draw() });
    this.saying = make("p", { class: "sentence-of" });
    this.results = make("ol", { class: "results", start: 1 });
    const room = make("div", { class: "tree-holder" });
    body.append(
      make("div", { class: "sliders" }, this.beams.root, this.penalty.root, this.all.root),
      this.saying,
      room,
      make("h3", { text: "Finished translations" }),
      this.results,
    );
    this.tree = new Tree(room);
    this.folded = foldedTable({ caption: "All hypotheses of the beam", give: () => this.tree.table() });
    foot.append(this.folded);
    offerSaves(foot, context, {
      name: "beam tree",
      isThere: () => !!this.answer,
      svg: () => this.tree.svg(),
      table: () => this.tree.table(),
    });
  }

  show({ text }) {
    const { model, ablate, snapshot } = this.tracing.conditions;
    const request = { model, ablate, snapshot, text, beams: this.width, length_penalty: this.length };
    return this.requests.run((ask) => ask.translate(request), (answer) => {
      this.answer = answer;
      this.draw();
    });
  }

  get width() {
    return Math.max(1, Math.min(this.state.get("beams") ?? 4, 16));
  }

  get length() {
    const asked = Number(this.state.get("penalty") ?? 0.6);
    return asked >= 0 && asked <= 10 ? asked : 0.6;
  }

  draw() {
    if (!this.answer) return;
    this.beams.set(this.width);
    this.penalty.set(this.length);
    const { tree, best } = this.answer;
    const dropped = tree.filter(({ fate }) => fate === "outranked").length;
    this.saying.textContent =
      `${tree.length - 1} hypotheses were tried, at most ${this.width} kept at a time and ${dropped} dropped. ` +
      "A score is the sum of log-probabilities; the rank score divides it by a power of the length, so that " +
      "short ones do not win by being short." +
      `${this.tracing.conditions.interventions.length ? " The beam is searched without the interventions." : ""}`;
    this.tree.show(tree, this.all.box.checked ? Infinity : FEW);
    const line = ({ text, score, rank_score: ranked }) => make(
      "li",
      {},
      make("span", { dir: "auto", text }),
      make("span", { class: "figure soft", text: ` score ${digits(score, 2)}, rank ${digits(ranked, 2)}` }),
    );
    fill(this.results, best.map(line));
    this.folded.refresh();
  }
}
