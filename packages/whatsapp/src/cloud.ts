// What Meta sends, as far as this package reads it. Other members may be there, and stay in `raw`.

export interface CloudMedia {
  readonly id: string;
  readonly mime_type?: string;
  /** Base64. */
  readonly sha256?: string;
  readonly caption?: string;
  readonly filename?: string;
  /** Of audio that was recorded. */
  readonly voice?: boolean;
  /** Of stickers. */
  readonly animated?: boolean;
}

export interface CloudLocation {
  readonly latitude: number;
  readonly longitude: number;
  readonly name?: string;
  readonly address?: string;
  readonly url?: string;
}

export interface CloudContact {
  readonly name?: { readonly formatted_name?: string; readonly first_name?: string; readonly last_name?: string };
  readonly phones?: readonly { readonly phone?: string; readonly wa_id?: string; readonly type?: string }[];
}

export interface CloudOrder {
  readonly catalog_id?: string;
  readonly text?: string;
  readonly product_items?: readonly {
    readonly product_retailer_id?: string;
    readonly quantity?: number;
    readonly item_price?: number;
    readonly currency?: string;
  }[];
}

export type CloudInteractive =
  | { readonly type: 'button_reply'; readonly button_reply: { readonly id: string; readonly title?: string } }
  | {
      readonly type: 'list_reply';
      readonly list_reply: { readonly id: string; readonly title?: string; readonly description?: string };
    }
  | {
      readonly type: 'nfm_reply';
      readonly nfm_reply: { readonly name?: string; readonly body?: string; readonly response_json?: string };
    };

/** What every message has. */
interface Common {
  readonly id: string;
  /** The number of who wrote it. Missing when they show a user name only. */
  readonly from?: string;
  /** Who wrote it, whether they show their number or not: `US.1349…`. */
  readonly from_user_id?: string;
  readonly group_id?: string;
  /** Seconds since 1970, as a text. */
  readonly timestamp?: string;
  /** What it answers, or how often it was forwarded. */
  readonly context?: {
    readonly id?: string;
    readonly from?: string;
    readonly forwarded?: boolean;
    readonly frequently_forwarded?: boolean;
  };
  /** The advertisement it came from. */
  readonly referral?: Readonly<Record<string, unknown>>;
  readonly errors?: readonly CloudError[];
}

type Content =
  | { readonly type: 'text'; readonly text: { readonly body: string } }
  | { readonly type: 'image'; readonly image: CloudMedia }
  | { readonly type: 'video'; readonly video: CloudMedia }
  | { readonly type: 'audio'; readonly audio: CloudMedia }
  | { readonly type: 'document'; readonly document: CloudMedia }
  | { readonly type: 'sticker'; readonly sticker: CloudMedia }
  | { readonly type: 'location'; readonly location: CloudLocation }
  | { readonly type: 'contacts'; readonly contacts: readonly CloudContact[] }
  | { readonly type: 'order'; readonly order: CloudOrder };

/** A message of a kind that this package knows, by its `type`. */
export type CloudMessage = Common &
  (
    | Content
    | { readonly type: 'interactive'; readonly interactive: CloudInteractive }
    | { readonly type: 'button'; readonly button: { readonly payload?: string; readonly text?: string } }
    | { readonly type: 'reaction'; readonly reaction: { readonly message_id: string; readonly emoji?: string } }
    | { readonly type: 'edit'; readonly edit: { readonly original_message_id: string; readonly message: Content } }
    | { readonly type: 'revoke'; readonly revoke: { readonly original_message_id: string } }
    | { readonly type: 'system'; readonly system: CloudSystem }
  );

export interface CloudSystem {
  readonly body?: string;
  /** `user_changed_number`, `customer_identity_changed`. */
  readonly type?: string;
  /** The new number. */
  readonly wa_id?: string;
  readonly new_wa_id?: string;
}

export interface CloudError {
  readonly code: number;
  readonly title?: string;
  readonly message?: string;
  readonly error_data?: { readonly details?: string };
}

/** What the Graph API answers when it refuses. */
export interface GraphError {
  readonly code: number;
  readonly error_subcode?: number;
  readonly message?: string;
  readonly fbtrace_id?: string;
}
