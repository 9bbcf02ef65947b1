import process from 'node:process';
import { createInterface, type Interface } from 'node:readline';
import { Cluster } from './Cluster.js';
import { HELP, parse } from './command.js';
import { Platform } from './Platform.js';

const SIZE = 3;

const isChat = process.stdin.isTTY === true;
const input = createInterface({
  input: process.stdin,
  crlfDelay: Number.POSITIVE_INFINITY,
  ...(isChat ? { output: process.stdout, prompt: '> ' } : {}),
});

let isOpen = true;
input.on('close', () => {
  isOpen = false;
});

// Who reads the answers may stop reading, as `head` does.
process.stdout.on('error', () => process.exit(0));

const platform = new Platform((line) => write(process.stdout, line));
const cluster = new Cluster(platform, (notice) => void write(process.stderr, isChat ? `  [${notice}]` : notice));

await cluster.start(SIZE);
if (isChat)
  void write(process.stderr, `${SIZE} replicas of one bot. Write "hi", "signup", "slow 5" or "ana: hi"; ${HELP}.`);
await follow(input);
cluster.thawIfAllFrozen();
if (isChat && platform.unanswered > 0) await write(process.stderr, `  [${waitingFor(platform.unanswered)}]`);
await platform.answered();
await cluster.stop();

/** Resolves when the input has ended, or a line says so. */
async function follow(lines: Interface): Promise<void> {
  let count = 0;
  for await (const line of lines) {
    count++;
    const command = parse(line, isChat ? 'you' : undefined);
    switch (command.kind) {
      case 'message':
        // Without waiting for a replica where none runs: a later line may thaw one.
        await Promise.race([
          platform.deliver(command.chat, command.text, () => cluster.next()),
          cluster.outOfReplicas(),
        ]);
        break;
      case 'crash':
      case 'freeze':
      case 'thaw':
        cluster[command.kind](command.replica);
        break;
      case 'status':
        await cluster.status();
        break;
      case 'quit':
        lines.close();
        return;
      case 'unclear':
        await write(process.stderr, `line ${count} is not clear, ${command.why}`);
        break;
      case 'nothing':
        break;
      default:
        command satisfies never;
    }
    if (isChat && isOpen) input.prompt();
  }
}

/** The first Ctrl-C ends the input only, and would look like nothing. */
function waitingFor(answers: number): string {
  return `waiting for ${answers} answer${answers === 1 ? '' : 's'}; Ctrl-C again to leave`;
}

/** Resolves when the line is out. On a terminal, what is being typed is kept below it. */
function write(stream: NodeJS.WriteStream, line: string): Promise<void> {
  return new Promise((resolve) => {
    stream.write(isChat ? `\r\x1b[K${line}\n` : `${line}\n`, () => resolve());
    if (isChat && isOpen) input.prompt(true);
  });
}
