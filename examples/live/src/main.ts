import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { SqliteStore } from '@botmesh/sqlite';
import { Board } from './Board.js';
import { HELP, parse } from './command.js';
import { Intake } from './Intake.js';
import { type Options, readOptions } from './options.js';
import { PageServer } from './PageServer.js';
import { Supervisor } from './Supervisor.js';
import { Terminal } from './Terminal.js';

const SIZE = 3;

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
// Who reads the answers may stop reading, as `head` does.
process.stdout.on('error', () => void end());

try {
  await supervisor.start(SIZE);
  if (hasPage) tell(`${SIZE} replicas of one bot. Chat and watch: ${await page.open(options.port)}`);
} catch (error) {
  tell((error as Error).message);
  await end(1);
}
if (terminal.isTyped) tell(`Or write here: "hi", "signup", "slow 5" or "ana: hi"; ${HELP}.`);
await follow();
// A page without a terminal stays until it is ended by a signal.
if (terminal.isTyped || !hasPage) {
  supervisor.thawIfAllFrozen();
  await intake.answered();
  await end();
}

/** Resolves when the input has ended. */
async function follow(): Promise<void> {
  let count = 0;
  for await (const line of terminal.lines(() => void end())) {
    count++;
    const command = parse(line, terminal.isTyped ? 'you' : undefined);
    switch (command.kind) {
      case 'message': {
        // A script cannot thaw them while its next line waits for one.
        if (!hasPage) supervisor.thawIfAllFrozen();
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
      case 'quit':
        terminal.close();
        return;
      case 'unclear':
        tell(`line ${count} is not clear, ${command.why}`);
        break;
      case 'nothing':
        break;
      default:
        command satisfies never;
    }
  }
}

/** Resolves when a replica has taken the message in. */
function send(chat: string, text: string): Promise<void> {
  const message = intake.receive(chat, text);
  board.received(message);
  return intake.deliver(message);
}

/** Leaves nothing behind: no process, no file, no socket. */
function end(code = 0): Promise<never> {
  ending ??= (async () => {
    terminal.close();
    await page.close();
    await supervisor.stop();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
    process.exit(code);
  })();
  return ending;
}

function readOptionsOrExit(): Options {
  try {
    return readOptions(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exit(2);
  }
}
