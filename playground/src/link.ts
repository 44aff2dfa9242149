// A program in the fragment of an address: browsers do not send it to a server.

const PREFIX = 'code=';

/** The fragment for a program, without `#`: compressed, in the alphabet of addresses. */
export async function toFragment(text: string): Promise<string> {
  const packed = await through(new TextEncoder().encode(text), new CompressionStream('deflate-raw'));
  const letters = Array.from(packed, (byte) => String.fromCharCode(byte)).join('');
  return PREFIX + btoa(letters).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** The program in a fragment, undefined where there is none or it was cut. */
export async function fromFragment(fragment: string): Promise<string | undefined> {
  const given = fragment.replace(/^#/, '');
  if (!given.startsWith(PREFIX)) return undefined;
  try {
    const letters = atob(given.slice(PREFIX.length).replaceAll('-', '+').replaceAll('_', '/'));
    const packed = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    return new TextDecoder().decode(await through(packed, new DecompressionStream('deflate-raw')));
  } catch {
    return undefined;
  }
}

async function through(bytes: Uint8Array<ArrayBuffer>, stream: CompressionStream | DecompressionStream) {
  const read = new Response(stream.readable).arrayBuffer();
  const writer = stream.writable.getWriter();
  // An error of the stream is met where the result is read.
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  return new Uint8Array(await read);
}
