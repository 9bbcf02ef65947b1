import { type Call, deliveryErrorOf, request } from './api.js';
import { reasonOf, TelegramError } from './errors.js';

export interface Downloaded {
  readonly data: Uint8Array;
  /** What Telegram calls it, `file_3.jpg`: by its end one knows what it is. */
  readonly filename: string;
}

export interface DownloadOptions {
  /** More is refused. Default 20 MiB, which is the most that Telegram gives to bots. */
  readonly maxBytes?: number;
  readonly signal?: AbortSignal;
}

export interface Files {
  readonly call: Call;
  /** The address before the file's path, with the token. */
  readonly root: string;
  readonly timeoutMs: number;
}

/** Fetches a file by the `file_id` that a message names. */
export async function download(
  { call, root, timeoutMs }: Files,
  fileId: string,
  { maxBytes = 20 * 1024 * 1024, signal }: DownloadOptions,
): Promise<Downloaded> {
  const limits = { signal, timeoutMs };
  const found = await call('getFile', { file_id: fileId }, limits).catch((error: unknown) => {
    throw deliveryErrorOf(error);
  });
  const { file_path: path, file_size: size } = (found ?? {}) as { file_path?: unknown; file_size?: unknown };
  if (typeof path !== 'string' || path.startsWith('/') || path.split('/').includes('..')) {
    throw new TelegramError(
      'other',
      'the file has no path to fetch. A local Bot API server keeps files on its own disk.',
    );
  }
  if (typeof size === 'number' && size > maxBytes) throw tooBig(maxBytes);
  const address = `${root}/${path.split('/').map(encodeURIComponent).join('/')}`;
  const response = await request(address, 'a file', limits);
  if (!response.ok) {
    await response.body?.cancel();
    const { status } = response;
    throw new TelegramError(reasonOf(status, ''), `a file: HTTP ${status}.`, { status });
  }
  return { data: await read(response, maxBytes), filename: path.split('/').at(-1)! };
}

async function read(file: Response, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of (file.body ?? []) as AsyncIterable<Uint8Array>) {
    length += chunk.byteLength;
    if (length > maxBytes) throw tooBig(maxBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function tooBig(maxBytes: number): TelegramError {
  return new TelegramError('too-big', `the file is longer than ${maxBytes} bytes.`);
}
