import { dollars } from '../quoting.js';

/** A function of the schema. In texts of SQL, `@.` stands for the schema. */
export interface SqlFunction {
  /** Its name, its arguments and what it returns. */
  readonly signature: string;
  readonly body: string;
  /** Called by the package itself: then it has a search_path of its own, which holds for all that it calls. */
  readonly isStep?: boolean;
  readonly isStable?: boolean;
}

/**
 * Whatever the tables are believed to hold, rows are found by their index: plans are kept, and tables grow meanwhile. And
 * plans are kept: to make one anew for each batch, because its lists are short, takes longer than to run it.
 */
const STEP_SETTINGS = `set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set enable_material = off set jit = off`;

export function createFunction({ signature, body, isStep = false, isStable = false }: SqlFunction): string {
  const settings = isStep ? `\n  ${STEP_SETTINGS}` : '';
  return `create function ${signature} language plpgsql ${isStable ? 'stable' : 'volatile'}${settings} as ${dollars(body)};`;
}

/** `text` with the schema put in. */
export function inSchema(text: string, quotedSchema: string): string {
  return text.replace(/@\./g, () => `${quotedSchema}.`);
}
