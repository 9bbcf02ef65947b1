import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { idOf, keysOf, kindOf, nameOf } from './arrival.js';
import type { Body } from './bolt.js';

const event = (inner: object, wrapper: object = {}): Body => ({
  event: inner,
  event_id: 'Ev1',
  team_id: 'T1',
  ...wrapper,
});
const message = (more: object = {}): Body =>
  event({ type: 'message', channel: 'C1', channel_type: 'channel', user: 'U1', ts: '1.1', event_ts: '1.1', ...more });

describe('the chat of an event', () => {
  test.each<[string, Body, string, string]>([
    ['a message in a channel begins a thread', message(), 'C1:1.1', 'C1'],
    ['an answer in that thread', message({ ts: '2.2', thread_ts: '1.1' }), 'C1:1.1', 'C1'],
    ['a direct message', message({ channel: 'D1', channel_type: 'im' }), 'D1', 'D1'],
    ['a message to a few', message({ channel: 'G1', channel_type: 'mpim' }), 'G1', 'G1'],
    ['a thread in direct messages', message({ channel: 'D1', thread_ts: '1.0' }), 'D1:1.0', 'D1'],
    ['a mention', event({ type: 'app_mention', channel: 'C1', ts: '1.1', event_ts: '1.1' }), 'C1:1.1', 'C1'],
    [
      'an edited message',
      message({ subtype: 'message_changed', ts: '9.9', message: { ts: '1.1', text: 'new' } }),
      'C1:1.1',
      'C1',
    ],
    [
      'a deleted answer',
      message({ subtype: 'message_deleted', ts: '9.9', previous_message: { ts: '2.2', thread_ts: '1.1' } }),
      'C1:1.1',
      'C1',
    ],
    [
      'a reaction',
      event({ type: 'reaction_added', user: 'U1', item: { type: 'message', channel: 'C1', ts: '1.1' } }),
      'C1:1.1',
      'C1',
    ],
    ['a member who joined', event({ type: 'member_joined_channel', user: 'U1', channel: 'C1' }), 'C1', 'C1'],
    ['a new channel', event({ type: 'channel_created', channel: { id: 'C1' } }), 'C1', 'C1'],
    [
      'a thread of the assistant',
      event({ type: 'assistant_thread_started', assistant_thread: { channel_id: 'D1', thread_ts: '1.1' } }),
      'D1:1.1',
      'D1',
    ],
    ['a command', { command: '/go', channel_id: 'C1', user_id: 'U1' }, 'C1', 'C1'],
    [
      'a button in a thread',
      {
        type: 'block_actions',
        actions: [{}],
        channel: { id: 'C1' },
        message: { ts: '2.2', thread_ts: '1.1' },
        container: { message_ts: '2.2', thread_ts: '1.1' },
      },
      'C1:1.1',
      'C1',
    ],
    ['a view', { type: 'view_submission', view: {}, user: { id: 'U1' } }, 'user:U1', 'user:U1'],
    ['a new colleague', event({ type: 'team_join', user: { id: 'U2' } }), 'user:U2', 'user:U2'],
    ['the workspace', event({ type: 'team_rename' }), 'team:T1', 'team:T1'],
    ['nothing that is known', { type: 'unheard_of' }, 'team:unknown', 'team:unknown'],
  ])('%s', (_what, body, byThread, byChannel) => {
    expect(keysOf(body, 'thread')).toBe(byThread);
    expect(keysOf(body, 'channel')).toBe(byChannel);
  });

  test('is what a function says, if there is one', () => {
    expect(keysOf(message(), (body) => [`team:${String(body.team_id)}`, 'all'])).toEqual(['team:T1', 'all']);
  });
});

describe('the id of an event', () => {
  test('of a message is its place and time, whatever is around it', () => {
    const again = { ...message(), event_id: 'Ev2', event_time: 7 };

    expect(idOf(again)).toBe(idOf(message()));
    expect(idOf(message({ ts: '1.2', event_ts: '1.2' }))).not.toBe(idOf(message()));
    expect(idOf(message({ channel: 'C2' }))).not.toBe(idOf(message()));
    expect(idOf(message({ subtype: 'message_changed' }))).not.toBe(idOf(message()));
    expect(idOf(message({ type: 'app_mention' }))).not.toBe(idOf(message()));
  });

  test('of other events is what Slack calls them, else their contents', () => {
    expect(idOf(event({ type: 'team_join' }))).toBe('Ev1');
    expect(idOf(event({ type: 'team_join' }, { event_id: undefined }))).toBe(
      idOf(event({ type: 'team_join' }, { event_id: undefined, event_time: 9 })),
    );
  });

  test('of what a user does is its trigger', () => {
    expect(idOf({ command: '/go', trigger_id: 'x' })).toBe('command:x');
    expect(idOf({ type: 'view_closed', view: { id: 'V1' } })).toBe('view:view_closed:V1');
    expect(idOf({ type: 'unheard_of' })).not.toBe(idOf({ type: 'unheard_of' }));
  });
});

describe('recorded payloads', () => {
  const folder = new URL('../../slack/testing/fixtures/', import.meta.url);
  const files = readdirSync(folder).filter((file) => file.endsWith('.json'));
  const bodies = files.flatMap((file) => bodiesIn(read(new URL(file, folder))));

  test('each has a kind, a name, a chat and an id that stays', () => {
    expect(bodies.length).toBeGreaterThan(20);
    for (const body of bodies) {
      expect(kindOf(body)).not.toBe('unknown');
      expect(nameOf(body)).not.toBe('unknown');
      expect(keysOf(body, 'thread')).toMatch(/^([CDG]\w+(:\d+\.\d+)?|user:\w+)$/);
      expect(idOf(body)).toBe(idOf(structuredClone(body)));
    }
  });
});

function read(path: URL): unknown {
  return JSON.parse(readFileSync(path, 'utf8')) as unknown;
}

/** Everything in a recording that Slack would have posted as a body, however deep it lies. */
function bodiesIn(value: unknown): Body[] {
  if (typeof value !== 'object' || value === null) return [];
  const body = value as Body;
  const isBody = body.type === 'event_callback' || body.command !== undefined || body.trigger_id !== undefined;
  return isBody ? [body] : Object.values(value).flatMap(bodiesIn);
}
