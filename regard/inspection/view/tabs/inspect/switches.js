/** Parts switched on and off, and what that changes, in a sentence. */

import { make, fill } from "../../core/dom.js";
import { panel } from "../../parts/panel.js";
import { attentionTitle } from "../../parts/heads.js";
import { PanelRequests } from "../../core/requests.js";

const TITLES = { scaling: "Divide by √dₖ", positions: "Positions", residual: "Residual connections", norm: "Norms" };
const PATIENCE = 450; // milliseconds of rest before a second reading is asked for

/** Put a part among those that are off, or take it out. */
export function flipped(ablate, part) {
  const spelled = String(part);
  const rest = ablate.filter((each) => String(each) !== spelled);
  return rest.length < ablate.length ? rest : [...ablate, part];
}

/** The panel; show(trace, scene) after each drawing. */
export class Switches {
  constructor(context) {
    this.state = context.state;
    this.tracing = context.trace;
    this.card = panel({ title: "What switching off does", class: "switches" });
    this.requests = new PanelRequests(context, { name: "switches", cards: [this.card], startsEmpty: false });
    this.element = this.card.element;
    this.sentence = make("p", { class: "ablation", "aria-live": "polite" });
    this.detail = make("p", { class: "soft" });
    this.parts = make("ul", { class: "switch-list", "aria-label": "Parts of the model" });
    this.heads = make("ul", { class: "switch-list", "aria-label": "Heads that are off" });
    this.card.body.append(this.sentence, this.detail, this.parts, this.heads);
  }

  show(trace, scene) {
    const { ablate } = this.tracing.conditions;
    fill(this.parts, trace.switches.map((name) => this.part(name, !ablate.includes(name))));
    const heads = ablate.filter(Array.isArray);
    fill(this.heads, heads.map((part) => this.head(part)), ablate.length > 0 && this.allOn());
    this.ask(trace, scene, ablate);
  }

  part(name, isOn) {
    const box = make("input", { type: "checkbox", checked: isOn, onchange: () => this.flip(name) });
    return make("li", {}, make("label", {}, box, TITLES[name] ?? name));
  }

  head(part) {
    const [kind, layer, head] = part;
    const title = `${attentionTitle(kind, layer)}, head ${head}`;
    return make(
      "li",
      {},
      make("button", { type: "button", class: "chip", text: `${title}: switch on`, onclick: () => this.flip(part) }),
    );
  }

  allOn() {
    return make(
      "li",
      {},
      make("button", {
        type: "button",
        class: "quiet",
        text: "Switch everything on",
        onclick: () => this.state.set({ ablate: [] }, { push: true }),
      }),
    );
  }

  flip(part) {
    this.state.set({ ablate: flipped(this.state.get("ablate"), part) }, { push: true });
  }

  ask(trace, { kind, layer, head }, ablate) {
    const isDone = ablate.length > 0;
    const { model, snapshot } = this.tracing.conditions;
    const request = { model, snapshot, text: trace.text, ablate: isDone ? ablate : [[kind, layer, head]] };
    const load = async (ask) => {
      await ask.rest(PATIENCE);
      return ask.ablation(request);
    };
    this.element.classList.add("is-waiting");
    return this.requests.run(load, (ablation) => {
      this.card.heading.textContent = isDone ? "What switching off did" : `What switching head ${head} off would do`;
      this.sentence.textContent = ablation.sentence;
      this.detail.textContent = isDone ? outcome(ablation) : "Press X, or the button above the picture, to switch it off.";
      this.element.classList.remove("is-waiting");
    });
  }
}

function outcome({ text, text_without: without }) {
  if (text === null || text === undefined || without === null) return "";
  return text === without ? "It still writes the same." : `It now writes: ${without || "nothing"}`;
}
