
// The engine: WebAssembly in a worker, so that a long run does not freeze the page, and can be
// ended. This function runs in the worker, and knows nothing of the page.
function engine() {
  let module, exports;
  let printed = "";
  const NOT_SUPPORTED = 52;
  const view = () => new DataView(exports.memory.buffer);
  const bytes = (at, length) => new Uint8Array(exports.memory.buffer, at >>> 0, length >>> 0);
  const none = (count, size) => {
    view().setUint32(count, 0, true);
    view().setUint32(size, 0, true);
    return 0;
  };
  const answered = {
    args_sizes_get: none,
    args_get: () => 0,
    environ_sizes_get: none,
    environ_get: () => 0,
    clock_time_get(clock, precision, at) {
      const ms = clock === 0 ? Date.now() : performance.now();
      view().setBigUint64(at, BigInt(Math.round(ms * 1e6)), true);
      return 0;
    },
    random_get(at, length) {
      // One call gives at most 65,536 bytes.
      for (let done = 0; done < length; done += 65536) {
        crypto.getRandomValues(bytes(at + done, Math.min(65536, length - done)));
      }
      return 0;
    },
    fd_write(file, vectors, count, written) {
      let total = 0;
      for (let index = 0; index < count; index += 1) {
        const [at, length] = [0, 4].map((offset) => view().getUint32(vectors + 8 * index + offset, true));
        printed += new TextDecoder().decode(bytes(at, length));
        total += length;
      }
      view().setUint32(written, total, true);
      return 0;
    },
    proc_exit(code) {
      throw new Error("the engine has ended with " + code);
    },
  };
  const imports = { wasi_snapshot_preview1: new Proxy(answered, { get: (all, name) => all[name] ?? (() => NOT_SUPPORTED) }) };

  async function start() {
    exports = (await WebAssembly.instantiate(module, imports)).exports;
    exports._initialize?.();
  }
  function answer(request) {
    const asked = new TextEncoder().encode(request);
    const at = exports.allocate(asked.length);
    bytes(at, asked.length).set(asked);
    const place = BigInt.asUintN(64, exports.answer(at, asked.length));
    const [address, length] = [Number(place >> 32n), Number(place & 0xffffffffn)];
    const reply = new TextDecoder().decode(bytes(address, length));
    exports.release(address, length);
    exports.release(at, asked.length);
    return reply;
  }
  return async function receive(message) {
    printed = "";
    try {
      if (message.module) {
        module = await WebAssembly.compile(message.module);
        return {};
      }
      if (!exports) await start();
      return { reply: answer(message.request) };
    } catch (error) {
      // What a trap leaves behind is not used again.
      exports = undefined;
      console.error(printed || error);
      const lines = printed.trim().split("\n").filter((line) => !line.startsWith("note: "));
      return { failure: lines.join(" ") || String(error?.message ?? error) };
    }
  };
}

// Requests to the engine, one at a time. Of several that wait, the last of each kind remains; one
// that has been replaced resolves to nothing.
class Engine {
  #module;
  #worker;
  #waiting = new Map();
  #running;
  #address;
  #idle;

  // `idle` is called when nothing is left to do.
  constructor(module, idle) {
    this.#module = module;
    this.#idle = idle;
    const code = "const receive = (" + engine + ")();\n" +
      "onmessage = async (event) => postMessage(await receive(event.data));";
    const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    const policy = globalThis.trustedTypes?.createPolicy("diana", { createScriptURL: (text) => text });
    this.#address = policy ? policy.createScriptURL(address) : address;
    this.#start();
  }

  #start() {
    this.#worker = new Worker(this.#address);
    this.#running = undefined;
    this.#worker.onmessage = ({ data }) => this.#finish(data);
    this.#worker.onerror = (event) => this.#finish({ failure: event.message || "the browser starts no worker" });
    this.#post({ kind: "", message: { module: this.#module }, patience: 30000, resolve() {} });
  }
  #post(job) {
    this.#running = job;
    job.since = performance.now();
    job.timer = setTimeout(() => this.#end({ failure: "stopped after " + job.patience / 1000 + " s" }), job.patience);
    this.#worker.postMessage(job.message);
  }
  #finish(outcome) {
    const job = this.#running;
    if (!job) return;
    clearTimeout(job.timer);
    this.#running = undefined;
    // A module that does not compile answers no later request.
    if (job.kind === "" && outcome.failure) show(outcome.failure);
    if (job.isReplaced) job.resolve();
    else if (outcome.failure !== undefined) job.resolve({ error: outcome.failure });
    else job.resolve(outcome.reply && JSON.parse(outcome.reply));
    this.#next();
  }
  #next() {
    const first = this.#waiting.entries().next().value;
    if (this.#running) return;
    if (!first) {
      this.#idle();
      return;
    }
    this.#waiting.delete(first[0]);
    this.#post(first[1]);
  }
  // Ends what runs, and the worker with it.
  #end(outcome) {
    const job = this.#running;
    clearTimeout(job.timer);
    this.#worker.terminate();
    this.#start();
    job.resolve(outcome && { error: outcome.failure });
  }

  // The reply to a request, `{error}`, or nothing if a later request of its kind has replaced it.
  ask(kind, request, patience = 10000) {
    document.body.dataset.busy = "true";
    this.forget(kind);
    return new Promise((resolve) => {
      const text = JSON.stringify({ [kind]: request });
      this.#waiting.set(kind, { kind, message: { request: text }, patience, resolve });
      if (!this.#running) this.#next();
    });
  }
  // Nobody waits for a request of this kind any more, and who goes on typing not for its end.
  forget(kind) {
    this.#waiting.get(kind)?.resolve();
    this.#waiting.delete(kind);
    const job = this.#running;
    if (job?.kind !== kind) return;
    job.isReplaced = true;
    if (performance.now() - job.since > 300) this.#end();
  }
}
