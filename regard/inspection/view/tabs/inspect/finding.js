/** What the page begins with: one finding about the sentence, measured in the loaded model, and three next steps. */

import { make, fill } from "../../core/dom.js";
import { pairOf, plain } from "../../core/rivals.js";
import { button } from "../../parts/controls.js";

/** The strip; show(trace, isShown) after each drawing, where isShown says that the picture is that of the finding. */
export class FindingStrip {
  /**
   * @param {any} context what every tab is given
   * @param {{ onshow: () => void }} events
   */
  constructor(context, { onshow }) {
    this.context = context;
    this.state = context.state;
    this.claim = make("strong", { class: "claim" });
    this.detail = make("span", { class: "soft" });
    this.open = button("Show it", onshow, { class: "quiet" });
    this.steps = make("div", { class: "next-steps", role: "group", "aria-label": "What to do next" });
    const said = make("p", { class: "finding-said" }, this.claim, " ", this.detail, " ", this.open);
    const label = make("p", { class: "words-label", text: "It shows" });
    this.element = make("div", { class: "finding" }, label, said, this.steps);
  }

  show(trace, isShown) {
    this.claim.textContent = trace.finding.claim;
    this.detail.textContent = trace.finding.detail;
    this.open.hidden = isShown;
    fill(this.steps, this.context.source.can("trace") && this.nextSteps(trace).map(([text, act], place) => button(
      text,
      act,
      { class: place ? "chip" : "chip primary" },
    )));
  }

  /** The tour, a second sentence, and the layers: [text, what happens]. */
  nextSteps(trace) {
    const { state, context } = this;
    const { other } = pairOf(trace.text, context.model().pairs) ?? {};
    const compare = other
      ? [`Compare with “… ${ending(trace.text, other)}”`, () => state.set({ tab: "compare", second: other }, { push: true })]
      : ["Compare with another sentence", () => state.set({ tab: "compare", second: state.get("second") ?? trace.text }, { push: true })];
    const { output } = context.model();
    const why = output === "classes" ? "See what decides the class" : "See what each layer would write";
    const layers = [why, () => state.set({ tab: "layers" }, { push: true })];
    return [["Take the tour", () => context.tour.begin()], compare, ...(output === "vectors" ? [] : [layers])];
  }
}

// The words of the second sentence from the first one that differs.
function ending(text, other) {
  const [one, two] = [text, other].map((sentence) => plain(sentence).split(" "));
  const at = two.findIndex((word, place) => word !== one[place]);
  return other.split(" ").slice(Math.max(0, at)).join(" ");
}
