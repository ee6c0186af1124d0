/**
 * What has been written, token by token, and what may come next: the numbers behind the tab "Write".
 *
 * Chips are the tokens that stand there: those of the beginning (for a translation the start sign alone) and
 * those written since. `at` is the chip after which the next word is looked at.
 */

/** Written ids as the address has them, "12.55", and back. */
export function readIds(line) {
  return (line ?? "").split(".").filter((part) => /^\d+$/.test(part)).map(Number);
}

/** The same the other way round; null where nothing is written. */
export function writeIds(ids) {
  return ids.length ? ids.join(".") : null;
}

/** Text being written with a model. */
export class Writing {
  constructor({ state, source, trace, model }) {
    this.state = state;
    this.source = source;
    this.trace = trace;
    this.model = model;
  }

  /** Whether words can be added: a saved file holds one sentence and no model. */
  get canGoOn() {
    return this.source.can("goOn");
  }

  get ids() {
    return this.canGoOn ? readIds(this.state.get("ids")) : [];
  }

  /** The tokens that were there before; null while the sentence is on its way. */
  beginning() {
    const { current } = this.trace;
    if (!current) return null;
    if (this.model().family === "encoder-decoder" && this.canGoOn) return [{ text: "start", special: "start" }];
    return current.sides[current.written].tokens;
  }

  /** The tokens that stand there, as the vocabulary writes them: those of the beginning, then the written ones. */
  chips(beginning, tokens) {
    const asWritten = (token) => (token.special || tokens[token.id] === undefined ? token : {
      ...token,
      text: tokens[token.id],
    });
    return [...beginning.map(asWritten), ...this.ids.map((id) => ({ id, text: tokens[id] ?? `id ${id}` }))];
  }

  /** The chip that is looked at, kept inside. */
  place(chips) {
    const asked = this.state.get("at");
    const at = asked === null ? NaN : Number(asked);
    return Number.isInteger(at) && at >= 0 && at < chips ? at : chips - 1;
  }

  /** Logits after a chip: {logits, meta}. */
  async after(ask, at, beginning) {
    const written = at - beginning.length + 1;
    if (written < 0 || !this.canGoOn) {
      const sheet = await ask.next(this.trace.current.trace, at);
      return { logits: sheet.arrays.logits.data, meta: { ...sheet.meta, ended: false, room: Infinity } };
    }
    const sheet = await ask.goOn(this.request(this.ids.slice(0, written)));
    return { logits: sheet.arrays.logits.data, meta: sheet.meta };
  }

  request(ids) {
    const { conditions, current } = this.trace;
    // A row changed in the decoder belongs to the words that stood there; only the source's stay.
    const interventions = conditions.interventions.filter(({ kind }) => kind === "encoder");
    return { ...conditions, interventions, text: current.text, ids };
  }
}
