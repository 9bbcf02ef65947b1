import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { SqliteStore } from '@botmesh/sqlite';
import { Board } from './Board.js';
import { COMMANDS, HELP, parse } from './command.js';
import { Intake } from './Intake.js';
import { type Options, readOptions, USAGE } from './options.js';
import { PageServer } from './PageServer.js';
import { Supervisor } from './Supervisor.js';
import { Terminal } from './Terminal.js';

const SIZE = 3;
const LOOK_FOR_PARENT_EVERY_MS = 250;

const options = readOptionsOrExit();
const terminal = new Terminal();
const hasPage = options.page || terminal.isTyped;
const folder = mkdtempSync(join(tmpdir(), 'botmesh-live-'));
const path = join(folder, 'mesh.db');
const tell = (notice: string): void => terminal.tell(notice);

const board = new Board();
const supervisor: Supervisor = new Supervisor(path, {
  heard: (replica, report) => {
    if (report.kind === 'notice') tell(report.line);
    board.heard(replica, report);
    return intake.heard(report);
  },
  died: (replica) => {
    board.died(replica);
    intake.died(replica);
  },
  tell,
});
const intake = new Intake({
  replicas: supervisor,
  show: (chat, text) => {
    board.shown(chat, text);
    return terminal.answer(`${chat}: ${text}`);
  },
  tell,
});
/** The record that the replicas share: this process only looks at it. */
const store = new SqliteStore({ path });
const page = new PageServer(async () => board.view(supervisor.replicas, await store.inspect()), {
  send: (chat, text) => void send(chat, text),
  kill: (number) => supervisor.kill(number),
  freeze: (number) => supervisor.freeze(number),
  thaw: (number) => supervisor.thaw(number),
  start: () => supervisor.add(),
});

let ending: Promise<never> | undefined;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end());
// Who reads the answers may stop reading, as `head` does; or the terminal is closed.
for (const stream of [process.stdin, process.stdout, process.stderr]) stream.on('error', () => void end());
if (process.env.npm_lifecycle_event !== undefined) endWithParent(process.ppid);

try {
  await supervisor.start(SIZE);
  if (hasPage) tell(`${SIZE} replicas of one bot. Chat and watch: ${await page.open(options.port)}`);
} catch (error) {
  tell((error as Error).message);
  await end(1);
}
if (terminal.isTyped) tell(`Or write here: "hi", "signup", "slow 5" or "ana: hi"; ${COMMANDS}.`);
const { received, unclear } = await follow();
// A page without a terminal stays until it is ended by a signal.
if (terminal.isTyped || !hasPage) {
  supervisor.thawIfAllFrozen();
  if (terminal.isTyped && intake.unanswered !== '') tell(`waits for ${intake.unanswered}; Ctrl-C ends at once`);
  await intake.answered();
  await end(!terminal.isTyped && unclear > 0 && received === 0 ? 1 : 0);
}

/** Resolves when the input has ended, to how many messages it had, and how many lines that were not clear. */
async function follow(): Promise<{ received: number; unclear: number }> {
  let count = 0;
  let received = 0;
  let unclear = 0;
  for await (const line of terminal.lines(() => void end())) {
    count++;
    const command = parse(line, terminal.isTyped ? 'you' : undefined);
    switch (command.kind) {
      case 'message': {
        // A script cannot thaw them while its next line waits for one.
        if (!hasPage) supervisor.thawIfAllFrozen();
        received++;
        const taken = send(command.chat, command.text);
        if (!hasPage) await taken;
        break;
      }
      case 'kill':
      case 'freeze':
      case 'thaw':
        supervisor[command.kind](command.replica);
        break;
      case 'status':
        for (const notice of board.summary(supervisor.replicas, await store.inspect())) tell(notice);
        break;
      case 'start':
        supervisor.add();
        break;
      case 'help':
        for (const notice of HELP) tell(notice);
        break;
      case 'quit':
        terminal.close();
        return { received, unclear };
      case 'unclear':
        unclear++;
        tell(terminal.isTyped ? command.why : `line ${count} is not clear, ${command.why}`);
        break;
      case 'nothing':
        break;
      default:
        command satisfies never;
    }
  }
  return { received, unclear };
}

/** Resolves when a replica has taken the message in. */
function send(chat: string, text: string): Promise<void> {
  const message = intake.receive(chat, text);
  board.received(message);
  return intake.deliver(message);
}

/** Leaves nothing behind: no process, no file, no socket. */
function end(code = 0): Promise<never> {
  // Later, for the first step can fail back into this function.
  ending ??= Promise.resolve().then(async () => {
    terminal.close();
    if (intake.unanswered !== '') tell(`ends; not answered: ${intake.unanswered}`);
    await page.close();
    await supervisor.stop();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
    // On a terminal that was closed, Node's own exit would abort: it cannot put the terminal's mode back.
    if (terminal.isGone) process.kill(process.pid, 'SIGKILL');
    process.exit(code);
  });
  return ending;
}

/** What ends npm, or the shell between, may not reach this process. */
function endWithParent(parent: number): void {
  const timer = setInterval(() => {
    if (process.ppid !== parent) void end();
  }, LOOK_FOR_PARENT_EVERY_MS);
  timer.unref();
}

function readOptionsOrExit(): Options {
  try {
    const read = readOptions(process.argv.slice(2));
    if (!read.help) return read;
    process.stdout.write(USAGE);
    process.exit(0);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exit(2);
  }
}
