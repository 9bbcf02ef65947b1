import { baileys } from '@botmesh/baileys';
import { RedisCoordinator, RedisStateStore } from '@botmesh/redis';
import makeWASocket, { initAuthCreds, proto } from '@whiskeysockets/baileys';

const url = process.env.REDIS_URL;
const bot = baileys({
  coordinator: new RedisCoordinator({ url }),
  store: new RedisStateStore({ url }),
  accounts: ['main'],
  connect: ({ auth }) => makeWASocket({ auth }),
  initAuthCreds,
  revive: (type, value) =>
    type === 'app-state-sync-key' ? proto.Message.AppStateSyncKeyData.fromObject(value) : value,
  onMessage: (message, wa) => wa.send({ text: `You wrote: ${message.message?.conversation}` }),
  onEvent: (event) => console.log(event.kind),
});

await bot.start();
process.on('SIGTERM', () => void bot.stop().then(() => process.exit()));
