// For the tests of this package: servers of their own, with every way to fail.
export { pgBouncer } from './lab/programs.js';
export { TestPooler } from './lab/TestPooler.js';
export { TestProxy, type Way } from './lab/TestProxy.js';
export { TestServer, type TestServerOptions } from './lab/TestServer.js';
export { pause, until } from './lab/until.js';
