// A coordinator and a state store on the backend that the test named.

/** `reach` as in backends.ts: where it is, and of which kind. */
export async function openBackend({ kind, ...where }, options) {
  const name = { redis: 'Redis', sqlite: 'Sqlite', postgres: 'Postgres' }[kind];
  const library = await import(`@botmesh/${kind}`);
  const coordinator = new library[`${name}Coordinator`]({ ...options, ...where });
  return { coordinator, store: new library[`${name}StateStore`](where) };
}
