const HIGHEST_PORT = 65_535;

export interface Options {
  /** Whether to say what there is, and end. */
  readonly help: boolean;
  /** Whether to open the page even when the input is no terminal. */
  readonly page: boolean;
  /** The page's port. 0: any that is free. */
  readonly port: number;
}

export const USAGE = `npm start                a bot on three processes, a page to watch them, and a prompt
npm start -- --port N    the page on port N, from 0 to ${HIGHEST_PORT}; without it, on one that is free
npm start -- --page      the page, also when lines are piped in
Piped lines are "chat: text", for example "ana: hi". At the prompt, /help says more.
`;

/** Throws on what it does not know, and says what there is. */
export function readOptions(args: readonly string[]): Options {
  let help = false;
  let page = false;
  let port = 0;
  for (let i = 0; i < args.length; i++) {
    if (args[i] === '--help' || args[i] === '-h') help = true;
    else if (args[i] === '--page') page = true;
    else if (args[i] === '--port') port = readPort(args[++i]);
    else throw new Error(`"${args[i]}" is not clear. There are --page, --port N and --help.`);
  }
  return { help, page, port };
}

function readPort(text = ''): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= HIGHEST_PORT) return Number(text);
  throw new Error(`--port is "${text}". Give a number from 0 to ${HIGHEST_PORT}; 0 takes any that is free.`);
}
