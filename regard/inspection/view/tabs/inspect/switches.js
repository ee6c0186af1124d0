/** Parts switched on and off, and what that changes, in a sentence. */

import { make, fill } from "../../core/dom.js";
import { panel } from "../../parts/panel.js";
import { attentionTitle } from "../../parts/heads.js";

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
  constructor({ state, source, fail }) {
    this.state = state;
    this.source = source;
    this.fail = fail;
    this.card = panel({ title: "What switching off does", class: "switches" });
    this.element = this.card.element;
    this.sentence = make("p", { class: "ablation", "aria-live": "polite" });
    this.detail = make("p", { class: "soft" });
    this.parts = make("ul", { class: "switch-list", "aria-label": "Parts of the model" });
    this.heads = make("ul", { class: "switch-list", "aria-label": "Heads that are off" });
    this.card.body.append(this.sentence, this.detail, this.parts, this.heads);
  }

  show(trace, scene) {
    const ablate = this.state.get("ablate");
    fill(this.parts, trace.switches.map((name) => this.part(name, !ablate.includes(name))));
    const heads = ablate.filter(Array.isArray);
    fill(this.heads, heads.map((part) => this.head(part)), ablate.length > 0 && this.allOn());
    this.askLater(trace, scene, ablate);
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

  askLater(trace, { kind, layer, head }, ablate) {
    this.callOff?.();
    const tried = ablate.length ? ablate : [[kind, layer, head]];
    const asked = JSON.stringify([trace.trace, tried]);
    this.card.heading.textContent = ablate.length ? "What switching off did" : `What switching head ${head} off would do`;
    if (asked === this.asked) return;
    this.element.classList.add("is-waiting");
    this.callOff = this.source.work.after(PATIENCE, () => this.ask(trace, tried, ablate.length > 0, asked));
  }

  async ask(trace, ablate, isDone, asked) {
    this.stop?.abort();
    this.stop = new AbortController();
    try {
      const request = { model: trace.model, text: trace.text, ablate, snapshot: this.state.get("snapshot") };
      const ablation = await this.source.ablation(request, this.stop.signal);
      this.asked = asked;
      this.sentence.textContent = ablation.sentence;
      this.detail.textContent = isDone ? outcome(ablation) : "Press X, or the button above the picture, to switch it off.";
    } catch (error) {
      if (error.name === "AbortError") return;
      this.sentence.textContent = error.message;
      this.detail.textContent = "";
    }
    this.element.classList.remove("is-waiting");
  }
}

function outcome({ text, text_without: without }) {
  if (text === null || text === undefined || without === null) return "";
  return text === without ? "It still writes the same." : `It now writes: ${without}`;
}
