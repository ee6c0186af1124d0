/**
 * Colours of numbers, read from the style sheet, so that light and dark are one place's matter.
 *
 * Attention runs from the paper's own tone at 0 to the deepest at 1; signed numbers from rust through the
 * paper's tone to blue. `paint` draws a canvas again whenever the colours change.
 */

const ATTENTION = ["--scale-0", "--scale-1", "--scale-2", "--scale-3", "--scale-4", "--scale-5"];
const SIGNED = ["--signed-0", "--signed-1", "--signed-2", "--signed-3", "--signed-4", "--signed-5", "--signed-6"];
const HUES = 8;
const IDEAS = ["ink", "soft", "line", "card", "query", "key", "value", "output", "pin", "hatch", "hatch-ink"];
const EVEN = 0.179; // the luminance on which black and white letters are read equally well
const STEPS = 256;

let colours = null;
const drawings = new WeakMap();

/** Read the colours that hold inside an element, and draw everything painted there again. */
export function readPalette(root) {
  const probe = root.ownerDocument.createElement("span");
  probe.hidden = true;
  probe.style.setProperty("forced-color-adjust", "none"); // the scales are asked for, not what replaces them
  root.append(probe);
  const read = (name) => {
    probe.style.setProperty("color", `var(${name})`);
    return parse(getComputedStyle(probe).color);
  };
  usePalette({
    attention: ATTENTION.map(read),
    signed: SIGNED.map(read),
    hues: Array.from({ length: HUES }, (_, number) => read(`--head-${number}`)),
    ideas: Object.fromEntries(IDEAS.map((name) => [name, css(read(`--${name}`))])),
    forced: matchMedia("(forced-colors: active)").matches,
  });
  probe.remove();
  for (const element of root.querySelectorAll("[data-painted]")) drawings.get(element)?.();
}

/** Take colours from a table: {attention: [[r, g, b], ...], signed, hues, ideas, forced}. */
export function usePalette({ attention, signed, hues, ideas, forced = false }) {
  colours = { attention: ramp(attention), signed: ramp(signed), hues, ideas, forced };
}

/** The hue of a head; after eight they repeat, so its number always stands beside it. */
export function headColour(number) {
  return css(colours.hues[number % HUES]);
}

/** The same as [red, green, blue]. */
export function attentionShade(weight) {
  return colours.attention[place(weight)];
}

/** The same as [red, green, blue]. */
export function signedShade(value, largest) {
  return colours.signed[place((value / (largest || 1) + 1) / 2)];
}

/** Give each pixel of an image the colour of its number, counted row by row. */
export function dyePixels({ data }, shadeOf) {
  for (let number = 0, at = 0; at < data.length; number++, at += 4) {
    const shade = shadeOf(number);
    data[at] = shade[0]; // one by one: to `set` a short list costs more than all else here
    data[at + 1] = shade[1];
    data[at + 2] = shade[2];
    data[at + 3] = 255;
  }
}

/** Black or white, whichever is read better on that ground: at least 4.5 to 1 on any. */
export function inkOn(shade) {
  return luminance(shade) > EVEN ? "#000" : "#fff";
}

/** The colour of an idea: "query", "key", "value", "output", "ink", "soft", "line", "card", "pin", "hatch". */
export function ideaColour(name) {
  return colours.ideas[name];
}

/** Whether the person has asked for their own few colours. */
export function coloursAreForced() {
  return colours.forced;
}

/** Draw now, and again whenever the colours change, as long as the element is on the page. */
export function paint(element, draw) {
  element.dataset.painted = "";
  drawings.set(element, draw);
  if (colours) draw();
  return element;
}

/** Relative luminance, 0 black to 1 white. */
export function luminance(shade) {
  const [red, green, blue] = shade.map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function place(share) {
  const at = Math.round(share * (STEPS - 1));
  return at > 0 ? Math.min(at, STEPS - 1) : 0; // not a number lands on 0
}

function ramp(stops) {
  return Array.from({ length: STEPS }, (_, step) => {
    const at = (step / (STEPS - 1)) * (stops.length - 1);
    const lower = Math.min(Math.floor(at), stops.length - 2);
    return stops[lower].map((channel, i) => Math.round(channel + (stops[lower + 1][i] - channel) * (at - lower)));
  });
}

function parse(colour) {
  return (colour.match(/[\d.]+/g) ?? [0, 0, 0]).slice(0, 3).map(Number);
}

function css([red, green, blue]) {
  return `rgb(${red}, ${green}, ${blue})`;
}
