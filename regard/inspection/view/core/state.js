/**
 * What a person has chosen, mirrored in the address, so that a link reproduces a finding.
 *
 * Positions (`query`, `key`) count tokens from 0, also where words are shown. A field that is not in FIELDS is
 * kept as text; add one here when another kind is needed.
 */

const TEXT = { read: (text) => text, write: String, empty: null };
const NUMBER = { read: (text) => finite(text), write: String, empty: null };
const FLAG = { read: (text) => text === "1", write: (value) => (value ? "1" : "0"), empty: null };
const PARTS = { read: readParts, write: writeParts, empty: [] };
const NUMBERS = { read: readNumbers, write: (list) => list.join("."), empty: null };
const DATA = { read: readData, write: (value) => JSON.stringify(value), empty: [] };

const FIELDS = {
  model: TEXT,
  tab: TEXT,
  text: TEXT,
  target: TEXT,
  second: TEXT,
  kind: TEXT,
  layer: NUMBER,
  head: NUMBER,
  query: NUMBER,
  key: NUMBER,
  words: FLAG,
  picture: TEXT,
  heads: NUMBERS,
  temperature: NUMBER,
  topk: NUMBER,
  topp: NUMBER,
  beams: NUMBER,
  ablate: PARTS,
  interventions: DATA,
  snapshot: NUMBER,
  place: NUMBER,
  word: NUMBER,
  instead: NUMBER,
  queries: NUMBERS,
  lesson: TEXT,
};
const LISTED = 150; // browsers allow about a hundred changes of the address in ten seconds

/** Values by name; who asked for some of them hears when they change. */
export class State {
  constructor({ address = true } = {}) {
    this.values = {};
    this.listeners = [];
    this.address = address;
    if (!address) return;
    this.values = readAddress(location.hash);
    this.heard = () => this.reread();
    addEventListener("hashchange", this.heard);
  }

  /** The value of a field; null, or an empty list, where nothing was chosen. */
  get(name) {
    return this.values[name] ?? field(name).empty;
  }

  /** Change some values; `push` lets the browser's Back return to before. */
  set(values, { push = false } = {}) {
    const changed = new Set();
    for (const [name, value] of Object.entries(values)) if (this.change(name, value)) changed.add(name);
    if (!changed.size) return;
    if (this.address) this.writeSoon(push);
    this.tell(changed);
  }

  /** Hear of changes of these fields: callback(set of changed names); returns what ends it. */
  on(names, callback) {
    const listener = { names: new Set(names), callback };
    this.listeners.push(listener);
    return () => {
      this.listeners = this.listeners.filter((each) => each !== listener);
    };
  }

  /** The address that stands for all this; null where there is none. */
  link() {
    if (!this.address) return null;
    this.write();
    return location.href;
  }

  /** Stop listening to the address. */
  end() {
    clearTimeout(this.timer);
    if (this.heard) removeEventListener("hashchange", this.heard);
    this.listeners = [];
  }

  change(name, value) {
    const before = this.values[name] === undefined ? undefined : field(name).write(this.values[name]);
    const isEmpty = (value ?? null) === null || (Array.isArray(value) && !value.length && name !== "heads");
    if (isEmpty) delete this.values[name];
    else this.values[name] = value;
    return before !== (isEmpty ? undefined : field(name).write(value));
  }

  tell(changed) {
    for (const { names, callback } of [...this.listeners]) {
      if ([...changed].some((name) => names.has(name))) callback(changed);
    }
  }

  reread() {
    const read = readAddress(location.hash);
    const names = new Set([...Object.keys(read), ...Object.keys(this.values)]);
    const changed = new Set([...names].filter((name) => this.change(name, read[name])));
    if (changed.size) this.tell(changed);
  }

  writeSoon(push) {
    if (push) this.write(true);
    else this.timer ??= setTimeout(() => this.write(), LISTED);
  }

  write(push = false) {
    clearTimeout(this.timer);
    this.timer = null;
    const hash = writeAddress(this.values);
    if (hash === location.hash) return;
    try {
      history[push ? "pushState" : "replaceState"](null, "", hash || "#");
    } catch {
      // A browser that has counted too many changes refuses for a while; the next one carries this along.
    }
  }
}

/** The values that an address holds. */
export function readAddress(hash) {
  const values = {};
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    const value = field(name).read(text);
    if (value !== null) values[name] = value;
  }
  return values;
}

/** Values as the address writes them, "#" first; nothing where there are none. */
export function writeAddress(values) {
  const parameters = new URLSearchParams();
  const known = Object.keys(FIELDS).filter((name) => name in values);
  const others = Object.keys(values).filter((name) => !(name in FIELDS));
  for (const name of [...known, ...others]) parameters.set(name, field(name).write(values[name]));
  const written = parameters.toString();
  return written ? `#${written}` : "";
}

function field(name) {
  return Object.hasOwn(FIELDS, name) ? FIELDS[name] : TEXT;
}

function finite(text) {
  const number = Number(text);
  return text.trim() !== "" && Number.isFinite(number) ? number : null;
}

function readParts(text) {
  const parts = text.split(",").filter(Boolean).map((part) => {
    const head = /^(encoder|decoder|cross)\.(\d+)\.(\d+)$/.exec(part);
    return head ? [head[1], Number(head[2]), Number(head[3])] : part;
  });
  return parts.length ? parts : null;
}

function writeParts(parts) {
  return parts.map((part) => (Array.isArray(part) ? part.join(".") : part)).join(",");
}

function readNumbers(text) {
  return text.split(".").filter((part) => /^\d+$/.test(part)).map(Number);
}

function readData(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Nothing changed in the model and nothing chosen: what another model or a stop of the tour starts with. */
export const UNCHANGED = {
  ablate: [],
  interventions: [],
  snapshot: null,
  target: null,
  kind: null,
  layer: null,
  head: null,
  query: null,
  key: null,
  place: null,
  word: null,
  instead: null,
  queries: null,
};
