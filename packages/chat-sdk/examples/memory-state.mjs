// State of the Chat SDK in one process's memory, as @chat-adapter/state-memory has it, and nothing more.
export function createMemoryState() {
  const values = new Map();
  const lists = new Map();
  const queues = new Map();
  const locks = new Map();
  const subscribed = new Set();
  const read = (key) => {
    const entry = values.get(key);
    if (entry !== undefined && entry.until > Date.now()) return entry.value;
    values.delete(key);
    return null;
  };
  const write = (key, value, ttlMs = Number.POSITIVE_INFINITY) => values.set(key, { value, until: Date.now() + ttlMs });
  const holds = ({ threadId, token }) => {
    const held = locks.get(threadId);
    return held?.token === token && held.expiresAt > Date.now() ? held : undefined;
  };

  return {
    async connect() {},
    async disconnect() {},
    get: async (key) => read(key),
    set: async (key, value, ttlMs) => void write(key, value, ttlMs),
    delete: async (key) => void values.delete(key),
    async setIfNotExists(key, value, ttlMs) {
      if (read(key) !== null) return false;
      write(key, value, ttlMs);
      return true;
    },
    async appendToList(key, value, { maxLength = Number.POSITIVE_INFINITY } = {}) {
      const list = [...(lists.get(key) ?? []), value];
      lists.set(key, list.slice(Math.max(0, list.length - maxLength)));
    },
    getList: async (key) => lists.get(key) ?? [],
    async enqueue(threadId, entry, maxSize) {
      const queue = [...(queues.get(threadId) ?? []), entry].slice(-maxSize);
      queues.set(threadId, queue);
      return queue.length;
    },
    dequeue: async (threadId) => queues.get(threadId)?.shift() ?? null,
    queueDepth: async (threadId) => queues.get(threadId)?.length ?? 0,
    subscribe: async (threadId) => void subscribed.add(threadId),
    unsubscribe: async (threadId) => void subscribed.delete(threadId),
    isSubscribed: async (threadId) => subscribed.has(threadId),
    async acquireLock(threadId, ttlMs) {
      if ((locks.get(threadId)?.expiresAt ?? 0) > Date.now()) return null;
      const lock = { threadId, token: crypto.randomUUID(), expiresAt: Date.now() + ttlMs };
      locks.set(threadId, lock);
      return lock;
    },
    async extendLock(lock, ttlMs) {
      const held = holds(lock);
      if (held !== undefined) held.expiresAt = Date.now() + ttlMs;
      return held !== undefined;
    },
    releaseLock: async (lock) => void (holds(lock) && locks.delete(lock.threadId)),
    forceReleaseLock: async (threadId) => void locks.delete(threadId),
  };
}
