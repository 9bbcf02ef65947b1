// What must be true of every channel: three processes of a bot on one Redis, behind a fake of the platform, which are killed,
// frozen beyond the lease and replaced while people write.
import { expect, test } from 'vitest';
import { pause } from '../cluster/Cluster.js';
import { type Platform, type PlatformKind, type Rates, Stage } from './Stage.js';

const LEASE_MS = 2_000;
/** What the replicas keep to together: less than is written, so that they must. */
const RATES: Rates = { account: { perSecond: 16, burst: 5 }, chat: { perSecond: 5, burst: 2 } };
/** The first chat writes more than its own rate, all together more than that of the account. */
const EVERY_MS = { first: 120, others: 250 };
/** How many answers of the platform get lost, though it has the reply. */
const LOST = 3;

/** People who write, each chat one message after the other, until they are told to stop. */
class Writers {
  readonly #platform: Platform;
  readonly #written = new Map<string, number>();
  readonly #writing: Promise<unknown>;
  #isOver = false;

  constructor(platform: Platform) {
    this.#platform = platform;
    this.#writing = Promise.all(
      platform.chats.map((chat, n) => this.#write(chat, n === 0 ? EVERY_MS.first : EVERY_MS.others)),
    );
    // `stop` tells; until then the test may have failed for another reason.
    this.#writing.catch(() => {});
  }

  /** By chat, how many messages were written. */
  async stop(): Promise<ReadonlyMap<string, number>> {
    this.#isOver = true;
    await this.#writing;
    return this.#written;
  }

  async #write(chat: string, everyMs: number): Promise<void> {
    for (let n = 1; !this.#isOver; n++) {
      this.#written.set(chat, n);
      await Promise.all([this.#platform.write(chat, String(n)), pause(everyMs)]);
    }
  }
}

const textsTo = (platform: Platform, chat: string): string[] =>
  platform.sent().flatMap((sent) => (sent.chat === chat ? [sent.text] : []));

const inOrder = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => `${n + 1} after ${n === 0 ? 'none' : n}`);

/** That so many took as long as they must when all replicas keep to one rate. A network makes single ones come closer. */
function expectRate(times: readonly number[], { perSecond, burst }: Rates['chat']): void {
  const spanMs = times.at(-1)! - times[0]!;
  expect(spanMs).toBeGreaterThanOrEqual(0.9 * ((times.length - burst) / perSecond) * 1_000);
}

export function declareChannel(kind: PlatformKind): void {
  // C-39, C-57, C-63, C-64
  test(`${kind.name}: one of three processes killed while answers get lost, one frozen, then all replaced: each chat in order, none lost, no reply doubled but unknown ones, limits kept`, {
    timeout: 120_000,
  }, async () => {
    await using stage = await Stage.open(kind, { leaseMs: LEASE_MS, rates: RATES });
    const { platform, diary } = stage;
    const writers = new Writers(platform);
    await stage.answered(10);

    platform.loseAnswers(LOST);
    await stage.replace(stage.first, 'SIGKILL');
    await stage.answered(5);
    const sleeper = stage.first;
    sleeper.child.kill('SIGSTOP');
    await pause(1.5 * LEASE_MS);
    sleeper.child.kill('SIGCONT');
    await stage.answered(5);
    for (const each of [...stage.living]) expect(await stage.replace(each, 'SIGTERM')).toBe(0);
    const written = await writers.stop();
    const total = [...written.values()].reduce((sum, each) => sum + each, 0);
    await stage.until('each message is answered', () =>
      platform.chats.every((chat) => new Set(textsTo(platform, chat)).size === written.get(chat)),
    );
    await stage.comesToRest(total);

    const lines = diary.read();
    const unknown = lines.filter(({ event }) => event === 'unknown').length;
    const sent = platform.sent();
    const twice = sent.length - total;
    console.log(`${kind.name}: ${total} messages, ${twice} replies doubled, ${unknown} unknown`);
    for (const chat of platform.chats) {
      expect([...new Set(textsTo(platform, chat))], chat).toEqual(inOrder(written.get(chat)!));
    }
    expect(twice).toBeLessThanOrEqual(unknown);
    expect(unknown).toBeGreaterThanOrEqual(LOST);
    expect(lines.filter(({ event, how }) => event === 'ended' && how !== 'handled')).toEqual([]);
    expectRate(
      sent.map(({ atMs }) => atMs),
      RATES.account,
    );
    const [busiest] = platform.chats;
    expectRate(
      sent.flatMap(({ chat, atMs }) => (chat === busiest ? [atMs] : [])),
      RATES.chat,
    );
    platform.check();
  });
}
