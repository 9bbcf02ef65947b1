/** The steps that make the tables and functions of the mesh. */
export function migrations(_schema: string): readonly { version: number; sql: string }[] {
  return [{ version: 1, sql: '' }];
}
