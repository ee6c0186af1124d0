/** The stack as a map of blocks: encoder and decoder side by side, the words below, what is written on top. */

import { make, fill, adjust } from "../../core/dom.js";
import { rove, stopAt } from "../../core/roving.js";
import { attentionTitle } from "../../parts/heads.js";

const SHORT = { encoder: "self", decoder: "self", cross: "cross" };

/** The map; pick(kind, layer) when a person picks an attention, descend() when they pick the words below. */
export class Blocks {
  constructor(root, { onpick, ondescend }) {
    this.onpick = onpick;
    this.ondescend = ondescend;
    this.element = make("div", { class: "blocks", role: "group", "aria-label": "The stack, as a map of blocks" });
    rove(this.element, "button");
    root.append(this.element);
  }

  /** Show the stack of a trace's model. */
  show({ trace, pinned, ablate }) {
    const shape = JSON.stringify(trace.kinds.map(({ name, layers, causal }) => [name, layers, causal]));
    if (shape !== this.shape) this.build(trace);
    this.shape = shape;
    for (const { button, kind, layer } of this.attentions) {
      const isPinned = kind === pinned.kind && layer === pinned.layer;
      const out = ablate.filter((part) => Array.isArray(part) && part[0] === kind && part[1] === layer).length;
      button.classList.toggle("is-partly-off", out > 0);
      const without = out ? `, ${out} of ${trace.heads} heads off` : "";
      adjust(button, { "aria-pressed": String(isPinned), "aria-label": attentionTitle(kind, layer) + without });
      if (isPinned && !this.element.contains(this.element.ownerDocument.activeElement)) stopAt(
        this.element,
        "button",
        button,
      );
    }
  }

  build(trace) {
    this.attentions = [];
    const has = (name) => trace.kinds.find((kind) => kind.name === name);
    const [encoder, decoder, cross] = ["encoder", "decoder", "cross"].map(has);
    const columns = [
      encoder && this.column("Encoder", encoder.layers, ["encoder"], "source"),
      decoder && this.column(
        "Decoder",
        decoder.layers,
        cross ? ["decoder", "cross"] : ["decoder"],
        cross ? "target" : "words",
      ),
    ];
    this.element.classList.toggle("is-pair", !!(encoder && decoder));
    fill(this.element, columns);
  }

  column(title, layers, kinds, below) {
    const blocks = [];
    for (let layer = layers - 1; layer >= 0; layer--) blocks.push(this.block(layer, kinds));
    const words = make("button", {
      type: "button",
      class: "block-words",
      tabindex: "-1",
      text: "embeddings",
      onclick: () => this.ondescend(below),
    });
    adjust(words, { "aria-label": `${title}: embeddings and positions` });
    return make(
      "div",
      { class: `block-column ${title.toLowerCase()}` },
      make("p", { class: "block-title", text: title }),
      blocks,
      words,
    );
  }

  block(layer, kinds) {
    const buttons = kinds.map((kind) => {
      const settings = {
        type: "button",
        tabindex: "-1",
        class: `block-attention ${kind}`,
        onclick: () => this.onpick(kind, layer),
      };
      const button = make("button", { ...settings, text: SHORT[kind] });
      this.attentions.push({ button, kind, layer });
      return button;
    });
    const number = make("span", { class: "block-number", "aria-hidden": "true", text: layer });
    return make(
      "div",
      { class: "block" },
      number,
      buttons,
      make("span", { class: "block-feed", "aria-hidden": "true", text: "ff" }),
    );
  }
}
