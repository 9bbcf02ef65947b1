/**
 * Makes every use of a real clock, timer or chance by the code under test throw, so that a run can always be replayed. The
 * test runner beside it keeps its own. Call what is returned to take the wires away.
 */
export function stretchTripwires(): () => void {
  const undo = [
    ...['setTimeout', 'setInterval', 'fetch'].map((name) => trap(globalThis, name)),
    trap(Date, 'now'),
    trap(Math, 'random'),
    trap(performance, 'now'),
    trap(process, 'hrtime'),
    trap(crypto, 'randomUUID'),
    trap(crypto, 'getRandomValues'),
    trap(AbortSignal, 'timeout'),
  ];
  return () => {
    for (const restore of undo) restore();
  };
}

const UNDER_TEST = /packages\/core\/|@botmesh\/core\/|tests\/(?:dist\/)?simulation\//;

function trap(owner: object, name: string): () => void {
  const former = Object.getOwnPropertyDescriptor(owner, name);
  const real = Reflect.get(owner, name) as (...args: unknown[]) => unknown;
  const wired = Object.assign(function (this: unknown, ...args: unknown[]): unknown {
    // The frame above this one is whoever called.
    const caller = new Error().stack?.split('\n')[2] ?? '';
    if (UNDER_TEST.test(caller)) throw new Error(`${name} was used inside a simulation, ${caller.trim()}`);
    return Reflect.apply(real, this, args);
  }, real);
  Object.defineProperty(owner, name, { configurable: true, writable: true, value: wired });
  return () => {
    if (former === undefined) Reflect.deleteProperty(owner, name);
    else Object.defineProperty(owner, name, former);
  };
}
