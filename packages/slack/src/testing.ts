// For whoever tests what talks to Slack.
export { type Delivered, FakeSlack, type FakeSlackOptions, type Said } from './testing/FakeSlack.js';
export type { ActionOf, CommandOf, MessageOf, ViewOf } from './testing/payloads.js';
export type { SocketCounts } from './testing/SocketMode.js';
export { signRequest } from './testing/sign-request.js';
export type { ApiCall, Posted } from './testing/WebApi.js';
