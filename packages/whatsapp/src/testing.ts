// For tests of bots: the Cloud API on this machine, and what Meta delivers.
export {
  type CloudSent,
  type Delivered,
  FakeCloudApi,
  type FakeCloudApiOptions,
  type Fault,
  type Webhook,
} from './testing/FakeCloudApi.js';
export {
  bodyOf,
  buttonReply,
  type Change,
  change,
  escaped,
  signedHeaders,
  status,
  textMessage,
  wamid,
} from './testing/payloads.js';
