import cluster from 'node:cluster';
import process from 'node:process';

const WORKERS = 3;

if (cluster.isPrimary) runPrimary();
else await import('./worker.js');

/** Keeps the workers running. It knows nothing of chats: any worker takes any message. */
function runPrimary(): void {
  let isStopping = false;
  for (let i = 0; i < WORKERS; i++) cluster.fork();
  cluster.on('exit', () => {
    if (!isStopping) cluster.fork();
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      isStopping = true;
      // A primary without workers has nothing left to do, and ends.
      for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGTERM');
    });
  }
}
