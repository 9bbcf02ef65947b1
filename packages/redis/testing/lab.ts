// For the tests of this package: real servers, what connects them, and what can happen to them.
export { type Certificates, makeCertificates } from './lab/certificates.js';
export { Hosts, whyNoHosts } from './lab/Hosts.js';
export { MovingClock, whyNoMovingClock } from './lab/moving-clock.js';
export { anyProgram, type Program, programNamed, serverPrograms } from './lab/programs.js';
export { SENTINEL_GROUP, SentinelSet, type SentinelSetOptions } from './lab/SentinelSet.js';
export { ServerCluster, type ServerClusterOptions } from './lab/ServerCluster.js';
export { SplitSet, type SplitSetOptions } from './lab/SplitSet.js';
export { TestProxy, type Way } from './lab/TestProxy.js';
export { type SavedData, TestServer, type TestServerOptions } from './lab/TestServer.js';
export { pause, until } from './lab/until.js';

/** Whether to run all that there is, and not only what every change pays for. */
export const isLong = process.env.BOTMESH_LONG !== undefined;
