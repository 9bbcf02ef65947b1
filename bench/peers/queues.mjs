// Job queues that can run the jobs of a chat one at a time: BullMQ, pg-boss, graphile-worker.
import { setTimeout as sleep } from 'node:timers/promises';

/** Groups are not part of its open edition: queues that run one job at a time in all, and chats that share them. */
const BULL_QUEUES = 50;

export async function bullmq({ where, handle }) {
  const { Queue, Worker } = await import('bullmq');
  const { Redis } = await import('ioredis');
  const [url, prefix] = where.split(' ');
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  const common = { connection, prefix, skipVersionCheck: true };
  const kept = { removeOnComplete: true, removeOnFail: true };
  const queues = [];
  const workers = [];
  for (let at = 0; at < BULL_QUEUES; at++) {
    const queue = new Queue(`q${at}`, { ...common, skipMetasUpdate: true, defaultJobOptions: kept });
    await queue.setGlobalConcurrency(1);
    queues.push(queue);
    const timing = { concurrency: 1, lockDuration: 12_000, stalledInterval: 12_000, maxStalledCount: 10 };
    const worker = new Worker(`q${at}`, (job) => handle(job.data), { ...common, ...timing });
    worker.on('error', () => {});
    workers.push(worker);
  }
  await Promise.all(workers.map((worker) => worker.waitUntilReady()));
  return {
    submit: (chat, { note }) => queues[Number(/\d+$/.exec(chat)[0]) % BULL_QUEUES].add('message', note),
    async close() {
      await Promise.allSettled([
        ...workers.map((worker) => worker.close(true)),
        ...queues.map((queue) => queue.close()),
      ]);
      connection.disconnect();
    },
  };
}

/** Version 10, the last for Node 20. Half a second is the shortest interval that it polls in. */
export async function pgBoss({ where, handle }) {
  const { default: PgBoss } = await import('pg-boss');
  const [connectionString, schema] = where.split(' ');
  const boss = new PgBoss({ connectionString, schema: `${schema}_boss`, max: 10, schedule: false });
  boss.on('error', () => {});
  await again(() => boss.start());
  await boss.createQueue('messages', { policy: 'singleton' }).catch(() => {});
  const work = (jobs) => Promise.all(jobs.map((job) => handle(job.data.note)));
  for (let worker = 0; worker < 4; worker++) {
    await boss.work('messages', { pollingIntervalSeconds: 0.5, batchSize: 50 }, work);
  }
  return {
    submit: (chat, { note }) => boss.send('messages', { note }, { singletonKey: chat }),
    close: () => boss.stop({ graceful: false, wait: false }).catch(() => {}),
  };
}

export async function graphileWorker({ where, handle }) {
  const { run, makeWorkerUtils, Logger } = await import('graphile-worker');
  const [connectionString, prefix] = where.split(' ');
  const logger = new Logger(() => () => {});
  const common = { connectionString, schema: `${prefix}_graphile`, logger, maxPoolSize: 20 };
  const utils = await again(async () => {
    const made = await makeWorkerUtils(common);
    await made.migrate();
    return made;
  });
  const taskList = { message: ({ note }) => handle(note) };
  const runner = await run({ ...common, concurrency: 16, pollInterval: 1_000, noHandleSignals: true, taskList });
  runner.promise.catch(() => {});
  return {
    submit: (chat, { note }) => utils.addJob('message', { note }, { queueName: chat }),
    async close() {
      await runner.stop().catch(() => {});
      await utils.release();
    },
  };
}

/** Two processes that make the tables at once disturb each other. */
async function again(start) {
  for (let trial = 1; ; trial++) {
    try {
      return await start();
    } catch (error) {
      if (trial === 10) throw error;
      await sleep(200 + 200 * Math.random());
    }
  }
}
