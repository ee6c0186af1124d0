/** A sheet: arrays with names in one binary message, as regard.inspection.wire packs them. */

let halves = null;

/** The message taken apart: {meta, arrays: {name: {shape, data: Float32Array}}}. */
export function unpack(message) {
  const bytes = asBytes(message);
  const size = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const arrays = {};
  for (const entry of header.arrays) arrays[entry.name] = readArray(bytes, 4 + size, entry);
  return { meta: header.meta, arrays };
}

/** The number that 16 bits stand for. */
function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The bytes that were deflated and written in base64. */
export async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

function asBytes(message) {
  if (ArrayBuffer.isView(message)) return new Uint8Array(message.buffer, message.byteOffset, message.byteLength);
  return new Uint8Array(message);
}

function readArray(bytes, start, { dtype, shape, offset, scale }) {
  const count = shape.reduce((product, size) => product * size, 1);
  const width = { float32: 4, float16: 2, uint8: 1 }[dtype];
  if (!width) throw new Error(`the answer holds numbers of an unknown kind (${dtype}); reload the page`);
  // Typed arrays must begin at a multiple of their width; a copy does, wherever the message lies in memory.
  const part = bytes.slice(start + offset, start + offset + count * width);
  return { shape, data: asFloats(dtype, part.buffer, scale ?? 1) };
}

function asFloats(dtype, buffer, scale) {
  if (dtype === "float32") return scaled(new Float32Array(buffer), scale);
  if (dtype === "uint8") return scaled(new Float32Array(new Uint8Array(buffer)), scale);
  halves ??= Float32Array.from({ length: 65536 }, (_, bits) => fromHalf(bits));
  const bits = new Uint16Array(buffer);
  const floats = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) floats[i] = halves[bits[i]]; // `from` with a function is ten times slower
  return scaled(floats, scale);
}

function scaled(floats, scale) {
  if (scale !== 1) for (let i = 0; i < floats.length; i++) floats[i] *= scale;
  return floats;
}
