// What a message costs on a mesh, against the same app without one: node packages/bolt/testing/cost.mjs, after a build.
// Both get their messages from the fake of Slack, over one socket, so its cost is in both. Rounds alternate.
import { randomUUID } from 'node:crypto';
import { mesh } from '@botmesh/bolt';
import { MemoryCoordinator } from '@botmesh/core/testing';
import { RedisCoordinator } from '@botmesh/redis';
import { FakeSlack } from '@botmesh/slack/testing';
import { App, LogLevel } from '@slack/bolt';

const MESSAGES = 3_000;
const CHATS = 100;
const AT_ONCE = 50;
const ROUNDS = 7;
const REDIS_URL = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379';
const quiet = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  setLevel() {},
  getLevel: () => LogLevel.ERROR,
  setName() {},
};
const known = { token: 'xoxb-fake', appToken: 'xapp-fake', botId: 'B00FAKEBOT', botUserId: 'U00FAKEBOT' };

async function run(bind) {
  const slack = await FakeSlack.start();
  const app = new App({ ...known, socketMode: true, logger: quiet, clientOptions: { slackApiUrl: slack.apiUrl } });
  let handled = 0;
  let finish = () => {};
  const finished = new Promise((resolve) => {
    finish = resolve;
  });
  app.message(async () => {
    handled += 1;
    if (handled === MESSAGES) finish();
  });
  bind(app);
  await app.start();
  while (slack.sockets.open === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const fromMs = performance.now();
  let next = 0;
  const user = async () => {
    while (next < MESSAGES) await slack.say({ channel: `D${next++ % CHATS}`, text: 'hi' }).delivered;
  };
  await Promise.all(Array.from({ length: AT_ONCE }, user));
  await finished;
  const usEach = ((performance.now() - fromMs) * 1_000) / MESSAGES;
  await app.stop();
  await slack.close();
  return usEach;
}

const ways = {
  bare: () => {},
  memory: (app) => mesh(app, { coordinator: new MemoryCoordinator(), log: () => {} }),
  redis: (app) =>
    mesh(app, { coordinator: new RedisCoordinator({ url: REDIS_URL, namespace: `cost-${randomUUID()}` }) }),
};
const found = { bare: [], memory: [], redis: [] };
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, bind] of Object.entries(ways)) {
    const usEach = await run(bind);
    // The first is to get warm.
    if (round > 0) found[name].push(usEach);
  }
}
const sorted = (list) => list.toSorted((a, b) => a - b);
const told = (list, digits) => {
  const all = sorted(list);
  return `${all[all.length >> 1].toFixed(digits)} (${all[0].toFixed(digits)} to ${all.at(-1).toFixed(digits)})`;
};
console.log(`${MESSAGES} messages in ${CHATS} chats, ${AT_ONCE} at once, ${ROUNDS} rounds; Node ${process.version}`);
for (const name of Object.keys(ways)) {
  const ratios = found[name].map((usEach, round) => usEach / found.bare[round]);
  console.log(`${name.padEnd(7)} ${told(found[name], 0)} µs each; ${told(ratios, 2)} times bare`);
}
