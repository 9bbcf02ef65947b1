// For the tests of this package: a socket of the shape of Baileys', to a FakeWhatsApp. In JavaScript, for processes that
// run it as it is.
import { EventEmitter } from 'node:events';
import { connect } from 'node:net';

/** As Baileys does: it confirms by itself, whatever its listeners do meanwhile. */
const CONFIRM_MS = 50;

export function makeFakeSocket({ port, account, auth, by }) {
  const ev = new EventEmitter();
  const stream = connect(port, '127.0.0.1');
  const tell = (what) => stream.writable && stream.write(`${JSON.stringify(what)}\n`);
  const asked = new Map();
  let asks = 0;
  let isClosed = false;

  function close(code) {
    if (isClosed) return;
    isClosed = true;
    stream.destroy();
    for (const { reject } of asked.values()) reject(new Error('Connection Closed'));
    const error = code === undefined ? undefined : Object.assign(new Error('closed'), { output: { statusCode: code } });
    ev.emit('connection.update', { connection: 'close', lastDisconnect: { error } });
  }

  async function received({ id, jid, text, isOffline, ...more }) {
    const { [jid]: session } = await auth.keys.get('session', [jid]);
    await auth.keys.set({ session: { [jid]: Buffer.from([(session?.[0] ?? 0) + 1]) } });
    if (isClosed) return;
    const key = { ...(jid === undefined ? {} : { remoteJid: jid }), id, fromMe: false };
    const message = {
      key,
      messageTimestamp: 1,
      message: { conversation: text },
      secret: Buffer.from(id ?? ''),
      ...more,
    };
    ev.emit('messages.upsert', { type: isOffline ? 'append' : 'notify', messages: [message] });
    setTimeout(() => tell({ confirm: id }), CONFIRM_MS);
  }

  const lines = {
    open() {
      auth.creds.logins = (auth.creds.logins ?? 0) + 1;
      ev.emit('creds.update', {});
      ev.emit('connection.update', { connection: 'open' });
    },
    close: ({ code }) => close(code),
    sent({ ask, id }) {
      asked.get(ask)?.resolve({ key: { id } });
      asked.delete(ask);
    },
  };

  let rest = '';
  let last = Promise.resolve();
  stream.on('data', (chunk) => {
    rest += String(chunk);
    const parts = rest.split('\n');
    rest = parts.pop();
    for (const part of parts) {
      const line = JSON.parse(part);
      if (line.kind === 'message') last = last.then(() => received(line)).catch(() => close(500));
      else lines[line.kind]?.(line);
    }
  });
  stream.on('error', () => close(428));
  stream.on('close', () => close(428));
  stream.on('connect', () => tell({ login: account, by }));

  return {
    ev,
    end: () => close(undefined),
    sendMessage: (jid, content) =>
      new Promise((resolve, reject) => {
        if (isClosed) return reject(new Error('Connection Closed'));
        asked.set(++asks, { resolve, reject });
        tell({ send: { jid, text: content.text }, ask: asks });
      }),
  };
}
