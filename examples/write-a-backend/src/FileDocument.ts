import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Mailbox } from './Mailbox.js';
import type { SharedDocument, Version } from './shared-document.js';

/** So many versions stay, the newest among them. */
const KEPT = 16;

/**
 * A document in a folder of this host's own disk, a file for each version: `7.json` comes after `6.json`. A file can be
 * linked under a new name only once, so of two processes that both read version 6 one gets to write version 7.
 *
 * A version is on disk before it counts: a crash of the host loses nothing. Does not notice when somebody puts an older
 * copy of the folder back: stop every replica before.
 */
export class FileDocument implements SharedDocument {
  readonly #folder: string;
  readonly #mailbox: Mailbox;

  constructor(folder: string) {
    this.#folder = folder;
    this.#mailbox = new Mailbox(join(folder, 'listeners'));
  }

  async read(): Promise<Version> {
    for (;;) {
      const number = Math.max(0, ...(await this.#numbers()));
      if (number === 0) return { number, text: null, home: 'folder' };
      try {
        return { number, text: await readFile(this.#file(number), 'utf8'), home: 'folder' };
      } catch (error) {
        // So many newer ones came meanwhile that it was cleared away.
        if (codeOf(error) !== 'ENOENT') throw error;
      }
    }
  }

  async replace(number: number, text: string): Promise<boolean> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const next = number + 1;
    const draft = join(this.#folder, `draft-${randomUUID()}`);
    try {
      await writeFile(draft, text, { flush: true, mode: 0o600 });
      await link(draft, this.#file(next));
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false;
      throw error;
    } finally {
      await rm(draft, { force: true });
    }
    await flushFolder(this.#folder);
    const numbers = await this.#numbers();
    // This process slept so long that somebody else's file of that name may have been cleared away.
    if (Math.max(...numbers) >= next + KEPT) return false;
    for (const old of numbers) if (old <= next - KEPT) await rm(this.#file(old), { force: true });
    return true;
  }

  send(name: string, hint: string): Promise<void> {
    return this.#mailbox.send(name, hint);
  }

  listen(name: string, listener: (hint: string) => void): Promise<() => Promise<void>> {
    return this.#mailbox.listen(name, listener);
  }

  close(): Promise<void> {
    return this.#mailbox.close();
  }

  #file(number: number): string {
    return join(this.#folder, `${number}.json`);
  }

  async #numbers(): Promise<number[]> {
    try {
      const names = await readdir(this.#folder);
      return names.filter((name) => /^\d+\.json$/.test(name)).map((name) => Number.parseInt(name, 10));
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return [];
      throw error;
    }
  }
}

/** A file's name is safe on disk only when its folder is. */
async function flushFolder(folder: string): Promise<void> {
  const handle = await open(folder);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null)?.code;
}
