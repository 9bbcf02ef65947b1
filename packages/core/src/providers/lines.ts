/**
 * Splits bytes into lines of text. Bytes that are not UTF-8 become replacement characters; a line may be as long as
 * memory allows, and time grows with its length only. Ends of lines are LF and CR LF; nothing else is.
 */
export async function* lines(chunks: AsyncIterable<Uint8Array | string>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  // The pieces of a line not yet ended.
  let pieces: string[] = [];
  for await (const chunk of chunks) {
    const text = typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
    let from = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
      pieces.push(text.slice(from, end));
      yield join(pieces);
      pieces = [];
      from = end + 1;
    }
    if (from < text.length) pieces.push(text.slice(from));
  }
  pieces.push(decoder.decode());
  const rest = join(pieces);
  if (rest !== '') yield rest;
}

function join(pieces: readonly string[]): string {
  const line = pieces.length === 1 ? (pieces[0] ?? '') : pieces.join('');
  return line.endsWith('\r') ? line.slice(0, -1) : line;
}
