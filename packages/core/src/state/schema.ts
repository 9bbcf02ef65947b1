/**
 * What validators have in common: the interface of https://standardschema.dev, as far as it is used. Zod, Valibot, ArkType
 * and others implement it.
 */
export interface StandardSchema<Output> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What state of one scope looks like. */
export interface StateShape<T extends object> {
  /**
   * What state must be: looked at when it is read, before any handler runs, and before it is saved. What the schema gives
   * is what handlers see, so it may fill in what is missing; it must take what it gave, as plain JSON data. A new chat begins
   * with what the schema makes of `{}`.
   */
  schema?: StandardSchema<T>;
  /** The version of this shape, from 1 up, kept along with the state. Raise it when `migrate` has something new to do. */
  version?: number;
  /**
   * Makes state of this version of older state, which was saved under `fromVersion`; 0 where none was kept. Runs at each
   * load until the state is saved again, and may run twice: no side effects.
   */
  migrate?: (old: unknown, fromVersion: number) => unknown;
}
