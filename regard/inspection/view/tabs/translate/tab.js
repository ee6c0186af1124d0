/** Tab "Translate": source and output, alignment, the decoder step by step, the beam's tree. */

import { make, fill } from "../../core/dom.js";
import { sentenceField, exampleList } from "../../parts/sentence.js";
import { Turns } from "../../core/turns.js";
import { AlignmentPanel } from "./aligning.js";
import { DecodingPanel } from "./decoding.js";
import { BeamPanel } from "./beam.js";
import { TabBase, isReady } from "../../core/tab.js";

/** Translate and watch. */
class TranslateTab extends TabBase {
  constructor(root, context) {
    super(context);
    this.turns = new Turns(this.fail);
    this.alignment = new AlignmentPanel(context);
    this.decoding = new DecodingPanel(context);
    this.beam = this.source.can("translate") ? new BeamPanel(context) : null;
    this.output = make("p", { class: "output-line translation", dir: "auto" });
    this.examples = make("div", {});
    root.append(
      this.source.can("trace") ? sentenceField({ state: this.state, label: "Your sentence" }) : "",
      this.examples,
      this.output,
      make("div", { class: "side-by-side" }, this.alignment.element, this.decoding.element),
      this.beam?.element ?? "",
    );
    this.trace.on(() => this.isShown && this.draw());
    this.state.on(["beams", "penalty"], () => this.isShown && this.beam?.refresh());
  }

  async show() {
    this.isShown = true;
    fill(
      this.examples,
      this.source.can("trace") && exampleList({
        state: this.state,
        examples: this.model().examples.slice(0, 4),
      }),
    );
    await this.draw();
  }

  hide() {
    this.isShown = false;
    this.decoding.rest();
  }

  async draw() {
    const trace = this.trace.current;
    if (!trace?.sides.target || !trace.kinds.some(({ name }) => name === "cross")) return;
    fill(
      this.output,
      make("span", { class: "soft", text: "It writes: " }),
      make("b", { class: "output", text: trace.translation ?? trace.sides.target.text }),
    );
    await Promise.all([
      this.turns.run(async (isNewest) => {
        await this.alignment.show(trace, isNewest);
        if (isNewest()) await this.decoding.show(trace, this.alignment);
      }),
      this.beam?.refresh(),
    ]);
  }
}

/** @type {import("../../core/tab.js").TabEntry} */
export const TRANSLATE = {
  name: "translate",
  title: "Translate",
  needs: ["next", "vocabulary"],
  fits: (model) => isReady(model) && model.family === "encoder-decoder",
  Tab: TranslateTab,
};
