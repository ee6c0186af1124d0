/**
 * The same answers out of a saved file or a notebook, where no model is at hand.
 *
 * data = {model, trace, vocabulary, sheets}: Model and Trace as the server gives them, vocabulary a list of
 * strings or null, and sheets a table from the path of a request to its sheet, deflated and in base64: "overview",
 * "attention/encoder/0" (tokens; words are merged here), "vectors/source", "steps/encoder/2/1/8", "next/3". What is
 * not there cannot be asked for.
 */

import { inflate, unpack } from "./wire.js";
import { Source } from "./requests.js";

const ABSENT = "This file holds what it was saved with and no more; open the sentence in `regard studio` to go on.";
const NO_STEPS = "The steps of this cell were not saved with the file; open the sentence in `regard studio` for them.";

/** One sentence, kept. */
export class KeptSource extends Source {
  constructor(data) {
    super();
    this.data = data;
    this.sheets = new Map();
  }

  /** Whether a request can be answered; "trace" means another sentence, which a kept one never has. */
  can(name) {
    const has = (start) => Object.keys(this.data.sheets).some((path) => path.startsWith(start));
    const table = {
      models: true,
      vocabulary: !!this.data.vocabulary,
      overview: has("overview"),
      layer: has("attention"),
    };
    return table[name] ?? (["vectors", "steps", "next"].includes(name) && has(`${name}/`));
  }

  async models() {
    return [this.data.model];
  }

  async vocabulary() {
    if (!this.data.vocabulary) throw new Error(ABSENT);
    return this.data.vocabulary;
  }

  async trace() {
    return this.data.trace;
  }

  async overview() {
    return this.sheet("overview");
  }

  async layer(_id, kind, layer, words = false) {
    const sheet = await this.sheet(`attention/${kind}/${layer}`);
    return words ? this.merged(sheet, kind) : sheet;
  }

  async vectors(_id, side) {
    return this.sheet(`vectors/${side}`);
  }

  async steps(_id, kind, layer, head, query) {
    return this.sheet(`steps/${kind}/${layer}/${head}/${query}`, NO_STEPS);
  }

  async next(_id, position) {
    return this.sheet(`next/${position}`);
  }

  saveAddress() {
    return null;
  }

  async sheet(path, absence = ABSENT) {
    if (!Object.hasOwn(this.data.sheets, path)) throw new Error(absence);
    if (!this.sheets.has(path)) this.sheets.set(path, inflate(this.data.sheets[path]).then(unpack));
    return this.deliver(this.sheets.get(path));
  }

  merged({ meta, arrays }, kind) {
    const { queries, keys } = this.data.trace.kinds.find((each) => each.name === kind);
    const rows = this.data.trace.sides[queries].words;
    const columns = this.data.trace.sides[keys].words;
    const weights = mergeWords(arrays.weights, rows, columns, true);
    const seen = mergeWords({ shape: [1, ...arrays.visible.shape], data: arrays.visible.data }, rows, columns, false);
    const visible = { shape: seen.shape.slice(1), data: seen.data.map((count) => (count > 0 ? 1 : 0)) };
    return { meta, arrays: { weights, visible } };
  }
}

/** Weights (heads, Q, K) between tokens as weights between words: keys summed, queries averaged. */
export function mergeWords({ shape, data }, rows, columns, average) {
  const [heads, queries, keys] = shape;
  const merged = new Float32Array(heads * rows.length * columns.length);
  for (let head = 0, at = 0; head < heads; head++) {
    for (const row of rows) {
      const share = average ? 1 / row.positions.length : 1;
      for (const column of columns) {
        let sum = 0;
        for (const query of row.positions) {
          for (const key of column.positions) sum += data[(head * queries + query) * keys + key];
        }
        merged[at++] = sum * share;
      }
    }
  }
  return { shape: [heads, rows.length, columns.length], data: merged };
}
