/** An answer of the Bot API that is none of success. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly parameters: Readonly<Record<string, number>> | undefined;

  constructor(status: number, description: string, parameters?: Readonly<Record<string, number>>) {
    super(description);
    this.status = status;
    this.parameters = parameters;
  }

  get body(): object {
    return {
      ok: false,
      error_code: this.status,
      description: this.message,
      ...(this.parameters === undefined ? {} : { parameters: this.parameters }),
    };
  }
}

export const conflict = (why: string): ApiError => new ApiError(409, `Conflict: ${why}`);
export const badRequest = (why: string): ApiError => new ApiError(400, `Bad Request: ${why}`);
