// What the examples take from Baileys, to the FakeWhatsApp at FAKE_WHATSAPP_PORT.
import { makeFakeSocket } from './fake-socket.mjs';

export default function makeWASocket({ auth }) {
  return makeFakeSocket({ port: Number(process.env.FAKE_WHATSAPP_PORT), account: 'main', auth, by: `${process.pid}` });
}

export const DisconnectReason = { loggedOut: 401 };
export const initAuthCreds = () => ({});
export const proto = { Message: { AppStateSyncKeyData: { fromObject: (value) => value } } };

export async function useMultiFileAuthState() {
  return { state: { creds: {}, keys: { get: async () => ({}), set: async () => {} } }, saveCreds: async () => {} };
}
