// One replica of a bot of two WhatsApp accounts, in a process of its own: Baileys is a fake of its shape.
import { baileys } from '@botmesh/baileys';
import { makeFakeSocket } from '../../packages/baileys/testing/fake-socket.mjs';
import { openBackend } from './open-backend.mjs';

const { backend, replicaId, leaseMs, port, accounts } = JSON.parse(process.argv[2]);
const { coordinator, store } = await openBackend(backend, { replicaId, leaseMs });

const bot = baileys({
  coordinator,
  store,
  accounts,
  connect: ({ account, auth }) => makeFakeSocket({ port, account, auth, by: replicaId }),
  initAuthCreds: () => ({}),
  /** "text" is answered at once, "text ms" after so long. */
  async onMessage(message, wa) {
    const [text, ms = '0'] = message.message.conversation.split(' ');
    process.send?.({ begun: text });
    if (ms !== '0') await new Promise((resolve) => setTimeout(resolve, Number(ms)));
    await wa.send({ text });
  },
  balanceMs: 300,
  firstDelayMs: 200,
  retryDelayMs: 10,
  log: () => {},
});

process.on('SIGTERM', () => void bot.stop({ drainMs: 5_000 }).then(() => process.exit()));
process.on('disconnect', () => process.exit());
await bot.start();
process.send?.({ started: true });
