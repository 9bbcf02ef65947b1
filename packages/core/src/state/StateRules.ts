import { ConfigError, checkOptionNames, InvalidStateError, NewerVersionError } from '../errors.js';
import type { SchemaIssue, SchemaResult, StateShape } from './schema.js';

type Data = Record<string, unknown>;

const NAMES: { [Name in keyof Required<StateShape<object>>]: true } = { schema: true, version: true, migrate: true };

/** What the state of one scope must be, and how older state becomes it. */
export class StateRules {
  /** The version under which state is saved; 0 for none. */
  readonly version: number;
  readonly #scope: string;
  readonly #shape: StateShape<object>;

  /** @throws ConfigError naming `where` and what cannot work */
  constructor(shape: StateShape<object>, scope: string, where: string) {
    checkOptionNames(where, shape, NAMES);
    const { schema, version = 0, migrate } = shape;
    if (schema !== undefined && typeof schema?.['~standard']?.validate !== 'function') {
      throw new ConfigError(`${where}: schema is none. Pass a Standard Schema: of Zod, Valibot, ArkType or your own.`);
    }
    if (shape.version !== undefined && (!Number.isSafeInteger(version) || version < 1)) {
      throw new ConfigError(`${where}: version is ${String(version)}. Give a whole number from 1 up.`);
    }
    if (migrate !== undefined && typeof migrate !== 'function') {
      throw new ConfigError(`${where}: migrate is no function.`);
    }
    if (migrate !== undefined && version === 0) {
      throw new ConfigError(`${where}: migrate without a version. Give the version that it makes.`);
    }
    if (migrate === undefined && version > 1) {
      throw new ConfigError(
        `${where}: version is ${version}, and there is no migrate to make it of version ${version - 1}.`,
      );
    }
    this.version = version;
    this.#scope = scope;
    this.#shape = shape;
  }

  /** Whether there is nothing to do but to compare versions. */
  get isPlain(): boolean {
    return this.#shape.schema === undefined && this.version === 0;
  }

  /** What state of nobody yet is. */
  begin(): Promise<Data> {
    return this.#validate({}, 'as stored');
  }

  /**
   * Stored data as handlers see it.
   *
   * @throws NewerVersionError when a newer version saved it
   * @throws InvalidStateError when it does not fit the schema
   */
  async read(data: unknown, savedVersion: number): Promise<Data> {
    if (savedVersion > this.version) {
      throw new NewerVersionError(`stored state of ${this.#scope}`, savedVersion, this.version);
    }
    const { migrate } = this.#shape;
    const isOld = savedVersion < this.version && migrate !== undefined;
    return this.#validate(isOld ? await migrate(data, savedVersion) : data, 'as stored');
  }

  /** @throws InvalidStateError when `data` does not fit the schema, and so may not be saved */
  async check(data: unknown): Promise<void> {
    await this.#validate(data, 'as it is to be saved');
  }

  async #validate(data: unknown, when: 'as stored' | 'as it is to be saved'): Promise<Data> {
    const { schema } = this.#shape;
    if (schema === undefined) return data as Data;
    const result: SchemaResult<object> = await schema['~standard'].validate(data);
    if (result.issues === undefined) {
      if (typeof result.value === 'object' && result.value !== null) return result.value as Data;
      throw new InvalidStateError(this.#scope, when, [{ message: 'expected the schema to give an object', path: [] }]);
    }
    throw new InvalidStateError(this.#scope, when, result.issues.map(plainIssue));
  }
}

function plainIssue({ message, path = [] }: SchemaIssue): { message: string; path: PropertyKey[] } {
  return { message, path: path.map((segment) => (typeof segment === 'object' ? segment.key : segment)) };
}
