/** What the parent sends a replica. */
export type Order =
  | { readonly kind: 'deliver'; readonly message: Delivery }
  /** The report of this number was taken in. */
  | { readonly kind: 'taken'; readonly number: number }
  /** Stand still, by SIGSTOP. */
  | { readonly kind: 'freeze' }
  | { readonly kind: 'stop' };

export interface Delivery {
  readonly id: string;
  readonly chat: string;
  readonly text: string;
}

/** What a replica tells the parent. */
export type Report =
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed'; readonly why: string }
  /** It stood still, and goes on. */
  | { readonly kind: 'thawed' }
  /** Answers a delivery. `mayPass`: another replica, or this one later, may well take it. */
  | { readonly kind: 'accepted'; readonly id: string }
  | { readonly kind: 'refused'; readonly id: string; readonly why: string; readonly mayPass: boolean }
  | { readonly kind: 'began'; readonly id: string; readonly chat: string; readonly attempt: number }
  /** `key` is the same in every attempt: by it, an answer that comes again is known. */
  | { readonly kind: 'answer'; readonly chat: string; readonly text: string; readonly key: string }
  /** `count`: how many messages of its chat were handled, by the chat's own state. */
  | { readonly kind: 'handled'; readonly id: string; readonly chat: string; readonly count: number }
  /** The attempt ended without success. The message comes again, here or elsewhere. */
  | { readonly kind: 'broken-off'; readonly id: string; readonly chat: string }
  | { readonly kind: 'parked'; readonly id: string }
  | { readonly kind: 'notice'; readonly line: string };

/** How a report travels: numbered, so that it can be confirmed. */
export type Numbered = { readonly number: number; readonly report: Report };

/** All replicas campaign for this one leadership. */
export const LEADERSHIP = 'housekeeping';
