
// Links: a text that says what is on the page, compressed. Whoever opens one may have got it from
// anybody, so everything in it is checked.
const LARGEST_LINK = 1 << 20;

function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
function unbase64(text) {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
}
// What comes out of a stream. A few bytes can become gigabytes.
async function collect(stream, most) {
  const parts = [];
  let length = 0;
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > most) {
      reader.cancel();
      throw new Error("more than " + whole(most / 1e6) + " MB");
    }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}
const through = (bytes, transform, most) => collect(new Blob([bytes]).stream().pipeThrough(transform), most);

async function toLink(state) {
  const plain = new TextEncoder().encode(JSON.stringify(state));
  return base64(await through(plain, new CompressionStream("deflate-raw"), LARGEST_LINK));
}
async function fromLink(text) {
  const plain = await through(unbase64(text), new DecompressionStream("deflate-raw"), LARGEST_LINK);
  const { document, mode, cases, sliders } = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(plain));
  if (![document, cases].every((part) => typeof part === "string") || !MODES.includes(mode)) throw new Error("no document");
  return { document, mode, cases, sliders: { ...EXAMPLE.sliders, ...sliders } };
}
