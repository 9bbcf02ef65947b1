/**
 * SQL that finds the one row of a key, and its place. While a transaction is open anywhere, old versions of a row cannot be
 * cleared away, and an index leads to each of them. Read from its end, it leads to the newest first, and the limit ends it;
 * for that, the last column of the key has to look as if it could have several values.
 */
export function newest(table: string, first: string, last: string, value: string): string {
  return `(select *, ctid as at from @.${table} where ${first} and ${last} between ${value} and ${value}
    order by ${last} desc limit 1)`;
}

/** To change the row that is found so. Its place is good for as long as nobody else may change it: under the shard's lock. */
export function atNewest(table: string, first: string, last: string, value: string): string {
  return `ctid = (select ctid from @.${table} where ${first} and ${last} between ${value} and ${value}
    order by ${last} desc limit 1)`;
}
