/**
 * What the frame knows of a tab. A new tab is a folder in tabs/ and one line in shell.js.
 *
 * @typedef {object} TabEntry
 * @property {string} name in the address of the page
 * @property {string} title on its button
 * @property {string[]} needs requests that the source must be able to answer; see source.can
 * @property {(model: any) => boolean} fits whether the tab is of use for a model
 * @property {new (panel: HTMLElement, context: object) => Tab} Tab draws into its panel
 *
 * @typedef {object} Tab
 * @property {() => (void | Promise<void>)} show draw for the present state; called whenever the tab is opened
 * @property {() => void} hide stop what is under way; called when another tab is opened
 */

/** Whether a model can answer: it is trained and its files can be read. */
export function isReady(model) {
  return model.state === "ready";
}

/** What every tab takes from the frame; a tab extends this class with show() and hide(). */
export class TabBase {
  constructor({ state, source, trace, model, announce, notify }) {
    this.state = state;
    this.source = source;
    this.trace = trace;
    this.model = model;
    this.announce = announce;
    this.notify = notify;
    this.isShown = false;
  }
}
