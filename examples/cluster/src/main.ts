import cluster from 'node:cluster';
import process from 'node:process';

const WORKERS = 3;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;

/** What a worker tells the primary. */
type Word = { readonly kind: 'serves' } | { readonly kind: 'failed'; readonly why: string };

if (cluster.isPrimary) runPrimary();
else await runWorker();

/** Keeps the workers running. It knows nothing of chats: any worker takes any message. */
function runPrimary(): void {
  const pauses = new Set<NodeJS.Timeout>();
  let pauseMs = FIRST_PAUSE_MS;
  let hasServed = false;
  let failures = 0;
  let isStopping = false;
  for (let i = 0; i < WORKERS; i++) fork();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop);

  function fork(): void {
    const worker = cluster.fork();
    const startedMs = Date.now();
    let why = '';
    worker.on('message', (word: Word) => {
      if (word.kind === 'serves') hasServed = true;
      else why = word.why;
    });
    worker.once('exit', () => {
      if (isStopping) return;
      if (why !== '' && !hasServed && ++failures === WORKERS) return giveUp(why);
      if (why !== '' && hasServed) console.error(`A worker could not start: ${why}`);
      replace(Date.now() - startedMs);
    });
  }

  /** After a pause, which grows while workers do not live long: a start costs more than most mistakes. */
  function replace(livedMs: number): void {
    if (livedMs > LONGEST_PAUSE_MS) pauseMs = FIRST_PAUSE_MS;
    const pause = setTimeout(() => {
      pauses.delete(pause);
      fork();
    }, pauseMs);
    pauses.add(pause);
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
  }

  /** What keeps every worker from its start would keep the next one from it, too. */
  function giveUp(why: string): void {
    console.error(`No worker could start: ${why}`);
    process.exitCode = 1;
    stop();
  }

  function stop(): void {
    isStopping = true;
    for (const pause of pauses) clearTimeout(pause);
    // A primary without workers has nothing left to do, and ends.
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGTERM');
  }
}

async function runWorker(): Promise<void> {
  try {
    await import('./worker.js');
    process.send?.({ kind: 'serves' } satisfies Word);
  } catch (error) {
    process.send?.({ kind: 'failed', why: explain(error as NodeJS.ErrnoException) } satisfies Word, () =>
      process.exit(1),
    );
  }
}

function explain({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'EADDRINUSE') return 'the port is in use. Set PORT to another one.';
  if (code === 'EACCES') return `${message}. Set PORT to one above 1023, and MESH_FILE to a file that you may write.`;
  return message;
}
