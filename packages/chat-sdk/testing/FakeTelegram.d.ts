export declare const SECRET = "tests-own";
/** A message that a bot sent. */
export interface Sent {
    readonly chat: string;
    readonly text: string;
    /** What follows the colon in the token of who sent it: replicas that are to be told apart have one each. */
    readonly by: string;
}
/** One server for all replicas: what they send is kept in the order of its arrival. */
export declare class FakeTelegram implements AsyncDisposable {
    #private;
    readonly sent: Sent[];
    /** Whoever began to type: the SDK does so when it gets a message. */
    readonly typed: Omit<Sent, 'text'>[];
    private constructor();
    static open(): Promise<FakeTelegram>;
    get url(): string;
    /** The texts that a chat was sent, in order. */
    texts(chat: number | string): string[];
    [Symbol.asyncDispose](): Promise<void>;
}
/** An update with a message, as Telegram tells it. */
export declare function update(id: number, chat: number, text: string, more?: object): Record<string, unknown>;
/** The request by which Telegram delivers it. */
export declare function delivery(body: unknown, secret?: string): Request;
//# sourceMappingURL=FakeTelegram.d.ts.map