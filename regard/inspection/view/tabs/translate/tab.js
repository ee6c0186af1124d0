/** Tab "Translate": source and output, alignment, the decoder step by step, the beam's tree. */

import { make } from "../../core/dom.js";
import { sentenceBar, sentenceField, Examples } from "../../parts/sentence.js";
import { AlignmentPanel } from "./aligning.js";
import { DecodingPanel } from "./decoding.js";
import { BeamPanel } from "./beam.js";
import { TabBase, isReady } from "../../core/tab.js";

/** Translate and watch. */
class TranslateTab extends TabBase {
  constructor(root, context) {
    super(context);
    this.output = make("p", { class: "output-line translation", dir: "auto" });
    this.alignment = new AlignmentPanel(context, this.output);
    this.decoding = new DecodingPanel(context);
    this.beam = this.source.can("translate") ? new BeamPanel(context) : null;
    this.examples = new Examples(this);
    root.append(
      this.source.can("trace") ? sentenceBar(sentenceField({ state: this.state }), this.examples.element) : "",
      this.output,
      make("div", { class: "side-by-side" }, this.alignment.element, this.decoding.element),
      this.beam?.element ?? "",
    );
    this.trace.on(() => this.isShown && this.draw());
    this.state.on(["beams", "penalty"], () => this.isShown && this.trace.current && this.beam?.show(this.trace.current));
  }

  async show() {
    this.isShown = true;
    this.examples.show(4);
    await this.draw();
  }

  hide() {
    this.isShown = false;
    this.decoding.rest();
  }

  async draw() {
    const trace = this.trace.current;
    if (!trace?.sides.target || !trace.kinds.some(({ name }) => name === "cross")) return;
    const beam = this.beam?.show(trace);
    if (await this.alignment.show(trace)) await this.decoding.show(trace, this.alignment);
    await beam;
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
