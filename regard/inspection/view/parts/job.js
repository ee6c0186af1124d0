/** A job that runs in the background: what begins it, how far it has come, what cancels it. */

import { adjust, make } from "../core/dom.js";
import { button } from "./controls.js";

/**
 * Buttons, a bar and a sentence: {elements, show}.
 *
 * begin, cancel    the words of the buttons
 * onbegin, oncancel
 * label            of the bar
 * show             takes {isRunning, canBegin, share, words}; share is from 0 to 1, or null where it is not known
 */
export function jobControls({ begin, cancel, onbegin, oncancel, label }) {
  const starter = button(begin, onbegin, { class: "primary", hidden: true });
  const bar = make("progress", { max: 1, "aria-label": label, hidden: true });
  const saying = make("p", { class: "sentence-of", "aria-live": "polite" });
  const canceller = button(cancel, oncancel, { hidden: true });
  const show = ({ isRunning, canBegin = !isRunning, share = null, words }) => {
    starter.hidden = !canBegin;
    bar.hidden = canceller.hidden = !isRunning;
    if (share === null) bar.removeAttribute("value");
    else bar.value = share;
    adjust(saying, { text: words, hidden: !words });
  };
  return { elements: [starter, bar, saying, canceller], show };
}

/** A time in words. */
export function inWords(seconds) {
  return seconds < 90 ? `${Math.max(1, Math.round(seconds))} seconds` : `${Math.round(seconds / 60)} minutes`;
}
