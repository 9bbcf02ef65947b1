// For whoever runs a Bolt app.

export type { Keying } from './arrival.js';
export type { Body, BoltApp, BoltEvent } from './bolt.js';
export { type MeshOptions, mesh } from './mesh.js';
export type { TurnOfEvent } from './turn.js';
