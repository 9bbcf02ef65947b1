/** A chat: one of the app's numbers, and who is at the other end. */
export interface ChatName {
  readonly phoneNumberId: string;
  /** A telephone number, a user's id such as `US.1349…`, or a group. */
  readonly to: string;
  readonly isGroup: boolean;
}

const GROUP = 'group:';

/**
 * The name of a chat: `<phone number id>:<who>`, `<phone number id>:group:<group>`. The same person writing to two numbers
 * of the app has two chats.
 */
export function chatName(phoneNumberId: string, to: string, { isGroup = false } = {}): string {
  return `${phoneNumberId}:${isGroup ? GROUP : ''}${to}`;
}

/** Undefined for what is no name of a chat. */
export function readChatName(chat: string): ChatName | undefined {
  const at = chat.indexOf(':');
  if (at <= 0 || at === chat.length - 1) return undefined;
  const rest = chat.slice(at + 1);
  const isGroup = rest.startsWith(GROUP) && rest.length > GROUP.length;
  return { phoneNumberId: chat.slice(0, at), to: isGroup ? rest.slice(GROUP.length) : rest, isGroup };
}

/** Whether it is a user's id, by which those are reached who show no number. */
export function isUserId(to: string): boolean {
  return /^[A-Z]{2}\..+/.test(to);
}
