/** Shares as bars in a table, which is picture and table at once; and the same as a drawing for a file. */

import { make, svg } from "../core/dom.js";
import { ideaColour } from "../core/colour.js";
import { writeShare } from "../core/chances.js";

/**
 * A table of bars. A row: {label, share, plain, note, kind, onclick, title}.
 *
 * plain: a second share, drawn as an outline around the bar (what it was before); kind: "cut", "others" or
 * "chosen" for another look; onclick makes the label a button, whose name is `title`.
 */
export function shareTable(caption, heads, rows) {
  const head = make("tr", {}, heads.map((text) => make("th", { scope: "col", text })));
  const lines = rows.map((row) => shareRow(row, heads.length));
  return make(
    "table",
    { class: "shares" },
    make("caption", { class: "unseen", text: caption }),
    make("thead", { class: "unseen" }, head),
    make("tbody", {}, lines),
  );
}

/** A token as people see it: blanks get a sign, so that a word's beginning and the middle of one differ. */
export function tokenText(text) {
  if (text === "") return "∅";
  if (/^[ \n\t]+$/.test(text)) return text.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
  if (/^[\p{C}\p{Z}]+$/u.test(text)) return [...text].map(codeOf).join(" ");
  return text.replace(/^ /, "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
}

// What cannot be seen has a number.
function codeOf(sign) {
  return `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** The same inside a sentence, where a blank before it says nothing. */
export function wordText(text) {
  return tokenText(text).replace(/^␣(?=.)/, "");
}

/** The same bars as an svg element with a title. */
export function sharesSvg(title, rows) {
  const [width, line, left, right] = [560, 26, 150, 70];
  const height = 34 + rows.length * line;
  const room = width - left - right;
  const bars = rows.flatMap(({ label, share }, number) => {
    const y = 34 + number * line;
    return [
      svg("text", { x: left - 10, y: y + 14, "text-anchor": "end", fill: ideaColour("ink"), text: label }),
      svg("rect", {
        x: left,
        y: y + 3,
        width: Math.max(0.5, share * room),
        height: 14,
        rx: 2,
        fill: ideaColour("output"),
      }),
      svg(
        "text",
        { x: width - 6, y: y + 14, "text-anchor": "end", fill: ideaColour("ink"), text: writeShare(share) },
      ),
    ];
  });
  const settings = {
    xmlns: "http://www.w3.org/2000/svg",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    "font-family": "sans-serif",
    "font-size": 13,
  };
  const ground = svg("rect", { width, height, fill: ideaColour("card") });
  return svg(
    "svg",
    settings,
    ground,
    svg("text", { x: 12, y: 20, fill: ideaColour("soft"), text: title }),
    bars,
  );
}

function shareRow({
  label,
  share,
  plain = null,
  note = null,
  kind = "",
  onclick = null,
  title = null,
}, columns) {
  const button = { type: "button", class: "take", onclick, "aria-label": title };
  const name = make(onclick ? "button" : "span", { ...(onclick ? button : {}), text: label, dir: "auto" });
  const cells = [
    make("th", { scope: "row" }, name),
    track(share, plain),
    make("td", { class: "figure", text: kind === "cut" ? "cut" : writeShare(share) }),
    columns > 3 && make("td", { class: "figure soft", text: note ?? "" }),
  ];
  return make("tr", { class: kind || null, "data-share": share }, cells);
}

/** The cell of a bar from 0 to 1, with the outline of another number around it. */
export function track(share, plain = null) {
  const width = (value) => ({ "inline-size": `${(100 * value).toFixed(3)}%` });
  const outline = plain !== null && plain > 0.004 && make(
    "span",
    { class: "share-outline", "data-value": plain, style: width(plain) },
  );
  return make(
    "td",
    { class: "share-track" },
    make("span", { class: "share-bar", "data-value": share, style: width(share) }),
    outline,
  );
}
