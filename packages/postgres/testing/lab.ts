// For the tests of this package: servers of their own, with every way to fail.
export { MovingClock, whyNoMovingClock } from './lab/moving-clock.js';
export { pgBouncer } from './lab/programs.js';
export { TestPooler } from './lab/TestPooler.js';
export { TestProxy, type Way } from './lab/TestProxy.js';
export { TestServer, type TestServerOptions } from './lab/TestServer.js';
export { pause, until } from './lab/until.js';

/** Whether to run all that there is, and not only what every change pays for. */
export const isLong = process.env.BOTMESH_LONG !== undefined;
