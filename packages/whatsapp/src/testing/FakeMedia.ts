import { createHash } from 'node:crypto';
import { type Answer, json, refusal } from './answers.js';
import { refusalOf } from './cloud-rules.js';

/** What was uploaded, or sent by somebody. */
export class FakeMedia {
  readonly #kept = new Map<string, { data: Buffer; type: string }>();

  /** Gives its id. */
  add(data: Uint8Array, type: string): string {
    const id = String(1_000_000_000_000_000 + this.#kept.size);
    this.#kept.set(id, { data: Buffer.from(data), type });
    return id;
  }

  async take(body: Buffer, contentType: string): Promise<Answer> {
    const parts = new Response(new Uint8Array(body), { headers: { 'content-type': contentType } });
    const form = await parts.formData().catch(() => undefined);
    const file = form?.get('file');
    const isWhole = form?.get('messaging_product') === 'whatsapp' && file instanceof Blob;
    if (!isWhole) return refusal(refusalOf(100, 400));
    return json(200, { id: this.add(new Uint8Array(await file.arrayBuffer()), file.type) });
  }

  /** Where it is, and what. */
  describe(id: string, url: string): Answer {
    const media = this.#kept.get(id);
    if (media === undefined) return refusal(refusalOf(100, 400));
    const { data, type } = media;
    const sha256 = createHash('sha256').update(data).digest('hex');
    const about = { url: `${url}/files/${id}`, mime_type: type, sha256, file_size: data.byteLength };
    return json(200, { messaging_product: 'whatsapp', id, ...about });
  }

  give(id: string): Answer {
    const media = this.#kept.get(id);
    return media === undefined ? { status: 404, body: '' } : { status: 200, type: media.type, body: media.data };
  }

  delete(id: string): Answer {
    return json(200, { success: this.#kept.delete(id) });
  }
}
