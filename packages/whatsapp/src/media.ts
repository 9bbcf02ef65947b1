import { WhatsAppError } from './error-codes.js';
import { callGraph } from './graph.js';
import type { Settings } from './options.js';
import { partsOf } from './send.js';

export interface Downloaded {
  readonly data: Uint8Array;
  readonly mimeType: string;
}

export interface DownloadOptions {
  /** More is refused. Default 100 MiB, which is the most that WhatsApp carries. */
  readonly maxBytes?: number;
  readonly signal?: AbortSignal;
}

/** Where Meta keeps media. The token is sent to no other host. */
const HOSTS = /(^|\.)(fbsbx\.com|facebook\.com|fbcdn\.net|whatsapp\.net)$/;

/** Fetches media by the id that a message names. */
export async function download(
  settings: Settings,
  chat: string,
  mediaId: string,
  { maxBytes = 100 * 1024 * 1024, signal }: DownloadOptions,
): Promise<Downloaded> {
  const { phoneNumberId } = partsOf(chat);
  const about = `${settings.baseUrl}/${encodeURIComponent(mediaId)}?phone_number_id=${encodeURIComponent(phoneNumberId)}`;
  const answer = await callGraph(settings, { method: 'GET', url: about, phoneNumberId, signal });
  const { url, mime_type: mimeType } = (await answer.json()) as { url?: unknown; mime_type?: unknown };
  if (typeof url !== 'string' || !isMetas(url, settings.baseUrl)) {
    throw new WhatsAppError('media', 'the media is not where Meta keeps any, so it was not fetched.');
  }
  const file = await callGraph(settings, { method: 'GET', url, phoneNumberId, signal });
  const type = typeof mimeType === 'string' ? mimeType : file.headers.get('content-type');
  return { data: await read(file, maxBytes), mimeType: type ?? 'application/octet-stream' };
}

/** Uploads media, and gives the id by which it can be sent from this number, for 30 days. */
export async function upload(
  settings: Settings,
  chat: string,
  data: Uint8Array<ArrayBuffer> | Blob,
  { type, filename = 'file', signal }: { type: string; filename?: string; signal?: AbortSignal },
): Promise<string> {
  const { phoneNumberId } = partsOf(chat);
  const body = new FormData();
  body.set('messaging_product', 'whatsapp');
  body.set('type', type);
  body.set('file', new Blob([data], { type }), filename);
  const url = `${settings.baseUrl}/${encodeURIComponent(phoneNumberId)}/media`;
  const answer = await callGraph(settings, { method: 'POST', url, phoneNumberId, signal, body });
  const { id } = (await answer.json()) as { id?: unknown };
  if (typeof id === 'string') return id;
  throw new WhatsAppError('media', 'the upload was answered without an id.');
}

function isMetas(url: string, baseUrl: string): boolean {
  if (!URL.canParse(url)) return false;
  const { origin, protocol, hostname } = new URL(url);
  return origin === new URL(baseUrl).origin || (protocol === 'https:' && HOSTS.test(hostname));
}

async function read(file: Response, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of (file.body ?? []) as AsyncIterable<Uint8Array>) {
    length += chunk.byteLength;
    if (length > maxBytes) throw new WhatsAppError('media', `the media is longer than ${maxBytes} bytes.`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
