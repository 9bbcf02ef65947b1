import { badRequest } from './api-error.js';

export interface FakeFile {
  readonly name: string;
  readonly data: Uint8Array;
}

/** The files that the platform keeps, by their `file_id`. */
export class FakeFiles {
  readonly kept = new Map<string, FakeFile>();

  /** Gives the id. */
  add(name: string, data: Uint8Array): string {
    const id = `file-${this.kept.size + 1}`;
    this.kept.set(id, { name, data });
    return id;
  }

  /** What `getFile` answers. */
  about(id: unknown): object {
    const file = this.kept.get(String(id));
    if (file === undefined) throw badRequest('wrong file_id or the file is temporarily unavailable');
    const path = `documents/${String(id)}/${file.name}`;
    return { file_id: id, file_unique_id: `u-${String(id)}`, file_size: file.data.byteLength, file_path: path };
  }

  /** What is fetched by the path that `about` gave. */
  at(path: string): Uint8Array | undefined {
    return this.kept.get(decodeURIComponent(path.split('/')[1] ?? ''))?.data;
  }

  /** The members of a message by which clients find what was uploaded. */
  async take(uploads: Readonly<Record<string, File>>): Promise<Record<string, unknown>> {
    const taken: Record<string, unknown> = {};
    for (const [member, file] of Object.entries(uploads)) {
      const id = this.add(file.name, new Uint8Array(await file.arrayBuffer()));
      const about = { file_id: id, file_unique_id: `u-${id}`, file_size: file.size };
      taken[member] = member === 'photo' ? [{ ...about, width: 1, height: 1 }] : { ...about, file_name: file.name };
    }
    return taken;
  }
}
