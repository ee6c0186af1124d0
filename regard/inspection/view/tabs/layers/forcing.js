/** The output that is inspected in place of the model's own: "what if it wrote elle?". */

import { make, adjust, uniqueId } from "../../core/dom.js";
import { PanelRequests } from "../../core/requests.js";
import { button } from "../../parts/controls.js";
import { errorLine } from "../../parts/panel.js";
import { growingField } from "../../parts/sentence.js";

const MOST_STEPS = 60; // words that the model may add to a forced beginning

/** The field; show(trace) after each trace, write(place, id) to force one word. */
export class ForcedOutput {
  constructor(context) {
    this.state = context.state;
    this.tracing = context.trace;
    const id = uniqueId("forced");
    this.field = growingField({ id, class: "sentence-field", "aria-describedby": `${id}-hint` });
    this.label = make("label", { for: id });
    this.hint = make("p", { class: "hint", id: `${id}-hint` });
    this.reset = button("Its own words", () => this.state.set({ target: null }, { push: true }), { class: "quiet" });
    const row = make("div", { class: "sentence-row" }, this.label, this.field);
    this.element = make("div", { class: "forced sentence-bar" }, row, this.reset, this.hint);
    this.requests = new PanelRequests(context, { name: "forced output", cards: [errorLine(this.element)], startsEmpty: false });
    this.field.addEventListener("input", () => this.state.set({ target: this.field.value.trim() ? this.field.value : null }));
    this.state.on(["target"], () => this.draw());
  }

  show(trace) {
    this.trace = trace;
    this.draw();
  }

  draw() {
    if (!this.trace) return;
    const { sides } = this.trace;
    const forced = this.state.get("target");
    this.element.hidden = !sides.target;
    if (!sides.target) return;
    this.label.textContent = sides.source ? "It writes" : "It goes on";
    this.reset.hidden = forced === null;
    const own = forced ?? (sides.source ? sides.target.text : "");
    if (!this.isTyping(forced) && this.field.value !== own) adjust(this.field, { value: own });
    this.field.grow();
    this.hint.textContent = this.told(forced, sides.source);
  }

  // Whether somebody is at the field and its words are those of the state, or it was emptied to type others.
  isTyping(forced) {
    const { value } = this.field;
    return this.field === this.field.ownerDocument.activeElement && (value.trim() ? value : null) === forced;
  }

  told(forced, translates) {
    if (forced !== null) return "Forced: everything on this page is computed for these words instead of the model’s own.";
    return translates
      ? "The model’s own words. Change one, and everything is computed as if the model had written it."
      : "Type words to go on with, and everything is computed for the longer text.";
  }

  /** Write a word in place of the one after a position; a translation then goes on by itself, likeliest word by word. */
  write(place, id) {
    const { trace } = this;
    const typed = this.state.get("text");
    if (typed?.trim() && typed !== trace.text) return false; // another sentence is on its way
    return this.requests.run(
      (ask) => (trace.sides.source ? this.goOn(ask, trace, place, id) : this.append(ask, trace, place, id)),
      (target) => this.state.set({ target, place, word: null, instead: null }, { push: true }),
    );
  }

  async append(ask, trace, place, id) {
    if (place < trace.sides.target.tokens.length - 1) throw new Error("A text can only be continued at its end; choose its last position.");
    const tokens = await ask.vocabulary(trace.model);
    return `${this.state.get("target") ?? ""}${tokens[id]}`;
  }

  async goOn(ask, trace, place, id) {
    const { model, ablate, interventions, snapshot } = this.tracing.request;
    const ids = [...trace.sides.target.tokens.slice(1, place + 1).map((token) => token.id), id];
    for (let step = 0; ; step++) {
      const { meta, arrays } = await ask.goOn({ model, text: trace.text, ids: [...ids], ablate, interventions, snapshot });
      if (meta.ended || !meta.room || step === MOST_STEPS) return meta.text;
      ids.push(likeliest(arrays.logits.data));
    }
  }
}

function likeliest(logits) {
  return logits.reduce((best, logit, id) => (logit > logits[best] ? id : best), 0);
}
