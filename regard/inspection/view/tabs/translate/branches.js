/**
 * The tree of a beam search laid out: a column for each step, in it the hypotheses from the best score down.
 *
 * A node: number, parent, token, text, step, log_probability, score, rank_score, fate, place (tree.py).
 */

/** Places for the nodes: {places: [{node, column, row}], hidden: how many are left out of each column, rows}. */
export function layOut(nodes, mostDropped = Infinity) {
  const columns = [];
  for (const node of nodes) (columns[node.step] ??= []).push(node);
  const places = [];
  const hidden = columns.map((column, step) => {
    const shown = chosen(column, mostDropped);
    shown.forEach((node, row) => places.push({ node, column: step, row }));
    return column.length - shown.length;
  });
  return {
    places,
    hidden,
    rows: Math.max(1, ...places.map((place) => place.row + 1)),
    columns: columns.length,
  };
}

/** A node and all it came from, the root first. */
export function pathTo(nodes, number) {
  const path = [];
  for (let at = nodes[number]; at; at = at.parent === null ? null : nodes[at.parent]) path.unshift(at);
  return path;
}

/** The numbers of the nodes on the way to the best result. */
export function bestPath(nodes) {
  const best = nodes.find((node) => node.place === 0);
  return new Set(best ? pathTo(nodes, best.number).map((node) => node.number) : []);
}

/** Whether a hypothesis ended with a result, whatever its rank. */
export function isFinished(node) {
  return node.fate !== "kept" && !isDropped(node);
}

/** Whether a hypothesis came to nothing. */
export function isDropped(node) {
  return node.fate === "outranked" || node.fate === "abandoned";
}

/** Why a hypothesis went no further, or what became of it, in a plain sentence. */
export function explain(node, nodes) {
  if (node.parent === null) return "Here the search begins, with nothing written.";
  if (node.fate === "kept") return "Kept: it was among the best of its step and went on.";
  if (node.fate === "outranked") return outranked(node, nodes);
  if (node.fate === "abandoned") return "Abandoned: the search was over before it could finish.";
  const result = node.place === null ? "others finished with a better rank" : ranked(node.place);
  return `${FINISHES[node.fate] ?? "Finished"}; ${result}.`;
}

/** The nearest node in one of the four directions, or null. */
export function neighbour(layout, from, direction) {
  const here = layout.places.find((place) => place.node.number === from);
  if (!here) return null;
  if (direction === "left") return here.node.parent;
  if (direction === "right") return firstChild(layout, from);
  const row = here.row + (direction === "down" ? 1 : -1);
  return layout.places.find((place) => place.column === here.column && place.row === row)?.node.number ?? null;
}

const FINISHES = {
  end: "Finished with the end sign",
  stop: "Finished at a stop",
  length: "Cut off at the longest length",
  stuck: "Stuck: nothing may follow it",
  cancelled: "Cancelled",
};

function chosen(column, mostDropped) {
  const sorted = [...column].sort((a, b) => b.score - a.score || a.number - b.number);
  let dropped = 0;
  return sorted.filter((node) => !isDropped(node) || dropped++ < mostDropped);
}

function outranked(node, nodes) {
  const kept = nodes.filter((other) => other.step === node.step && other.fate !== "outranked");
  if (!kept.length) return "Outranked: better hypotheses filled the beam.";
  const last = kept.reduce((worst, other) => (other.score < worst.score ? other : worst));
  return `Outranked: better hypotheses filled the beam; the last one kept has ${last.score.toFixed(2)}, this one ${node.score.toFixed(2)}.`;
}

function ranked(place) {
  return place === 0 ? "the best result, which is the translation" : `result ${place + 1} by rank`;
}

function firstChild(layout, number) {
  const children = layout.places.filter((place) => place.node.parent === number);
  return children.reduce(
    (best, place) => (!best || place.row < best.row ? place : best),
    null,
  )?.node.number ?? null;
}
