/** What a intervention does to the output: two rival words before and after, at one place of the same output. */

import { make, fill } from "../../core/dom.js";
import { choice } from "../../parts/controls.js";
import { errorLine } from "../../parts/panel.js";
import { PanelRequests } from "../../core/requests.js";
import { requestBefore } from "../../core/tracing.js";
import { shareTable, wordText } from "../../parts/share_table.js";
import { probabilities, writeShare } from "../../core/chances.js";
import { closestRace, forkOf, likeliestTwo, pairOf, widestChange } from "../../core/rivals.js";

const RESTING = 60; // milliseconds without a change before the model reads the sentence again
const MOST_NUMBERS = 600_000; // logits that are read again for each intervention

/** The rivals' probabilities; show({base, request, interventions}) whenever something was changed. */
export class InterventionOutcome {
  constructor(context) {
    this.tracing = context.trace;
    this.model = context.model;
    this.place = choice({ label: "Look at the word after", options: [], onchange: () => this.choosePlace() });
    this.saying = make("p", { class: "sentence-of", "aria-live": "polite" });
    this.bars = make("div", { class: "shares-room" });
    this.written = make("p", { class: "output-line", dir: "auto" });
    this.element = make(
      "div",
      { class: "intervention-outcome" },
      this.saying,
      this.bars,
      this.written,
      make("div", { class: "controls" }, this.place.root),
    );
    const subject = () => JSON.stringify(requestBefore(this.tracing));
    this.requests = new PanelRequests(context, { name: "outcome", cards: [errorLine(this.element)], subject });
  }

  /** Read the rivals' probabilities without and with the interventions; whether they were drawn. */
  show({ base, request, interventions }) {
    const load = async (ask) => {
      const tokens = await ask.vocabulary(base.model);
      const first = this.first?.base.trace === base.trace ? this.first : await this.begin(ask, base, request);
      if (!first.places.length) return { tokens, first, now: first.before };
      await ask.rest(RESTING);
      const same = { ...request, interventions, ...this.sameOutput(base) };
      const trace = interventions.length ? await ask.trace(same) : base;
      return { tokens, first, now: await logitsAt(ask, trace, first.places) };
    };
    return this.requests.run(load, ({ tokens, first, now }) => {
      if (first !== this.first) this.take(first);
      this.element.hidden = !first.places.length;
      if (!first.places.length) return;
      this.tokens = tokens;
      this.interventions = interventions;
      this.now = now;
      const isUnsettled = interventions.length && !this.isChosen && !first.fork;
      if (isUnsettled) this.rivals = placed(widestChange(first.before, now), first.places);
      this.redraw();
    });
  }

  /** The first reading, and which two words to watch: those at which a known pair of sentences parts. */
  async begin(ask, base, request) {
    const fork = await this.partingOf(ask, base, request);
    const side = base.sides[base.written];
    const places = this.placesIn(side.tokens, fork);
    return { base, fork, side, places, before: await logitsAt(ask, base, places) };
  }

  take(first) {
    const { fork, side, places, before } = first;
    this.first = first;
    this.isChosen = false;
    this.rivals = null;
    this.now = null;
    if (!places.length) return;
    this.rivals = fork ?? placed(closestRace(before), places);
    const name = ({ special, text }) => (special ? text : wordText(text));
    const options = places.map((place) => [String(place), `${place}: ${name(side.tokens[place])}`]);
    this.place.offer(options, String(this.rivals.position));
    this.place.root.hidden = options.length < 2;
  }

  /** The positions whose next word is read: all of a translation, the last of a long text, the gaps of a reader. */
  placesIn(tokens, fork) {
    const { family, output, vocabulary } = this.model();
    const all = tokens.map((_, place) => place);
    if (family === "encoder-only") return output === "masked" ? all.filter((place) => tokens[place].special === "mask") : [];
    const last = all.slice(-Math.max(4, Math.floor(MOST_NUMBERS / vocabulary)));
    return fork && !last.includes(fork.position) ? [fork.position, ...last] : last;
  }

  choosePlace() {
    this.isChosen = true;
    this.redraw();
  }

  async partingOf(ask, base, request) {
    const pair = pairOf(base.text, this.model().pairs);
    if (!pair || base.sides.source === undefined || base.sides.target === undefined) return null;
    const other = await ask.trace({
      ...request,
      text: pair.other,
      target: null,
      target_ids: null,
    });
    return forkOf(base.sides.target.tokens, other.sides.target.tokens);
  }

  // The output that was written first is read again, so that probabilities are of the same place.
  sameOutput(base) {
    if (!base.sides.source || !base.sides.target) return {};
    return { target: null, target_ids: base.sides.target.tokens.slice(1).map(({ id }) => id) };
  }

  redraw() {
    if (!this.now) return;
    const position = this.isChosen ? Number(this.place.select.value) : this.rivals.position;
    const { places, before } = this.first;
    const at = places.indexOf(position);
    const words = position === this.rivals.position ? this.rivals.words : this.wordsAt(at);
    if (!this.isChosen) this.place.set(position);
    const [was, is] = [before, this.now].map((all) => probabilities(all[at]));
    const names = words.map((id) => wordText(this.tokens[id] ?? `id ${id}`));
    const rows = words.map((id, number) => ({
      label: names[number],
      share: is[id],
      plain: was[id],
      note: `was ${writeShare(was[id])}`,
    }));
    fill(this.bars, shareTable("The rivals", ["word", "bar", "probability now", "before"], rows));
    this.say(position, words, was, is, names);
  }

  wordsAt(at) {
    const { before } = this.first;
    return this.interventions.length ? widestChange([before[at]], [this.now[at]]).words : likeliestTwo(before[at]);
  }

  say(position, [first, second], was, is, names) {
    const before = this.first.side.tokens[position];
    const isGap = this.model().family === "encoder-only";
    const after = isGap ? "In the gap" : before.special ? "At the beginning" : `After “${wordText(before.text)}”`;
    const told = (id, name) => `P(${name}) ${writeShare(was[id])}${this.interventions.length ? ` → ${writeShare(is[id])}` : ""}`;
    const odds = (shares) => shares[first] / shares[second];
    const times = (ratio) =>
      ratio >= 1
        ? `${ratioText(ratio)} times as likely as “${names[1]}”`
        : `${ratioText(1 / ratio)} times less likely than “${names[1]}”`;
    const now = this.interventions.length ? `now ${times(odds(is))}, and was ${times(odds(was))}` : times(odds(was));
    const flips = this.interventions.length && was[first] > was[second] !== is[first] > is[second];
    this.saying.textContent =
      `${after}: ${told(first, names[0])}, ${told(second, names[1])}. “${names[0]}” is ${now}.` +
      `${flips ? " The likelier word flips." : ""}`;
    const isSame = JSON.stringify(this.tracing.request?.interventions) === JSON.stringify(this.interventions);
    const written = isSame && this.tracing.current?.translation;
    fill(
      this.written,
      this.interventions.length > 0 && written && [
        make("span", { class: "soft", text: "With this intervention it writes: " }),
        make("b", { class: "output", text: written }),
      ],
    );
  }
}

async function logitsAt(ask, trace, places) {
  const sheets = await Promise.all(places.map((place) => ask.next(trace.trace, place)));
  return sheets.map(({ arrays }) => arrays.logits.data);
}

function placed({ position, words }, places) {
  return { position: places[position], words };
}

function ratioText(ratio) {
  return ratio >= 100 ? Math.round(ratio).toLocaleString("en") : ratio.toPrecision(3);
}
