/** What is asked of the functions of the schema: texts, numbers as text, and lists as PostgreSQL writes them. */
import type { ApplyRequest, BeatRequest, JoinRequest, LeaveRequest, Op } from '@botmesh/core/spi';
import { shortOf, toWire } from './text.js';

export type Args = (string | null)[];

const RELEASES = { done: 'd', return: 'b', lost: 'l', pass: 'p', withdraw: 'w' } as const;

export function joinArgs(request: JoinRequest): Args {
  const { adopts, config, firstEpoch, instance, replicaId, seen } = request;
  const { format, leaseMs, shards } = config;
  const numbers = [format, leaseMs, shards].map(String);
  return [toWire(instance), toWire(replicaId), String(firstEpoch), String(adopts), String(seen), ...numbers];
}

export function leaveArgs({ epoch, instance }: LeaveRequest): Args {
  return [String(epoch), toWire(instance)];
}

export function beatArgs(request: BeatRequest): Args {
  const { adopts, answered, beat, epoch, era, heard, instance, seen, view, watchedMs } = request;
  return [
    String(epoch),
    toWire(instance),
    String(beat),
    String(era),
    String(watchedMs),
    String(seen),
    String(adopts),
    String(answered),
    String(heard),
    textList(view.map(({ key }) => shortOf(key))),
    numberList(view.map(({ seq }) => seq)),
    numberList(view.map(({ fence }) => fence)),
  ];
}

/** Which of the two functions runs a batch. */
export function isSingle({ ops }: ApplyRequest): boolean {
  return ops.length === 1 && SINGLES.has(letterOf(ops[0]!));
}

/** See step_single in sql/single.ts. */
export function singleArgs({ batch, epoch, instance, ops }: ApplyRequest): Args {
  const op = ops[0]!;
  const start = [String(epoch), toWire(instance), String(batch), letterOf(op), shortOf(op.key)];
  if (op.op !== 'accept') return [...start, 'seq' in op ? String(op.seq) : '0', null, null, null, null, null];
  const { body, dedupeMs, id, maxAttempts } = op;
  return [...start, '0', ...idArgs(id), toWire(body), String(maxAttempts), String(dedupeMs)];
}

/** As it is compared, and as it is where that is something else. */
function idArgs(id: string | null): [string | null, string | null] {
  if (id === null) return [null, null];
  const [short, whole] = [shortOf(id), toWire(id)];
  return [short, short === whole ? null : whole];
}

/** See step_apply in sql/apply.ts. */
export function applyArgs({ batch, epoch, instance, ops }: ApplyRequest): Args {
  const keys = new Map<string, number>();
  const needs: number[] = [];
  const at: number[] = [];
  let letters = '';
  let hasTexts = false;
  for (const op of ops) {
    const letter = letterOf(op);
    letters += letter;
    hasTexts ||= !PLAIN.has(letter);
    let place = keys.get(op.key);
    if (place === undefined) {
      place = keys.size + 1;
      keys.set(op.key, place);
      needs.push(0);
    }
    at.push(place);
    if (op.op === 'release') needs[place - 1] = (needs[place - 1] ?? 0) + 1;
  }
  return [
    String(epoch),
    toWire(instance),
    String(batch),
    letters,
    numberList(at),
    textList([...keys.keys()].map(shortOf)),
    numberList(needs),
    numberList(ops.map((op) => ('seq' in op ? op.seq : 0))),
    ...(hasTexts ? textArgs(ops) : NO_TEXTS),
  ];
}

/** Letters of operations that need no row of the slow way. */
const SINGLES = new Set('rtamdbpw');
/** Letters of operations that need no texts. */
const PLAIN = new Set('rtdblpw');
const NO_TEXTS: Args = [null, null, null, null, null, null];

function textArgs(ops: readonly Op[]): Args {
  const ids = ops.map((op) => idArgs(op.op === 'accept' ? op.id : null));
  return [
    textList(ids.map(([short]) => short)),
    textList(ids.map(([, whole]) => whole)),
    textList(ops.map(textOf)),
    numberList(ops.map((op) => ('maxAttempts' in op ? op.maxAttempts : 0))),
    numberList(ops.map((op) => ('dedupeMs' in op ? op.dedupeMs : 0))),
    textList(ops.map((op) => (op.op === 'release' && op.also !== undefined ? numberList(op.also) : null))),
  ];
}

function textOf(op: Op): string | null {
  if (op.op === 'accept') return toWire(op.body);
  if (op.op === 'tell') return toWire(op.note);
  return op.op === 'release' && typeof op.error === 'string' ? toWire(op.error) : null;
}

function letterOf(op: Op): string {
  switch (op.op) {
    case 'reserve':
      return 'r';
    case 'try':
      return 't';
    case 'accept':
      return op.id === null ? 'm' : 'a';
    case 'release':
      return hasMore(op) ? RELEASES[op.how].toUpperCase() : RELEASES[op.how];
    case 'tell':
      return 'n';
    case 'replay':
      return 'y';
    case 'drop':
      return 'x';
  }
}

function hasMore({ also, error }: Op & { op: 'release' }): boolean {
  return (also !== undefined && also.length > 0) || (error !== undefined && error !== null);
}

export function numberList(numbers: readonly number[]): string {
  return `{${numbers.join(',')}}`;
}

export function textList(texts: readonly (string | null)[]): string {
  return `{${texts.map(element).join(',')}}`;
}

function element(text: string | null): string {
  return text === null ? 'NULL' : `"${text.replace(/["\\]/g, '\\$&')}"`;
}
