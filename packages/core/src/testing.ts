// For tests: of bots, and of backends nobody here wrote.
export { MemoryCoordinator, type MemoryCoordinatorOptions } from './coordination/MemoryCoordinator.js';
export { MemoryStore, type Snapshot } from './coordination/MemoryStore.js';
export { FakeProvider, type FakeProviderOptions, type SentReply } from './testing/FakeProvider.js';
export { MemoryMesh, type MemoryMeshOptions, type MeshSnapshot } from './testing/MemoryMesh.js';
