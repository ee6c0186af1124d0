/** Parts switched on and off, and what that changes, in a sentence. */

import { make, fill } from "./dom.js";
import { panel } from "./panel.js";
import { attentionTitle } from "./heads.js";

const TITLES = { scaling: "Divide by √dₖ", positions: "Positions", residual: "Residual connections", norm: "Norms" };
const PATIENCE = 450; // milliseconds of rest before a second reading is asked for

/** Put a part among those that are off, or take it out. */
export function flipped(off, part) {
  const spelled = String(part);
  const rest = off.filter((each) => String(each) !== spelled);
  return rest.length < off.length ? rest : [...off, part];
}

/** The panel; show(trace, scene) after each drawing. */
export class Switches {
  constructor({ state, source, fail }) {
    Object.assign(this, { state, source, fail });
    this.card = panel({ title: "What switching off does", class: "switches" });
    this.element = this.card.element;
    this.sentence = make("p", { class: "ablation", "aria-live": "polite" });
    this.detail = make("p", { class: "soft" });
    this.parts = make("ul", { class: "switch-list", "aria-label": "Parts of the model" });
    this.heads = make("ul", { class: "switch-list", "aria-label": "Heads that are off" });
    this.card.body.append(this.sentence, this.detail, this.parts, this.heads);
  }

  show(trace, scene) {
    const off = this.state.get("off");
    fill(this.parts, trace.switches.map((name) => this.part(name, !off.includes(name))));
    const heads = off.filter(Array.isArray);
    fill(this.heads, heads.map((part) => this.head(part)), off.length > 0 && this.allOn());
    this.askLater(trace, scene, off);
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
        onclick: () => this.state.set({ off: [] }, { push: true }),
      }),
    );
  }

  flip(part) {
    this.state.set({ off: flipped(this.state.get("off"), part) }, { push: true });
  }

  askLater(trace, { kind, layer, head }, off) {
    this.callOff?.();
    const tried = off.length ? off : [[kind, layer, head]];
    const asked = JSON.stringify([trace.trace, tried]);
    this.card.heading.textContent = off.length ? "What switching off did" : `What switching head ${head} off would do`;
    if (asked === this.asked) return;
    this.element.classList.add("is-waiting");
    this.callOff = this.source.work.after(PATIENCE, () => this.ask(trace, tried, off.length > 0, asked));
  }

  async ask(trace, off, isDone, asked) {
    this.stop?.abort();
    this.stop = new AbortController();
    try {
      const request = { model: trace.model, text: trace.text, off, snapshot: this.state.get("snapshot") };
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
