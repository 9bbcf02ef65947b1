import { BadInputError } from '@botmesh/core/spi';

const DEEPEST = 200;

/**
 * Plain JSON data of what Baileys keeps and tells: bytes, whole numbers beyond the safe ones and dates come back as they
 * were, classes as plain objects of their fields.
 *
 * @throws BadInputError naming the path of what cannot be kept
 */
export function encode(value: unknown, path: string, depth = 0): unknown {
  if (depth > DEEPEST)
    throw new BadInputError(`${path.slice(0, 60)}… is more than ${DEEPEST} deep, or goes in a circle.`);
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      if (Number.isFinite(value)) return value;
      throw new BadInputError(`${path} is ${value}, expected JSON data or bytes.`);
    case 'bigint':
      return { $bigint: String(value) };
    case 'object':
      return value === null ? null : encodeObject(value, path, depth + 1);
    default:
      throw new BadInputError(`${path} is a ${typeof value}, expected JSON data or bytes.`);
  }
}

function encodeObject(value: object, path: string, depth: number): unknown {
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64') };
  if (value instanceof Date) return { $date: value.getTime() };
  if (Array.isArray(value)) return value.map((each, at) => encode(each, `${path}[${at}]`, depth));
  if (value instanceof Map || value instanceof Set || value instanceof Promise) {
    throw new BadInputError(`${path} is a ${value.constructor.name}, expected JSON data or bytes.`);
  }
  const fields = Object.entries(value).filter(([, each]) => each !== undefined && typeof each !== 'function');
  const encoded = Object.fromEntries(fields.map(([name, each]) => [name, encode(each, `${path}.${name}`, depth)]));
  // One whose name looks like ours.
  return fields.some(([name]) => name.startsWith('$')) ? { $object: encoded } : encoded;
}

export function decode(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(decode);
  const { $bytes, $bigint, $date, $object } = value as Record<string, unknown>;
  if (typeof $bytes === 'string') return Buffer.from($bytes, 'base64');
  if (typeof $bigint === 'string') return BigInt($bigint);
  if (typeof $date === 'number') return new Date($date);
  const fields = Object.entries(typeof $object === 'object' && $object !== null ? $object : value);
  return Object.fromEntries(fields.map(([name, each]) => [name, decode(each)]));
}
