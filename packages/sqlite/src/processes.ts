import { readFileSync, readlinkSync } from 'node:fs';

/** Who runs a replica: enough to tell later whether that very process still runs. */
export interface ProcessIdentity {
  readonly pid: number;
  /** When it started, in the kernel's ticks; empty where that cannot be read. */
  readonly start: string;
  /** The namespace in which the pid counts; empty where that cannot be read. */
  readonly namespace: string;
}

/** This life of the host: anything monotonic starts anew with it. */
export function bootId(): string {
  return read('/proc/sys/kernel/random/boot_id')?.trim() ?? '';
}

export function ownIdentity(): ProcessIdentity {
  return { pid: process.pid, start: stat(process.pid)?.start ?? '', namespace: pidNamespace() };
}

/** True only when that process has surely ended. One that cannot be seen from here may be alive: its lease decides. */
export function hasEnded(identity: ProcessIdentity, own: ProcessIdentity): boolean {
  if (identity.namespace !== own.namespace) return false;
  if (own.start === '') return !exists(identity.pid);
  const found = stat(identity.pid);
  // A killed process is a zombie until its parent looks.
  return found === undefined || found.start !== identity.start || found.state === 'Z' || found.state === 'X';
}

/** The fields behind the command's name, which may itself hold spaces and brackets. */
function stat(pid: number): { state: string; start: string } | undefined {
  const text = read(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', start: fields[19] ?? '' };
}

function pidNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid');
  } catch {
    return '';
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
