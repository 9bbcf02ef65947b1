/** The host's monotonic clock, which all of its processes share. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
