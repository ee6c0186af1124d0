/** Arrays as an .npz, the archive that numpy reads: a zip of .npy files, each stored as it is. */

const [LOCAL, CENTRAL, END] = [0x04034b50, 0x02014b50, 0x06054b50];
const [VERSION, NAMES_IN_UTF8, FIRST_DAY] = [20, 0x0800, 0x21];
const ALIGNED = 64; // bytes that the head of an array is filled up to

let remainders = null;

/** {name: {shape, data}} as bytes; data are numbers or texts, of which Float32Array stays float32. */
export function npzOf(arrays) {
  const [files, listed] = [[], []];
  let offset = 0;
  for (const [name, array] of Object.entries(arrays)) {
    const [title, content] = [new TextEncoder().encode(`${name}.npy`), npyOf(array)];
    const about = aboutFile(title, content);
    const head = record([[4, LOCAL], ...about]);
    files.push(head, title, content);
    listed.push(record([[4, CENTRAL], [2, VERSION], ...about, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]]), title);
    offset += head.length + title.length + content.length;
  }
  const [count, size] = [listed.length / 2, lengthOf(listed)];
  const end = record([[4, END], [2, 0], [2, 0], [2, count], [2, count], [4, size], [4, offset], [2, 0]]);
  return joined([...files, ...listed, end]);
}

/**
 * A table as arrays: `values` with `rows` and `columns` as labels where a text is followed by numbers alone,
 * else an array for each column. What is left empty is not a number.
 */
export function arraysOf({ columns, rows }) {
  const isNumber = (value) => typeof value === "number" || value === "";
  const isLabelled = ([label, ...cells]) => typeof label === "string" && cells.every(isNumber);
  const column = (place) => listOf(rows.map((row) => row[place]));
  if (!rows.length || !rows.every(isLabelled)) {
    return Object.fromEntries(columns.map((name, place) => [plain(name), column(place)]));
  }
  const values = matrixOf(rows.map((row) => row.slice(1)));
  return { rows: column(0), columns: listOf(columns.slice(1)), values };
}

/** Rows of numbers as an array of two dimensions. */
export function matrixOf(rows) {
  return { shape: [rows.length, rows[0]?.length ?? 0], data: rows.flat().map(asNumber) };
}

/** Numbers or texts as an array of one dimension. */
export function listOf(list) {
  const isText = list.some((value) => typeof value === "string" && value !== "");
  return { shape: [list.length], data: isText ? list.map((value) => String(value ?? "")) : list.map(asNumber) };
}

function asNumber(value) {
  return value === "" || value === null || value === undefined ? NaN : Number(value);
}

function plain(name) {
  return name.replace(/[^\p{L}\p{N}]+/gu, "_");
}

function npyOf({ shape, data }) {
  const [type, bytes] = typeof data[0] === "string" ? textsOf(data) : numbersOf(data);
  const sizes = `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const told = `{'descr': '${type}', 'fortran_order': False, 'shape': ${sizes}, }`;
  const whole = Math.ceil((told.length + 11) / ALIGNED) * ALIGNED;
  const head = new TextEncoder().encode(`${told.padEnd(whole - 11)}\n`);
  const magic = Uint8Array.of(0x93, ...new TextEncoder().encode("NUMPY"), 1, 0);
  return joined([magic, record([[2, head.length]]), head, bytes]);
}

function numbersOf(data) {
  const [type, width, write] = data instanceof Float32Array ? ["<f4", 4, "setFloat32"] : ["<f8", 8, "setFloat64"];
  const view = new DataView(new ArrayBuffer(data.length * width));
  data.forEach((number, place) => view[write](place * width, number, true));
  return [type, new Uint8Array(view.buffer)];
}

function textsOf(data) {
  const letters = data.map((text) => Array.from(text, (letter) => letter.codePointAt(0)));
  const longest = Math.max(1, ...letters.map(({ length }) => length));
  const view = new DataView(new ArrayBuffer(4 * longest * data.length));
  letters.forEach((codes, row) => codes.forEach((code, at) => view.setUint32(4 * (row * longest + at), code, true)));
  return [`<U${longest}`, new Uint8Array(view.buffer)];
}

// What a zip says of a file, both before it and in its list at the end.
function aboutFile(title, content) {
  const made = [[2, VERSION], [2, NAMES_IN_UTF8], [2, 0], [2, 0], [2, FIRST_DAY]];
  return [...made, [4, checksum(content)], [4, content.length], [4, content.length], [2, title.length], [2, 0]];
}

function checksum(bytes) {
  remainders ??= Uint32Array.from({ length: 256 }, (_, byte) => {
    for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
    return byte;
  });
  let rest = 0xffffffff;
  for (const byte of bytes) rest = remainders[(rest ^ byte) & 255] ^ (rest >>> 8);
  return (rest ^ 0xffffffff) >>> 0;
}

function record(fields) {
  const view = new DataView(new ArrayBuffer(fields.reduce((sum, [size]) => sum + size, 0)));
  let at = 0;
  for (const [size, value] of fields) {
    if (size === 4) view.setUint32(at, value, true);
    else view.setUint16(at, value, true);
    at += size;
  }
  return new Uint8Array(view.buffer);
}

function joined(parts) {
  const whole = new Uint8Array(lengthOf(parts));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function lengthOf(parts) {
  return parts.reduce((sum, { length }) => sum + length, 0);
}
