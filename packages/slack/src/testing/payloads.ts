// What Slack sends, in its shape, as far as frameworks look at it.

/** Any JSON object. */
export type Payload = Record<string, unknown>;

/** How a payload is labelled in an envelope of Socket Mode, and which form it has over HTTP. */
export type PayloadType = 'events_api' | 'slash_commands' | 'interactive';

export const TEAM = 'T00FAKE';
export const APP = 'A00FAKE';
export const BOT_USER = 'U00FAKEBOT';
export const BOT = 'B00FAKEBOT';
const DEFAULT_USER = 'U00FAKEUSER';
const VERIFICATION_TOKEN = 'verification-token';

/** A message that a user writes. */
export interface MessageOf {
  readonly channel: string;
  readonly text: string;
  readonly user?: string;
  /** The thread it is in: the `ts` of its first message. */
  readonly threadTs?: string;
  /** Default: what the channel's first letter says. */
  readonly channelType?: 'im' | 'mpim' | 'channel' | 'group';
  /** `app_mention` where the bot is spoken to by name. Default `message`. */
  readonly type?: 'message' | 'app_mention';
}

export interface CommandOf {
  readonly command: string;
  readonly channel: string;
  readonly text?: string;
  readonly user?: string;
}

export interface ActionOf {
  readonly actionId: string;
  readonly channel: string;
  readonly value?: string;
  readonly user?: string;
  /** The message that has the button. */
  readonly messageTs?: string;
}

export interface ViewOf {
  readonly callbackId: string;
  readonly user?: string;
  /** `view.state.values`. */
  readonly values?: Payload;
  readonly privateMetadata?: string;
}

/** What differs from payload to payload, so that no two are alike. */
export interface Marks {
  readonly ts: string;
  readonly eventId: string;
  readonly clientMsgId: string;
  readonly triggerId: string;
  /** Where answers may be posted. */
  readonly responseUrl: string;
}

export function eventOf(message: MessageOf, { ts, clientMsgId }: Marks): Payload {
  const { channel, text, user = DEFAULT_USER, threadTs, type = 'message' } = message;
  return {
    type,
    user,
    ts,
    client_msg_id: clientMsgId,
    text,
    team: TEAM,
    channel,
    event_ts: ts,
    ...(type === 'message' ? { channel_type: message.channelType ?? channelTypeOf(channel) } : {}),
    ...(threadTs === undefined ? {} : { thread_ts: threadTs }),
  };
}

/** The wrapper that Slack puts around each event. */
export function callbackOf(event: Payload, { eventId, ts }: Pick<Marks, 'eventId' | 'ts'>): Payload {
  return {
    token: VERIFICATION_TOKEN,
    team_id: TEAM,
    api_app_id: APP,
    event,
    type: 'event_callback',
    event_id: eventId,
    event_time: Math.floor(Number(ts)),
    authorizations: [
      { enterprise_id: null, team_id: TEAM, user_id: BOT_USER, is_bot: true, is_enterprise_install: false },
    ],
    is_ext_shared_channel: false,
  };
}

export function commandOf({ command, channel, text = '', user = DEFAULT_USER }: CommandOf, marks: Marks): Payload {
  return {
    token: VERIFICATION_TOKEN,
    team_id: TEAM,
    team_domain: 'fake',
    channel_id: channel,
    channel_name: 'fake',
    user_id: user,
    user_name: 'someone',
    command,
    text,
    api_app_id: APP,
    is_enterprise_install: 'false',
    response_url: marks.responseUrl,
    trigger_id: marks.triggerId,
  };
}

export function actionOf(action: ActionOf, marks: Marks): Payload {
  const { actionId, channel, value = '', messageTs = marks.ts } = action;
  return {
    ...interactionOf('block_actions', action.user, marks),
    container: { type: 'message', message_ts: messageTs, channel_id: channel, is_ephemeral: false },
    channel: { id: channel, name: 'fake' },
    message: { type: 'message', user: BOT_USER, bot_id: BOT, ts: messageTs, text: '' },
    response_url: marks.responseUrl,
    actions: [{ type: 'button', action_id: actionId, block_id: 'block', value, action_ts: marks.ts }],
  };
}

/** A menu that asks what it may offer. */
export function optionsOf({ actionId, channel, value = '', user }: ActionOf, marks: Marks): Payload {
  return {
    ...interactionOf('block_suggestion', user, marks),
    channel: { id: channel, name: 'fake' },
    action_id: actionId,
    block_id: 'block',
    value,
  };
}

export function viewOf({ callbackId, user, values = {}, privateMetadata = '' }: ViewOf, marks: Marks): Payload {
  const view = {
    id: `V${marks.eventId}`,
    type: 'modal',
    callback_id: callbackId,
    private_metadata: privateMetadata,
    state: { values },
    hash: marks.ts,
  };
  return { ...interactionOf('view_submission', user, marks), view, response_urls: [] };
}

function interactionOf(type: string, user = DEFAULT_USER, marks: Marks): Payload {
  return {
    type,
    token: VERIFICATION_TOKEN,
    team: { id: TEAM, domain: 'fake' },
    user: { id: user, username: 'someone', name: 'someone', team_id: TEAM },
    api_app_id: APP,
    enterprise: null,
    is_enterprise_install: false,
    trigger_id: marks.triggerId,
  };
}

/** A field as a text; empty where it is missing. Forms have texts where JSON has numbers. */
export function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function channelTypeOf(channel: string): string {
  if (channel.startsWith('D')) return 'im';
  return channel.startsWith('G') ? 'group' : 'channel';
}
