/** Where the numbers come from: a model behind the studio's requests, one method each. */

import { unpack } from "./wire.js";
import { Source, Superseded } from "./requests.js";

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
    this.bytes += bytes - (this.entries.get(name)?.bytes ?? 0);
    this.entries.set(name, { answer, bytes });
    for (const [oldest, entry] of this.entries) {
      if (this.bytes <= MOST_BYTES || oldest === name) break;
      this.bytes -= entry.bytes;
      this.entries.delete(oldest);
    }
  }
}

/** The requests of the studio's server; an error is thrown as a sentence. */
export class LiveSource extends Source {
  constructor(base = "/studio/api") {
    super();
    this.base = base;
    this.page = randomName();
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

  async trace(request) {
    const trace = await this.post("trace", request);
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

  lens(id) {
    return this.of(id, "lens");
  }

  flow(id, measure, kind, words = false) {
    return this.of(id, `flow/${measure}/${kind}${words ? "?words=1" : ""}`);
  }

  /**
   * @param {string} id
   * @param {number} position
   * @param {{ word?: number | null, instead?: number | null, method?: string }} asked ids of two tokens, or none
   */
  attribution(id, position, asked) {
    const given = Object.entries(asked).filter(([, value]) => (value ?? null) !== null);
    const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
    return this.of(id, `attribution/${position}?${query}`);
  }

  goOn(request) {
    return this.beside("next", request);
  }

  translate(request) {
    return this.beside("translate", request);
  }

  compare(request) {
    return this.beside("compare", request);
  }

  ablation(request) {
    return this.beside("ablation", request);
  }

  fill(request) {
    return this.beside("fill", request);
  }

  classify(request) {
    return this.beside("classify", request);
  }

  progress(model) {
    return this.get(`progress/${encodeURIComponent(model)}`);
  }

  demo(model) {
    return this.get(`demo?model=${encodeURIComponent(model)}`);
  }

  trainDemo(model) {
    return this.post(`demo?model=${encodeURIComponent(model)}`, {});
  }

  cancelDemo(model) {
    return this.post(`demo/cancel?model=${encodeURIComponent(model)}`, {});
  }

  lessons() {
    return this.get("lessons");
  }

  lesson(name) {
    return this.get(`lessons/${encodeURIComponent(name)}`);
  }

  lessonRun() {
    return this.get("lesson-run");
  }

  runLesson(name) {
    return this.post(`lesson-run?lesson=${encodeURIComponent(name)}`, {});
  }

  cancelLesson() {
    return this.post("lesson-run/cancel", {});
  }

  /** Where the server gives a lesson as a page of its own. */
  lessonAddress(name) {
    return `${this.base}/lessons/${encodeURIComponent(name)}/save.html`;
  }

  /** Where the server gives a file of this trace; choice: {kind, layer, head, words}. */
  saveAddress(id, ending, choice = {}) {
    const chosen = Object.entries(choice).filter(([, value]) => value !== null && value !== undefined);
    const query = new URLSearchParams(chosen.map(([name, value]) => [name, value === true ? "1" : String(value)]));
    return `${this.base}/trace/${id}/save.${ending}${chosen.length ? `?${query}` : ""}`;
  }

  get(path) {
    return this.ask(path, {});
  }

  post(path, body) {
    return this.ask(path, { method: "POST", body: JSON.stringify(body) }, { "Content-Type": "application/json" });
  }

  /** An answer that never changes, asked for once. */
  once(path) {
    return this.recall(path, () => this.get(path));
  }

  /** What a request says beside the present trace, which changes whenever the model does; asked for once. */
  beside(path, body) {
    const { trace } = this.run;
    if (!trace) return this.post(path, body);
    return this.recall(`${trace} ${path} ${JSON.stringify(body)}`, () => this.post(path, body));
  }

  async recall(name, ask) {
    const known = this.kept.get(name);
    if (known) return this.deliver(known);
    const answer = await ask();
    this.kept.set(name, answer, sizeOf(answer));
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

  ask(path, options, headers = {}) {
    const { run } = this;
    const who = { "X-Regard-Tab": this.page, "X-Regard-Panel": `${run.panel}.${run.sent++}` };
    return this.deliver(this.answer(path, { ...options, headers: { ...headers, ...who }, signal: run.signal }));
  }

  async answer(path, options) {
    try {
      return await this.read(await fetch(`${this.base}/${path}`, options));
    } catch (error) {
      if (options.signal?.aborted) throw new Superseded();
      throw error instanceof TypeError ? new Error(LOST) : error; // fetch throws a TypeError where nobody answers
    }
  }

  async read(answer) {
    const isSheet = !answer.headers.get("Content-Type")?.includes("json");
    if (!answer.ok) throw await failure(answer, isSheet);
    return isSheet ? unpack(await answer.arrayBuffer()) : await answer.json();
  }
}

function randomName() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function failure(answer, isSheet) {
  const told = isSheet ? {} : await answer.json().catch(() => ({}));
  if (told.superseded === true) return new Superseded();
  const sentence = typeof told.error === "string" ? told.error : `The studio could not answer (${answer.status}).`;
  return Object.assign(new Error(sentence), { gone: told.gone === true, status: answer.status });
}

function sizeOf(answer) {
  if (!answer.arrays) return 1e5;
  return Object.values(answer.arrays).reduce((sum, { data }) => sum + data.byteLength, 0);
}
