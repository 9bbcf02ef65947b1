import type { Mailroom, MailTurn } from '../coordination/types.js';
import { decode, type Message } from './envelope.js';
import { type OverlapMode, type Rules, ruleOf } from './overlap.js';

const MOST = 255;

/** A message that waits behind the turn of its chat, on whichever replica. */
export interface Behind {
  readonly seq: number;
  readonly message: Message;
  readonly mode: OverlapMode;
}

/** What waits behind `turn`, in order, up to the first that this version cannot read: that one is left to its own turn. */
export async function lookBehind(mail: Mailroom, turn: MailTurn, rules: Rules): Promise<Behind[]> {
  const behind: Behind[] = [];
  for (const { seq, body } of await mail.waiting(turn, MOST)) {
    const message = readable(body);
    if (message === undefined) break;
    behind.push({ seq, message, mode: ruleOf(rules, message).mode });
  }
  return behind;
}

export function modesOf(behind: readonly Behind[]): OverlapMode[] {
  return behind.map(({ mode }) => mode);
}

function readable(body: string): Message | undefined {
  try {
    return decode(body);
  } catch {
    return undefined;
  }
}
