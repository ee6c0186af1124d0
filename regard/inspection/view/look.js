/** Tab "Look": type a sentence and watch the attention. */

import { make } from "./dom.js";
import { Matrix } from "./matrix.js";
import { sentenceField } from "./sentence.js";

/** The tab. */
export class LookTab {
  constructor(root, { state, source, trace }) {
    Object.assign(this, { state, source, trace });
    const room = make("div", {});
    root.append(sentenceField({ state }), room);
    this.matrix = new Matrix(room, { label: "Attention" });
    trace.on(() => this.draw());
  }

  async show() {
    if (this.trace.current) await this.draw();
  }

  hide() {}

  async draw() {
    const current = this.trace.current;
    const { kind, layer, head } = current.pinned;
    const { arrays } = await this.source.layer(current.trace, kind, layer);
    const [, rows, columns] = arrays.weights.shape;
    const { queries, keys } = current.kinds.find(({ name }) => name === kind);
    const labels = (side) => current.sides[side].tokens.map(({ text }) => text);
    const weights = arrays.weights.data.subarray(head * rows * columns, (head + 1) * rows * columns);
    this.matrix.show({ rows: labels(queries), columns: labels(keys), weights, visible: arrays.visible.data });
  }
}
