/** The sentence itself as a picture: each word shaded by how much the chosen word looks at it. */

import { make, fill, adjust, quoted } from "../core/dom.js";
import { paint, attentionShade, inkOn } from "../core/colour.js";
import { rove, stopAt } from "../core/roving.js";

const TOLD = 0.05; // from this weight on, the number stands under the word

/** One side of a trace as a list of words that can be pointed at and pinned. */
export class Words {
  constructor(root, { label, short, onhover, onpin, onisolate = (_place) => {} }) {
    this.onhover = onhover;
    this.onpin = onpin;
    this.onisolate = onisolate;
    this.parts = [];
    this.list = make("ul", { class: "words", "aria-label": label });
    rove(this.list, "button");
    this.list.addEventListener("pointerleave", () => this.onhover(null));
    root.append(
      make(
        "div",
        { class: "words-row" },
        make("p", { class: "words-label", "aria-hidden": "true", text: short }),
        this.list,
      ),
    );
  }

  /** Show words or tokens: parts as a trace's side has them. */
  show(parts, isWords) {
    const isSame = parts.length === this.parts.length && parts.every((part, i) => alike(part, this.parts[i]));
    this.parts = parts;
    if (isSame && this.isWords === isWords) return;
    this.isWords = isWords;
    this.list.classList.toggle("pieces", !isWords);
    this.buttons = parts.map((part, place) => this.word(part, place));
    fill(this.list, this.buttons.map((button) => make("li", {}, button)));
  }

  /** Shade by weights (null: no shading), and mark the word that asks and the one looked at. */
  shade(weights, { asking = null, answering = null, pinned = null } = {}) {
    this.weights = weights;
    this.buttons.forEach((button, place) => {
      button.classList.toggle("is-asking", place === asking);
      button.classList.toggle("is-answering", place === answering);
      if (button.getAttribute("aria-pressed") !== String(place === pinned)) button.setAttribute(
        "aria-pressed",
        place === pinned,
      );
      adjust(button, { "data-value": weights ? weights[place] : null });
      const number = weights && weights[place] >= TOLD ? weights[place].toFixed(2) : "";
      if (button.lastChild.textContent !== number) button.lastChild.textContent = number;
    });
    const stop = this.buttons[pinned ?? asking ?? 0] ?? this.buttons.at(-1); // behind the last word stands the end
    if (stop.tabIndex !== 0 && !this.list.contains(this.list.ownerDocument.activeElement)) stopAt(
      this.list,
      "button",
      stop,
    );
    paint(this.list, () => this.dye());
    this.reveal(stop, pinned);
  }

  // Only the list scrolls, never the page, and only when another word was pinned.
  reveal(button, pinned) {
    if (pinned === null || pinned === this.revealed) return;
    this.revealed = pinned;
    const [top, bottom] = [button.offsetTop, button.offsetTop + button.offsetHeight];
    if (top < this.list.scrollTop || bottom > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top - 60;
  }

  dye() {
    this.buttons.forEach((button, place) => {
      const weight = this.weights?.[place];
      const shade = weight > 0.005 ? attentionShade(weight) : null;
      button.style.setProperty("background-color", shade ? `rgb(${shade.join(", ")})` : "");
      button.style.setProperty("color", shade ? inkOn(shade) : "");
    });
  }

  word(part, place) {
    const isUnknown = part.known === false;
    const isLoose = !this.isWords && !part.special && place > 0 && this.parts[place - 1].word === part.word;
    const text = make("span", { class: "word-text", dir: "auto", text: part.text });
    const gloss = part.gloss && make("span", { class: "gloss", text: part.gloss });
    const number = make("span", { class: "word-weight", "aria-hidden": "true" });
    const settings = {
      type: "button",
      tabindex: place ? "-1" : "0",
      class: `word${isMark(part) ? " special" : ""}${isUnknown ? " unknown" : ""}${isLoose ? " joined" : ""}`,
      onclick: () => this.onpin(place),
      ondblclick: () => this.onisolate(place),
      onpointerenter: () => this.onhover(place),
      onfocus: () => this.onhover(place),
      onblur: () => this.onhover(null),
    };
    return make("button", settings, text, gloss, number);
  }
}

/** What to say about words the model has never met; nothing where it knows them all. */
export function unknownSentence(words) {
  const unknown = [...new Set(words.filter(({ known }) => known === false).map(({ text }) => quoted(text)))];
  if (!unknown.length) return "";
  const shown = unknown.slice(0, 6).join(", ") + (unknown.length > 6 ? ` and ${unknown.length - 6} more` : "");
  return `The model has not met ${shown} in training; what it makes of ${unknown.length > 1 ? "them" : "it"} is a guess.`;
}

// Start, end and the like, but not what a tokenizer calls unknown: that is a word somebody wrote.
function isMark({ special }) {
  return !!special && special !== "unknown";
}

function alike(one, other) {
  return ["text", "special", "known", "gloss", "word"].every((name) => one[name] === other[name]);
}
