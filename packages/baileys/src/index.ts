export { type AuthOptions, type AuthState, useBotmeshAuthState } from './auth-state.js';
export { type BaileysBot, baileys } from './baileys.js';
export type { BaileysEvent, BaileysOptions, WaContext } from './options.js';
export type { WaMessage, WaSocket } from './socket.js';
