/** Which source words an output word came from: the cross-attention of the step that wrote it. */

/** How much a head tells about which step is asking, in nats: the mutual information of step and source. */
export function information(rows) {
  const mean = rows[0].map((_, key) => rows.reduce((sum, row) => sum + row[key], 0) / rows.length);
  const own = rows.reduce((sum, row) => sum + entropy(row), 0) / rows.length;
  return entropy(mean) - own;
}

/** The head that aligns best among those of all layers: {layer, head, information}. */
export function bestHead(layers) {
  let best = { layer: 0, head: 0, information: -Infinity };
  layers.forEach((heads, layer) =>
    heads.forEach((rows, head) => {
      const told = information(rows);
      if (told > best.information) best = { layer, head, information: told };
    }),
  );
  return best;
}

/** The mean over many maps of one shape. */
export function average(maps) {
  return maps[0].map((row, i) => row.map((_, j) => maps.reduce((sum, map) => sum + map[i][j], 0) / maps.length));
}

/** A head's rows out of an array (heads, Q, K) as lists. */
export function rowsOf({ shape, data }, head) {
  const [, queries, keys] = shape;
  const start = head * queries * keys;
  return Array.from(
    { length: queries },
    (_, i) => Array.from(data.subarray(start + i * keys, start + (i + 1) * keys)),
  );
}

/**
 * What each output word looked at while it was written, over source words: rows by words, the end last.
 *
 * The row of a position writes the token that comes after it, so a word's rows are those before its tokens.
 */
export function wordRows(rows, targetWords, sourceWords) {
  const steps = targetWords.filter((word) => word.positions[0] > 0).map((word) => word.positions.map((position) => position - 1));
  steps.push([rows.length - 1]);
  return steps.map((places) => sourceWords.map(({ positions }) => shareOf(rows, places, positions)));
}

function shareOf(rows, places, keys) {
  const all = places.reduce((sum, place) => sum + keys.reduce((part, key) => part + rows[place][key], 0), 0);
  return all / places.length;
}

function entropy(row) {
  return -row.reduce((sum, share) => sum + share * Math.log(Math.max(share, 1e-30)), 0);
}
