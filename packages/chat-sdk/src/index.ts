export { MeshState, type MeshStateOptions } from './MeshState.js';
export { type MeshChat, type MeshChatOptions, meshChat } from './meshChat.js';
export type { Arrived, Place, WebhookRoute } from './routes.js';
export { type TelegramRouteOptions, telegramRoute } from './telegram-route.js';
