/** Tab "Layers": what each layer would write, where each layer looks, and why one word is written and not another. */

import { make } from "../../core/dom.js";
import { PanelRequests } from "../../core/requests.js";
import { TabBase, isReady } from "../../core/tab.js";
import { forkOf, likeliestRivals, pairOf } from "../../core/rivals.js";
import { choose } from "../../parts/panel.js";
import { Examples, sentenceBar, sentenceField, unitSwitch } from "../../parts/sentence.js";
import { FlowPanel } from "./flow.js";
import { ForcedOutput } from "./forcing.js";
import { LensPanel } from "./lens.js";
import { WhyPanel } from "./why.js";

/** The layers of one sentence. */
class LayersTab extends TabBase {
  constructor(root, context) {
    super(context);
    this.forced = new ForcedOutput(context);
    this.lens = new LensPanel(context, { onpick: (place) => this.pick(place) });
    this.why = new WhyPanel(context, { onforce: (place, id) => this.forced.write(place, id) });
    this.flow = new FlowPanel(context);
    this.requests = new PanelRequests(context, { name: "lens", cards: [this.lens.card] });
    this.build(root);
    this.trace.on(() => this.refresh());
    this.state.on(["words"], () => this.isShown && this.flow.refresh());
    this.state.on(["place", "word", "instead", "method"], () => this.isShown && this.draw());
  }

  async show() {
    this.isShown = true;
    this.examples.show();
    await this.refresh();
  }

  hide() {
    this.isShown = false;
    this.requests.stop();
  }

  build(root) {
    this.examples = new Examples(this);
    this.units = unitSwitch(this.state);
    root.append(
      sentenceBar(sentenceField({ state: this.state, hint: "Type a sentence" }), this.examples.element, this.units),
      this.forced.element,
      make("div", { class: "layers-grid" }, this.why.element, this.lens.element, this.flow.element),
    );
  }

  /** Ask for the lens and for the question to begin with, then draw all three panels. */
  async refresh() {
    const trace = this.trace.current;
    if (!trace || !this.isShown) return;
    this.forced.show(trace);
    this.flow.refresh();
    await this.requests.run(
      async (ask) => {
        const lens = this.model().output === "classes" ? null : await ask.lens(trace.trace);
        return { trace, lens, focus: await this.focusOf(ask, trace, lens) };
      },
      (answer) => {
        this.answer = answer;
        this.draw();
      },
    );
  }

  draw() {
    choose(this.units, this.state.get("words") ?? true ? "words" : "pieces");
    if (!this.answer || this.answer.trace !== this.trace.current) return;
    const { trace, lens, focus } = this.answer;
    const question = this.questionOf(trace, focus);
    this.lens.show({ trace, lens, place: question.place });
    this.why.show({ trace, lens, ...question });
  }

  /** The question that is asked: what was chosen as far as this trace has it, and else the one to begin with. */
  questionOf(trace, focus) {
    const [place, word, instead] = ["place", "word", "instead"].map((name) => this.state.get(name));
    const count = trace.sides[trace.written].tokens.length;
    if (place === null || place >= count || place === focus.place) {
      return { place: focus.place, word: word ?? focus.word, instead: instead ?? focus.instead };
    }
    return { place, word, instead };
  }

  /** Where to begin: where the outputs of a pair of sentences part; at a mask; else where the choice is closest. */
  async focusOf(ask, trace, lens) {
    const fork = await this.forkOf(ask, trace);
    if (fork) return { place: fork.position, word: fork.words[0], instead: fork.words[1] };
    if (!lens) return { place: 0, word: null, instead: null };
    const mask = trace.sides[trace.written].tokens.findIndex(({ special }) => special === "mask");
    const place = mask >= 0 ? mask : likeliestRivals(lens.arrays.probabilities, trace.sides.source ? null : -1);
    return { place, word: null, instead: null };
  }

  async forkOf(ask, trace) {
    const pair = pairOf(trace.text, this.model().pairs);
    if (!pair || trace.translation === null) return null;
    const other = await ask.trace({ ...this.trace.request, text: pair.other, target: null });
    return forkOf(trace.sides.target.tokens, other.sides.target.tokens);
  }

  pick(place) {
    this.state.set({ place, word: null, instead: null });
  }
}

/** @type {import("../../core/tab.js").TabEntry} */
export const LAYERS = {
  name: "layers",
  title: "Layers",
  needs: ["lens", "flow", "attribution"],
  fits: (model) => isReady(model) && model.output !== "vectors",
  Tab: LayersTab,
};
