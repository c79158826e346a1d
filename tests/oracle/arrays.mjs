// NumPy's .npy and .npz files <-> {type, dims, data} as ONNX Runtime accepts them. Format:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html; .npz is a zip of .npy.

import { readFileSync, writeFileSync, mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as zlib from 'node:zlib';

const TYPES = [
  { type: 'float32', descr: '<f4', array: Float32Array },
  { type: 'float64', descr: '<f8', array: Float64Array },
  { type: 'float16', descr: '<f2', array: Uint16Array }, // ONNX Runtime accepts raw bits
  { type: 'int64', descr: '<i8', array: BigInt64Array },
  { type: 'uint64', descr: '<u8', array: BigUint64Array },
  { type: 'int32', descr: '<i4', array: Int32Array },
  { type: 'uint32', descr: '<u4', array: Uint32Array },
  { type: 'int16', descr: '<i2', array: Int16Array },
  { type: 'uint16', descr: '<u2', array: Uint16Array },
  { type: 'int8', descr: '|i1', array: Int8Array },
  { type: 'uint8', descr: '|u1', array: Uint8Array },
  { type: 'bool', descr: '|b1', array: Uint8Array },
];

function decodeNpy(bytes, place) {
  if (bytes.toString('latin1', 0, 6) !== '\x93NUMPY') throw new Error(`${place}: not an .npy file`);
  const wide = bytes[6] >= 2; // version 2 has a 4-byte header length
  const start = wide ? 12 : 10;
  const end = start + (wide ? bytes.readUInt32LE(8) : bytes.readUInt16LE(8));
  const header = bytes.toString('latin1', start, end);
  const descr = /'descr':\s*'([^']*)'/.exec(header)?.[1];
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1];
  const kind = TYPES.find((t) => t.descr === descr);
  if (!kind) throw new Error(`${place}: dtype ${descr}; accepted: ${TYPES.map((t) => t.descr).join(' ')}`);
  if (/'fortran_order':\s*True/.test(header)) throw new Error(`${place}: Fortran order; accepted: C order`);
  const dims = shape.split(',').map((s) => s.trim()).filter((s) => s).map(Number);
  const count = dims.reduce((a, b) => a * b, 1);
  const size = count * kind.array.BYTES_PER_ELEMENT;
  if (bytes.length - end < size) throw new Error(`${place}: ${bytes.length - end} bytes of data, ${size} expected`);
  // A copy, because the data in the file may not be aligned to its element.
  const data = new kind.array(new Uint8Array(bytes.subarray(end, end + size)).buffer);
  return { type: kind.type, dims, data };
}

function encodeNpy({ type, dims, data }, place) {
  const kind = TYPES.find((t) => t.type === type);
  if (!kind) throw new Error(`${place}: ONNX Runtime type ${type} has no .npy form here`);
  const shape = `(${dims.join(', ')}${dims.length === 1 ? ',' : ''})`;
  let header = `{'descr': '${kind.descr}', 'fortran_order': False, 'shape': ${shape}, }`;
  header += ' '.repeat(63 - ((10 + header.length) % 64)) + '\n';
  const head = Buffer.alloc(10);
  head.write('\x93NUMPY\x01\x00', 'latin1');
  head.writeUInt16LE(header.length, 8);
  const body = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return Buffer.concat([head, Buffer.from(header, 'latin1'), body]);
}

// Name -> bytes of each member, from the central directory (local headers may lack sizes).
function readZip(bytes, place) {
  let end = bytes.length - 22;
  while (end >= 0 && bytes.readUInt32LE(end) !== 0x06054b50) end--;
  if (end < 0) throw new Error(`${place}: not a zip file`);
  const members = new Map();
  let at = bytes.readUInt32LE(end + 16);
  for (let n = bytes.readUInt16LE(end + 10); n > 0; n--) {
    const method = bytes.readUInt16LE(at + 10);
    const packed = bytes.readUInt32LE(at + 20);
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((o) => bytes.readUInt16LE(at + o));
    const local = bytes.readUInt32LE(at + 42);
    if (packed === 0xffffffff || local === 0xffffffff) throw new Error(`${place}: members over 4 GiB are not read`);
    const name = bytes.toString('utf8', at + 46, at + 46 + nameLength);
    const start = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28);
    const content = bytes.subarray(start, start + packed);
    if (method !== 0 && method !== 8) throw new Error(`${place}: zip method ${method}; accepted: stored, deflate`);
    members.set(name, method === 0 ? content : zlib.inflateRawSync(content));
    at += 46 + nameLength + extraLength + commentLength;
  }
  return members;
}

// Members are stored and dated 1980-01-01: equal arrays give equal bytes.
function writeZip(members) {
  const chunks = [];
  const directory = [];
  let offset = 0;
  for (const [name, content] of members) {
    const label = Buffer.from(name, 'utf8');
    const head = Buffer.alloc(30);
    head.writeUInt32LE(0x04034b50, 0);
    head.writeUInt16LE(20, 4);
    head.writeUInt16LE(0x21, 12);
    head.writeUInt32LE(checksum(content), 14);
    head.writeUInt32LE(content.length, 18);
    head.writeUInt32LE(content.length, 22);
    head.writeUInt16LE(label.length, 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(20, 4);
    head.copy(entry, 6, 4, 30); // the fields both headers share, in the same order
    entry.writeUInt32LE(offset, 42);
    chunks.push(head, label, content);
    directory.push(entry, label);
    offset += head.length + label.length + content.length;
  }
  const size = directory.reduce((sum, b) => sum + b.length, 0);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(members.size, 8);
  end.writeUInt16LE(members.size, 10);
  end.writeUInt32LE(size, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...chunks, ...directory, end]);
}

let table;
// zlib.crc32 came with Node.js 20.15; Debian 12 has 18.
function checksum(bytes) {
  if (zlib.crc32) return zlib.crc32(bytes);
  table ??= Uint32Array.from({ length: 256 }, (_, n) => {
    for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
    return n;
  });
  let sum = 0xffffffff;
  for (const byte of bytes) sum = table[(sum ^ byte) & 255] ^ (sum >>> 8);
  return (sum ^ 0xffffffff) >>> 0;
}

/** Arrays of an .npz by name; of an .npy under the file's stem. */
export function readArrays(path) {
  const bytes = readFileSync(path);
  if (path.endsWith('.npy')) return new Map([[basename(path, '.npy'), decodeNpy(bytes, path)]]);
  const arrays = new Map();
  for (const [name, content] of readZip(bytes, path)) {
    const key = name.replace(/\.npy$/, '');
    arrays.set(key, decodeNpy(content, `${path}: ${key}`));
  }
  return arrays;
}

/** To `path` when it ends in .npz, else as one .npy each in the folder `path`. */
export function writeArrays(path, arrays) {
  const files = new Map([...arrays].map(([name, array]) => [`${name}.npy`, encodeNpy(array, name)]));
  if (path.endsWith('.npz')) return writeFileSync(path, writeZip(files));
  mkdirSync(path, { recursive: true });
  for (const [name, content] of files) writeFileSync(join(path, name.replaceAll('/', '_')), content);
}
