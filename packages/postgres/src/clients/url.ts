import { ConfigError } from '@botmesh/core/spi';

const EXPECTED = 'Expected postgres://[user[:password]@]host[:port]/database[?sslmode=…]';

/**
 * The URL of a database, as both libraries read it.
 *
 * @throws ConfigError naming the part that is wrong, and never the password
 */
export function checkUrl(name: string, text: unknown): string {
  if (typeof text !== 'string')
    throw new ConfigError(`${name} is ${text === null ? 'null' : typeof text}. ${EXPECTED}.`);
  const { protocol } = parsed(name, text);
  if (protocol === 'postgres:' || protocol === 'postgresql:') return text;
  throw new ConfigError(`${name} has the scheme '${protocol}//'. ${EXPECTED}.`);
}

function parsed(name: string, text: string): URL {
  // Several hosts, which postgres can do, and none, which is a socket or the environment's, are no URL for Node.
  const readable = text.replace(/^([a-z]+:\/\/(?:[^@/?]*@)?)([^/?]*)/i, (_all, before: string, hosts: string) => {
    const [first] = hosts.split(',');
    return `${before}${first === '' ? 'localhost' : first}`;
  });
  try {
    const url = new URL(readable);
    decodeURIComponent(url.username);
    decodeURIComponent(url.password);
    decodeURIComponent(url.pathname);
    return url;
  } catch {
    // The cause would show the text, and with it the password.
    throw new ConfigError(
      `${name} is a string of ${text.length} characters that is no URL. ${EXPECTED}. Write odd characters with encodeURIComponent.`,
    );
  }
}
