import { readFileSync, readlinkSync } from 'node:fs';

/** Who runs a replica: enough to tell later whether that very process still runs. */
export interface ProcessIdentity {
  readonly pid: number;
  /** When it started, in the kernel's ticks; empty where that cannot be read. */
  readonly start: string;
  /** The namespaces in which the pid and the start count; empty where they cannot be read. */
  readonly namespace: string;
}

/**
 * This life of the host: anything monotonic starts anew with it. Empty where the system has no such number.
 *
 * @throws what the file system says when it is there and cannot be read: an empty one would be taken for another life
 */
export function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

export function ownIdentity(): ProcessIdentity {
  // Not by its number: /proc may be one in which another process has that.
  return { pid: process.pid, start: stat('self')?.start ?? '', namespace: namespaces() };
}

/**
 * True only when that process has surely ended. One that cannot be seen from here may be alive: its lease decides. So may
 * one when something cannot be read, be it for want of file descriptors or of rights.
 */
export function hasEnded(identity: ProcessIdentity, own: ProcessIdentity): boolean {
  if (!isOfOneNumbering(identity, own)) return false;
  // The kernel's own answer: it needs no file, and does not depend on which /proc is mounted.
  if (!exists(identity.pid)) return true;
  const found = stat(String(identity.pid));
  if (found === undefined || found.start === '') return false;
  const isAnother = identity.start !== '' && found.start !== identity.start;
  // A killed process is a zombie until its parent looks.
  const isOver = isAnother || found.state === 'Z' || found.state === 'X';
  return isOver && showsThisProcess(own);
}

/** Whether a pid means the same process here and there. */
function isOfOneNumbering(identity: ProcessIdentity, own: ProcessIdentity): boolean {
  if (identity.namespace !== own.namespace) return false;
  // Other systems have one numbering only.
  return own.namespace !== '' || process.platform !== 'linux';
}

/** Whether /proc tells of this process what is true, under its own pid: another one may belong to an outer namespace. */
function showsThisProcess(own: ProcessIdentity): boolean {
  const start = stat(String(own.pid))?.start;
  if (own.start === '' || start !== own.start) return false;
  // Its pids from the namespace of this /proc inwards: just one where that is its own.
  return /^NSpid:\s+(.*)$/m.exec(read('/proc/self/status') ?? '')?.[1] === String(own.pid);
}

/** The fields behind the command's name, which may itself hold spaces and brackets. */
function stat(pid: string): { state: string; start: string } | undefined {
  const text = read(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', start: fields[19] ?? '' };
}

/** Of pids and, where the kernel has them, of times: a start is told in the reader's. */
function namespaces(): string {
  const pid = namespace('pid');
  return pid === undefined ? '' : `${pid} ${namespace('time') ?? ''}`.trimEnd();
}

function namespace(kind: string): string | undefined {
  try {
    return readlinkSync(`/proc/self/ns/${kind}`);
  } catch {
    return undefined;
  }
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
