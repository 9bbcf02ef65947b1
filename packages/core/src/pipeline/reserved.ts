/** What names of ours begin with, beside the chats: no chat may. */
export const RESERVED = 'botmesh:';

export const scheduleKey = (name: string): string => `${RESERVED}schedule:${name}`;
export const broadcastKey = (id: string): string => `${RESERVED}broadcast:${id}`;
/** In the coordinator the turn on a key of `ctx.hold`, in the state store what is kept under it. */
export const holdKey = (key: string): string => `${RESERVED}hold:${key}`;
/** Who shares the accounts of a name: in the coordinator the turn on it, in the state store what it holds. */
export const rosterKey = (name: string): string => `${RESERVED}roster:${name}`;
/** The leadership under which an account is moved. */
export const moveName = (name: string): string => `${RESERVED}move:${name}`;
