/** Marks a text that could not be sent as it is. */
const MARK = '\u0001';
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Text for the server. It is sent as UTF-8, which has no lone surrogates: such texts, and those with the mark, are escaped. */
export function toWire(text: string): string {
  return LONE_SURROGATE.test(text) || text.startsWith(MARK) ? MARK + JSON.stringify(text) : text;
}

export function fromWire(wire: string): string {
  return wire.startsWith(MARK) ? (JSON.parse(wire.slice(1)) as string) : wire;
}
