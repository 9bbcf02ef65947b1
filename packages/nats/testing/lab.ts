// For the tests of this package: real servers, and what can happen to them.

export { pause, until } from '@botmesh/lab';
export { makeCertificates, tlsConfig } from './lab/certificates.js';
export { NatsCluster } from './lab/NatsCluster.js';
export { NatsServer, type NatsServerOptions, type SavedData } from './lab/NatsServer.js';
export { anyProgram, type Program, serverPrograms } from './lab/programs.js';
export { TestProxy, type Way } from './lab/TestProxy.js';

/** Whether to run all that there is, and not only what every change pays for. */
export const isLong = process.env.BOTMESH_LONG !== undefined;
