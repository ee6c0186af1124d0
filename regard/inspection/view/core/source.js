/** Where the numbers come from: a model behind the studio's requests, one method each. */

import { unpack } from "./wire.js";
import { Work } from "./work.js";

const MOST_BYTES = 96e6; // of answers kept, so that going back draws at once
const MOST_TRACES = 200;
const LOST = "The studio does not answer; is `regard studio` still running? The last picture stays.";

/** Answers kept by their address, the ones used longest ago dropped first. */
class Kept {
  constructor() {
    this.entries = new Map();
    this.bytes = 0;
  }

  get(name) {
    const entry = this.entries.get(name);
    if (!entry) return undefined;
    this.entries.delete(name);
    this.entries.set(name, entry);
    return entry.answer;
  }

  set(name, answer, bytes) {
    this.bytes += bytes;
    this.entries.set(name, { answer, bytes });
    for (const [oldest, entry] of this.entries) {
      if (this.bytes <= MOST_BYTES || oldest === name) break;
      this.bytes -= entry.bytes;
      this.entries.delete(oldest);
    }
  }
}

/** The requests of the studio's server; an error is thrown as a sentence. */
export class LiveSource {
  constructor(base = "/studio/api") {
    this.base = base;
    this.work = new Work();
    this.kept = new Kept();
    this.requests = new Map();
  }

  /** Whether this source serves a request of that name: a live one serves all. */
  can(name) {
    return typeof this[name] === "function";
  }

  async models() {
    return (await this.get("models")).models;
  }

  async vocabulary(model) {
    return (await this.once(`models/${encodeURIComponent(model)}/vocabulary`)).tokens;
  }

  async trace(request, signal) {
    const trace = await this.post("trace", request, signal);
    this.requests.set(trace.trace, request);
    if (this.requests.size > MOST_TRACES) this.requests.delete(this.requests.keys().next().value);
    return trace;
  }

  overview(id) {
    return this.of(id, "overview");
  }

  layer(id, kind, layer, words = false) {
    return this.of(id, `attention/${kind}/${layer}${words ? "?words=1" : ""}`);
  }

  vectors(id, side) {
    return this.of(id, `vectors/${side}`);
  }

  steps(id, kind, layer, head, query) {
    return this.of(id, `steps/${kind}/${layer}/${head}/${query}`);
  }

  next(id, position) {
    return this.of(id, `next/${position}`);
  }

  goOn(request, signal) {
    return this.post("next", request, signal);
  }

  translate(request, signal) {
    return this.post("translate", request, signal);
  }

  compare(request, signal) {
    return this.post("compare", request, signal);
  }

  ablation(request, signal) {
    return this.post("ablation", request, signal);
  }

  progress(model) {
    return this.get(`progress/${encodeURIComponent(model)}`);
  }

  fill(request, signal) {
    return this.post("fill", request, signal);
  }

  classify(request, signal) {
    return this.post("classify", request, signal);
  }

  demo() {
    return this.get("demo");
  }

  trainDemo() {
    return this.post("demo", {});
  }

  /** Where the server gives a file of this trace; choice: {kind, layer, head, words}. */
  saveAddress(id, ending, choice = {}) {
    const chosen = Object.entries(choice).filter(([, value]) => value !== null && value !== undefined);
    const query = new URLSearchParams(chosen.map(([name, value]) => [name, value === true ? "1" : String(value)]));
    return `${this.base}/trace/${id}/save.${ending}${chosen.length ? `?${query}` : ""}`;
  }

  get(path, signal) {
    return this.ask(path, { signal });
  }

  post(path, body, signal) {
    const headers = { "Content-Type": "application/json" };
    return this.ask(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  }

  /** An answer that never changes, asked for once. */
  async once(path) {
    const known = this.kept.get(path);
    if (known) return known;
    const answer = await this.get(path);
    this.kept.set(path, answer, sizeOf(answer));
    return answer;
  }

  /** Something of a trace; one that the server has dropped is made again by the same request. */
  async of(id, path) {
    const whole = `trace/${id}/${path}`;
    try {
      return await this.once(whole);
    } catch (error) {
      if (!error.gone || !this.requests.has(id)) throw error;
    }
    await this.trace(this.requests.get(id));
    return this.once(whole);
  }

  ask(path, options) {
    return this.work.during(this.answer(path, options));
  }

  async answer(path, options) {
    const answer = await this.fetch(path, options);
    const isSheet = !answer.headers.get("Content-Type")?.includes("json");
    if (!answer.ok) throw await failure(answer, isSheet);
    return isSheet ? unpack(await answer.arrayBuffer()) : answer.json();
  }

  async fetch(path, options) {
    try {
      return await fetch(`${this.base}/${path}`, options);
    } catch (error) {
      throw error.name === "AbortError" ? error : new Error(LOST);
    }
  }
}

async function failure(answer, isSheet) {
  const told = isSheet ? {} : await answer.json().catch(() => ({}));
  const sentence = typeof told.error === "string" ? told.error : `The studio could not answer (${answer.status}).`;
  return Object.assign(new Error(sentence), { gone: told.gone === true, status: answer.status });
}

function sizeOf(answer) {
  if (!answer.arrays) return 1e5;
  return Object.values(answer.arrays).reduce((sum, { data }) => sum + data.byteLength, 0);
}
