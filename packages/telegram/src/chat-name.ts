/** Where a chat is at Telegram. */
export interface ChatPlace {
  /** A number, or the `@name` of a public channel. */
  readonly id: number | string;
  /** The topic of a forum, its `message_thread_id`. */
  readonly topic?: number | undefined;
  /** The business account through which the bot writes, its `business_connection_id`. */
  readonly business?: string | undefined;
}

const SHAPE = /^(?:business:(?<business>[^:/]+):)?(?<id>-?\d+|@\w+)(?:\/(?<topic>\d+))?$/;

/** The name of a chat, as `ctx.message.chat` has it: `-100123`, `-100123/4` for a topic, `business:<connection>:123`. */
export function chatName({ id, topic, business }: ChatPlace): string {
  return `${business === undefined ? '' : `business:${business}:`}${id}${topic === undefined ? '' : `/${topic}`}`;
}

/** Undefined for what is no chat that can be written to. */
export function readChatName(chat: string): ChatPlace | undefined {
  const { id, topic, business } = SHAPE.exec(chat)?.groups ?? {};
  if (id === undefined) return undefined;
  return { id: id.startsWith('@') ? id : Number(id), topic: topic === undefined ? undefined : Number(topic), business };
}
