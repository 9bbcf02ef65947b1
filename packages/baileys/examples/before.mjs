import makeWASocket, { DisconnectReason, useMultiFileAuthState } from '@whiskeysockets/baileys';

async function connect() {
  const { state, saveCreds } = await useMultiFileAuthState('auth/main');
  const sock = makeWASocket({ auth: state });
  sock.ev.on('creds.update', saveCreds);
  sock.ev.on('connection.update', ({ connection, lastDisconnect }) => {
    if (connection === 'open') console.log('connected');
    if (connection !== 'close') return;
    if (lastDisconnect?.error?.output?.statusCode !== DisconnectReason.loggedOut) void connect();
  });
  sock.ev.on('messages.upsert', async ({ messages }) => {
    for (const message of messages) {
      if (message.key.fromMe) continue;
      await sock.sendMessage(message.key.remoteJid, { text: `You wrote: ${message.message?.conversation}` });
    }
  });
}

await connect();
