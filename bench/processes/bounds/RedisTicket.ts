import { Redis } from 'ioredis';
import type { At, Line, Message } from '../subject.js';

/** KEYS: queue, fence. ARGV: ticket. The fence when the chat is free, else 0. */
const TAKE = `if redis.call('RPUSH', KEYS[1], ARGV[1]) == 1 then return redis.call('INCR', KEYS[2]) end return 0`;

/** KEYS: queue, fence. ARGV: own process, channel prefix. Tells the process of the next ticket that it is its turn. */
const GIVE = `
redis.call('LPOP', KEYS[1])
local next = redis.call('LINDEX', KEYS[1], 0)
if not next then return false end
local fence = redis.call('INCR', KEYS[2])
local process = string.match(next, '^[^:]+')
if process == ARGV[1] then return next .. ' ' .. fence end
redis.call('PUBLISH', ARGV[2] .. process, next .. ' ' .. fence)
return false`;

interface Scripted extends Redis {
  take(queue: string, fence: string, ticket: string): Promise<number>;
  give(queue: string, fence: string, own: string, channel: string): Promise<string | null>;
}

/**
 * The least over Redis that keeps a chat in order between processes: a list of tickets for each chat, one script to take
 * one, one to give it back, a push. It knows no death, no pause, no restart and no lost push: nothing to use.
 */
export class RedisTicket implements Line {
  readonly #own: string;
  readonly #prefix: string;
  readonly #commands: Scripted;
  readonly #ears: Redis;
  readonly #waiting = new Map<string, (fence: number) => void>();
  #tickets = 0;

  private constructor(id: number, url: string, prefix: string) {
    this.#own = String(id);
    this.#prefix = prefix;
    const commands = new Redis(url);
    commands.defineCommand('take', { numberOfKeys: 2, lua: TAKE });
    commands.defineCommand('give', { numberOfKeys: 2, lua: GIVE });
    this.#commands = commands as Scripted;
    this.#ears = new Redis(url);
  }

  static async open({ id, where }: At): Promise<RedisTicket> {
    const [url = '', prefix = ''] = where.split(' ');
    const line = new RedisTicket(id, url, prefix);
    line.#ears.on('message', (_channel, told: string) => line.#hear(told));
    await line.#ears.subscribe(`${prefix}:wake:${id}`);
    return line;
  }

  async submit(chat: string, message: Message): Promise<void> {
    this.#tickets += 1;
    const ticket = `${this.#own}:${this.#tickets}`;
    const queue = `${this.#prefix}:queue:${chat}`;
    const fences = `${this.#prefix}:fence`;
    // The push may come before the answer.
    const told = new Promise<number>((resolve) => this.#waiting.set(ticket, resolve));
    const fence = await this.#commands.take(queue, fences, ticket);
    if (fence !== 0) this.#waiting.delete(ticket);
    message.placed();
    await message.handle(fence === 0 ? await told : fence);
    const next = await this.#commands.give(queue, fences, this.#own, `${this.#prefix}:wake:`);
    if (next !== null) this.#hear(next);
  }

  async close(): Promise<void> {
    this.#commands.disconnect();
    this.#ears.disconnect();
  }

  #hear(told: string): void {
    const [ticket = '', fence] = told.split(' ');
    const resolve = this.#waiting.get(ticket);
    this.#waiting.delete(ticket);
    resolve?.(Number(fence));
  }
}
