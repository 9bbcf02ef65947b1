/** A promise that knows whether anybody looked at it. Whoever makes one handles the rejection that nobody sees. */
export class Watched<T> implements Promise<T> {
  readonly [Symbol.toStringTag] = 'Watched';
  readonly #promise: Promise<T>;
  #isSeen = false;

  constructor(promise: Promise<T>) {
    this.#promise = promise;
  }

  get isSeen(): boolean {
    return this.#isSeen;
  }

  // biome-ignore lint/suspicious/noThenProperty: whoever awaits it is to be noticed
  then<A = T, B = never>(
    onValue?: ((value: T) => A | PromiseLike<A>) | null,
    onError?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#isSeen = true;
    return this.#promise.then(onValue, onError);
  }

  catch<B = never>(onError?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.then(undefined, onError);
  }

  finally(onEnd?: (() => void) | null): Promise<T> {
    this.#isSeen = true;
    return this.#promise.finally(onEnd);
  }
}
