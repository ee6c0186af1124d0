/**
 * Which head and which cell is looked at: pinned in the state, or previewed for a moment.
 *
 * Where nothing is pinned, the trace's own proposal holds. `query` and `key` are positions of tokens and may be
 * null: then the picture takes the row, and the cell in it, that tell most.
 */

const PLACE = ["kind", "layer", "head", "query", "key"];

/** The choice over a state and the shared trace. */
export class Choice {
  constructor(state, tracing) {
    this.state = state;
    this.tracing = tracing;
    this.previewed = null;
    this.proposal = null;
    this.listeners = new Set();
    state.on(PLACE, () => this.tell());
  }

  /** Hear of each change of what is pinned or previewed. */
  on(callback) {
    this.listeners.add(callback);
  }

  /** {kind, layer, head, query, key} for the current trace. */
  get pinned() {
    return resolve(this.tracing.current, this.chosen, this.proposal);
  }

  /** The same with what is previewed laid over it. */
  get now() {
    if (!this.previewed) return this.pinned;
    return resolve(this.tracing.current, over(this.pinned, this.previewed), this.proposal);
  }

  /** Pin a head ({kind, layer, head}), a row ({query}), or a cell ({query, key}). */
  pin(part) {
    this.previewed = null;
    this.state.set(over(this.pinned, part), { push: "head" in part });
    this.tell();
  }

  /** Show something for as long as the pointer or the focus is on it; null ends it. */
  preview(part) {
    if (JSON.stringify(part) === JSON.stringify(this.previewed)) return;
    this.previewed = part;
    this.tell();
  }

  /** Back to the trace's own proposal. */
  release() {
    this.previewed = null;
    this.state.set(Object.fromEntries(PLACE.map((name) => [name, null])));
    this.tell();
  }

  get chosen() {
    return Object.fromEntries(PLACE.map((name) => [name, this.state.get(name)]));
  }

  /** Take a new trace's proposal; while a sentence is being typed, another head of the same kind is not one. */
  propose(before, after) {
    const isFree = this.chosen.head === null;
    const isHeld = isFree && before && isEdit(before, after) && this.proposal?.kind === after.pinned.kind;
    const head = isHeld ? { layer: this.proposal.layer, head: this.proposal.head } : {};
    this.proposal = { ...after.pinned, ...head };
  }

  /** Follow the pinned words into a sentence that was changed; a word that is gone is let go. */
  follow(before, after) {
    this.propose(before, after);
    const { kind, query, key } = this.chosen;
    if (!before || query === null) return;
    const kindIn = (trace) => trace.kinds.find(({ name }) => name === (kind ?? trace.pinned.kind));
    const [was, is] = [kindIn(before), kindIn(after)];
    if (!was || !is || before.model !== after.model) return this.state.set({ query: null, key: null });
    const moved = (side, position) => sameWord(before.sides[side].tokens, after.sides[side].tokens, position);
    const place = moved(is.queries, query);
    this.state.set({ query: place, key: place === null || key === null ? null : moved(is.keys, key) });
  }

  // Several changes in one turn are told once.
  tell() {
    if (this.isTelling) return;
    this.isTelling = true;
    queueMicrotask(() => {
      this.isTelling = false;
      if (this.tracing.current) for (const callback of this.listeners) callback();
    });
  }
}

/**
 * What is chosen, as far as the trace has it, and else what is proposed.
 *
 * @param {any} trace
 * @param {any} chosen {kind, layer, head, query, key}; what is not chosen is null
 */
export function resolve(trace, { kind, layer, head, query, key }, proposal = null) {
  const proposed = proposal ?? trace.pinned;
  const has = trace.kinds.find(({ name }) => name === kind);
  if (!has) return { ...proposed, key: proposed.key ?? null };
  const isProposed = kind === proposed.kind && query === null && layer === proposed.layer && head === proposed.head;
  const inside = (number, count) => (Number.isInteger(number) && number >= 0 && number < count ? number : null);
  const tokens = (side) => trace.sides[side].tokens.length;
  return {
    kind,
    layer: inside(layer, has.layers) ?? has.layers - 1,
    head: inside(head, trace.heads) ?? 0,
    query: isProposed ? proposed.query : inside(query, tokens(has.queries)),
    key: inside(key, tokens(has.keys)),
  };
}

/** The row whose largest weight on a true word is the largest; rows and columns as a side's words or tokens. */
export function telling(weights, rows, columns) {
  let best = { row: 0, weight: -1 };
  for (let row = 0; row < rows.length; row++) {
    if (isMark(rows[row])) continue;
    const shares = columnsOf(weights, row, columns.length);
    const weight = Math.max(...shares.filter((_, column) => !isMark(columns[column])));
    if (weight > best.weight) best = { row, weight };
  }
  return best.row;
}

/** The place of the largest weight of a row. */
export function largestIn(weights, row, columns) {
  const shares = columnsOf(weights, row, columns);
  return shares.indexOf(Math.max(...shares));
}

function isMark({ special }) {
  return !!special && special !== "unknown";
}

function columnsOf(weights, row, columns) {
  return Array.from(weights.subarray(row * columns, (row + 1) * columns));
}

// Another kind of attention has other words in its rows; another row has another largest cell.
function over(pinned, part) {
  const merged = { ...pinned, ...part };
  if ("kind" in part && part.kind !== pinned.kind && !("query" in part)) merged.query = null;
  const isSameRow = ["kind", "layer", "head", "query"].every((name) => merged[name] === pinned[name]);
  if (!("key" in part) && !isSameRow) merged.key = null;
  return merged;
}

// Whether one sentence is the other with a few letters typed, taken out or replaced.
function isEdit(before, after) {
  const [one, other] = [before.text, after.text];
  const longest = Math.max(one.length, other.length);
  let start = 0;
  while (start < one.length && one[start] === other[start]) start++;
  let end = 0;
  while (end < Math.min(one.length, other.length) - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  return before.model === after.model && start + end >= 0.6 * longest;
}

function sameWord(before, after, position) {
  const text = before[position]?.text;
  if (after[position]?.text === text) return position;
  const places = after.map((token, place) => (token.text === text ? place : -1)).filter((place) => place >= 0);
  if (!places.length) return null;
  return places.reduce((best, place) => (Math.abs(place - position) < Math.abs(best - position) ? place : best));
}
