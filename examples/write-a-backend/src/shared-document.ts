/**
 * One text that several processes share: whoever read its newest version may put the next one in its place, and only one
 * of them can. All that a backend must bring.
 */
export interface SharedDocument {
  /** The newest version. Rejects when the place cannot be reached; does not wait for it. */
  read(): Promise<Version>;
  /**
   * Puts `text` in the place of version `number`. False when something newer is there, or when it cannot be known who
   * came first: then read again.
   */
  replace(number: number, text: string): Promise<boolean>;
  /** Brings a hint to the listener of that name, in whatever process. It may get lost. */
  send(name: string, hint: string): Promise<void>;
  /** Hears hints until the returned function is called. */
  listen(name: string, listener: (hint: string) => void): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

export interface Version {
  /** Grows by one each time. 0 when there is no text yet. */
  readonly number: number;
  readonly text: string | null;
  /** What the place calls itself: another name whenever it may have lost what was written. */
  readonly home: string;
}
