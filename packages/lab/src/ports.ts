import { createServer } from 'node:net';

/** Below the range that the kernel gives to outgoing connections, so that a server can come back to its port. */
const FIRST = 12_000;
const LAST = 31_000;
/** A Cluster node listens on its port plus this as well. */
export const BUS_OFFSET = 1000;

const given = new Set<number>();

/** A loopback port that nobody listens on now, nor `BUS_OFFSET` above it. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 200; tries++) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (given.has(port) || given.has(port + BUS_OFFSET) || given.has(port - BUS_OFFSET)) continue;
    if (!(await isFree(port)) || !(await isFree(port + BUS_OFFSET))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`No free port from ${FIRST} to ${LAST}.`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
