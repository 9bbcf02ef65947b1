/** What a load found: the value, and the fence under which it was written. */
export interface StoredState {
  readonly value: unknown;
  readonly fence: number;
}

/**
 * Where the state of chats is kept between messages. Values are plain JSON data. What is loaded and what was saved share
 * nothing: changing one does not change the other.
 */
export interface StateStore {
  /**
   * The newest value saved under `key`, or null.
   *
   * @throws BadInputError when the key is not a string, as do the others
   */
  load(key: string): Promise<StoredState | null>;
  /**
   * Saves `value` if no greater fence was seen for `key`, in one atomic step. The same fence may save again.
   *
   * @throws StaleFenceError when a greater fence was seen; nothing is written
   * @throws BadInputError when the fence is no safe integer from 0 up, or the value no plain JSON data
   */
  save(key: string, value: unknown, fence: number): Promise<void>;
  /** Forgets the value and its fence, for those who clean up. The Bot never calls it. */
  delete?(key: string): Promise<void>;
}
