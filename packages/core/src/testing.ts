// For tests: of bots, and of backends nobody here wrote.
export { MemoryCoordinator, type MemoryCoordinatorOptions } from './coordination/MemoryCoordinator.js';
export { MemoryStore, type Snapshot } from './coordination/MemoryStore.js';
export type { BotSubject } from './testing/bot-conformance/BotLab.js';
export { type BotTest, botConformance } from './testing/bot-conformance/suite.js';
export type {
  ConformanceMesh,
  ConformanceSubject,
  ConformanceTest,
  RollBack,
  ServerFault,
  TestReplica,
  TestReplicaOptions,
  TestServer,
} from './testing/conformance.js';
export { coordinatorConformance } from './testing/coordinator-conformance.js';
export { type Comparison, compareStores, type Difference, demandSameAnswers } from './testing/differential.js';
export { FakeProvider, type FakeProviderOptions, type SentReply } from './testing/FakeProvider.js';
export {
  checkHistory,
  type HistoryEvent,
  type HistoryOptions,
  type HistoryRule,
  type Violation,
} from './testing/history.js';
export { inboxConformance } from './testing/inbox-conformance.js';
export {
  Link,
  type LinkCounts,
  type LinkOptions,
  type RequestKind,
  type StrikeRate,
  type Way,
} from './testing/Link.js';
export { MemoryMesh, type MemoryMeshOptions, type MeshSnapshot } from './testing/MemoryMesh.js';
export { mailroomConformance } from './testing/mailroom-conformance.js';
export { type MemorySubjectOptions, memorySubject } from './testing/memory-subject.js';
export { PROMISES } from './testing/promises.js';
export {
  type Naming,
  type OpenProvider,
  type ProviderSubject,
  type ProviderTest,
  providerConformance,
  type SuiteMessage,
  type WebhookPlatform,
} from './testing/provider-conformance.js';
export { Recorder, type RecorderOptions } from './testing/Recorder.js';
export { ReplicaClock } from './testing/ReplicaClock.js';
export { Rig, type RigOptions } from './testing/Rig.js';
export { seededRandom } from './testing/random.js';
export { type OpenState, type StateSubject, type StateTest, stateConformance } from './testing/state-conformance.js';
export { type StoreSubject, type StoreTest, storeConformance } from './testing/store-conformance.js';
export { memoryStoreLab, type OpenStore, type StoreLab } from './testing/store-lab.js';
export { type StoreMeshOptions, storeMesh } from './testing/store-mesh.js';
export { VirtualClock, type VirtualClockOptions } from './testing/VirtualClock.js';
