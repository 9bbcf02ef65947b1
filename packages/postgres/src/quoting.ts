// Names and texts inside of SQL.

/** A name, whatever it has in it. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Runs at once. */
export function block(text: string): string {
  return `do ${dollars(`begin\n${text}\nend`)};`;
}

/** Text quoted by a tag that does not come in the text. */
export function dollars(text: string): string {
  let tag = '$botmesh$';
  for (let n = 1; text.includes(tag); n++) tag = `$botmesh${n}$`;
  return `${tag}\n${text}\n${tag}`;
}

/** Needs standard_conforming_strings, which is on unless somebody goes back twenty years. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
