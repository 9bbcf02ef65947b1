/** What a line of input means. */
export type Command =
  | { readonly kind: 'message'; readonly chat: string; readonly text: string }
  | { readonly kind: 'kill' | 'freeze' | 'thaw'; readonly replica: number }
  | { readonly kind: 'start' | 'status' | 'help' | 'quit' | 'nothing' }
  | { readonly kind: 'unclear'; readonly why: string };

export const COMMANDS = '/kill N, /freeze N, /thaw N, /start, /status, /help, /quit';

export const HELP: readonly string[] = [
  'ana: hi      a message in the chat ana; at a prompt, "hi" is one in the chat you',
  'signup       asks for a name; "slow 5" thinks for five seconds',
  '/kill N      ends the process of replica N at once; a new one takes its seat',
  '/freeze N    stops it where it is; /thaw N lets it go on',
  '/start       starts one more replica',
  '/status      shows the replicas, who has which chat, and who leads',
  '/quit        waits for the answers, and ends; Ctrl-C ends at once',
];

/** `fallback` is the chat of lines that name none; undefined when each has to. */
export function parse(line: string, fallback: string | undefined): Command {
  if (line.trim() === '') return { kind: 'nothing' };
  if (line.startsWith('/')) return parseCommand(line);
  const colon = line.indexOf(':');
  const chat = line.slice(0, Math.max(colon, 0)).trim();
  const isNamed = chat !== '' && (fallback === undefined || !/\s/.test(chat));
  if (isNamed) return { kind: 'message', chat, text: line.slice(colon + 1).trim() };
  if (fallback !== undefined) return { kind: 'message', chat: fallback, text: line.trim() };
  const why = colon === -1 ? 'it has no colon' : 'it names no chat before the colon';
  return { kind: 'unclear', why: `${why}: write "chat: text", for example "ana: hi"` };
}

function parseCommand(line: string): Command {
  const [, name = '', argument = ''] = /^\/(\w*)\s*(.*?)\s*$/s.exec(line) ?? [];
  switch (name) {
    case 'kill':
    case 'crash':
    case 'freeze':
    case 'thaw':
      if (/^\d{1,3}$/.test(argument)) return { kind: name === 'crash' ? 'kill' : name, replica: Number(argument) };
      return { kind: 'unclear', why: `/${name} needs the number of a replica, for example /${name} 1` };
    case 'start':
    case 'status':
    case 'help':
    case 'quit':
      return { kind: name };
    default:
      return { kind: 'unclear', why: `there is no such command; there are ${COMMANDS}` };
  }
}
