// Locks over one Redis that poll: redlock, with short waits instead of its 200 ms, and redis-semaphore.
import { Redis } from 'ioredis';

const TTL_MS = 12_000;

export async function redlock({ where }) {
  const { default: imported } = await import('redlock');
  const Redlock = imported.default ?? imported;
  const [url, prefix] = where.split(' ');
  const client = new Redis(url);
  const locks = new Redlock([client], { retryCount: -1, retryDelay: 10, retryJitter: 5 });
  locks.on('error', () => {});
  return {
    submit: (chat, message) =>
      locks.using([`${prefix}:${chat}`], TTL_MS, () => {
        message.placed();
        return message.handle();
      }),
    close: () => client.disconnect(),
  };
}

export async function semaphore({ where }) {
  const { Mutex } = await import('redis-semaphore');
  const [url, prefix] = where.split(' ');
  const client = new Redis(url);
  const options = { lockTimeout: TTL_MS, acquireTimeout: 1e9, retryInterval: 10, onLockLost: () => {} };
  return {
    async submit(chat, message) {
      const mutex = new Mutex(client, `${prefix}:${chat}`, options);
      await mutex.acquire();
      message.placed();
      try {
        await message.handle();
      } finally {
        await mutex.release();
      }
    },
    close: () => client.disconnect(),
  };
}
