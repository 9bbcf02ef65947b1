export interface Options {
  /** Whether to open the page even when the input is no terminal. */
  readonly page: boolean;
  /** The page's port. 0: any that is free. */
  readonly port: number;
}

/** Throws on what it does not know, and says what there is. */
export function readOptions(args: readonly string[]): Options {
  let page = false;
  let port = 0;
  for (let i = 0; i < args.length; i++) {
    if (args[i] === '--page') page = true;
    else if (args[i] === '--port' && /^\d{1,5}$/.test(args[i + 1] ?? '')) port = Number(args[++i]);
    else throw new Error(`"${args[i]}" is not clear. There are --page and --port N.`);
  }
  return { page, port };
}
