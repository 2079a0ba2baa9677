// Traces from a server.

import { Refusal, Silence, type Manifest, type Part, type Slab, type TraceSource, type Wish } from "./contract";

const KEPT = 600;

type Query = Record<string, string | number | null | undefined>;

function address(path: string, query: Query): string {
  const asked = new URLSearchParams();
  for (const [key, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== "") asked.set(key, String(value));
  const tail = asked.toString();
  return tail ? `${path}?${tail}` : path;
}

async function answer(request: Promise<Response>): Promise<Response> {
  let response: Response;
  try {
    response = await request;
  } catch {
    throw new Silence("The server does not answer: start `clearhead explore` again, then retry.");
  }
  if (response.ok) return response;
  let told: { error?: string; field?: string | null; gone?: boolean } = {};
  try {
    told = await response.json();
  } catch {
    // Whatever stands between page and server answered in its own words.
  }
  // A server that is busy, or is being stopped, has not refused what was asked.
  if (response.status >= 500) throw new Silence(told.error ?? `The server answered ${response.status}: it may be stopping.`);
  throw new Refusal(told.error ?? `The server answered ${response.status}.`, told.field ?? null, told.gone ?? false);
}

function numbers(dtype: string, bytes: ArrayBuffer): Float32Array | Uint8Array {
  return dtype === "u8s" ? new Uint8Array(bytes) : new Float32Array(bytes);
}

export class HttpSource implements TraceSource {
  readonly live = true;
  private readonly known = new Map<string, Promise<unknown>>();

  models = () => this.get<never>("api/models", {});
  cut = (model: string, text: string) => this.get<never>("api/tokens", { model, text });
  positions = async (model: string, places: number) => this.slab("api/positions", { model, places });
  trace = async (wish: Wish, until?: AbortSignal) => {
    const trace = await this.post<Manifest>("api/trace", wish, until);
    // Only one trace is on the page: what was asked of the one before is of no use any more.
    for (const asked of this.known.keys()) if (asked.startsWith("api/trace/")) this.known.delete(asked);
    return trace;
  };
  whole = async (trace: Manifest, signal?: AbortSignal) =>
    (await answer(fetch(`api/trace/${trace.id}`, { signal }))).json() as Promise<Manifest>;
  tensor = (trace: Manifest, name: string, part: Part) =>
    this.slab(`api/trace/${trace.id}/t/${encodeURIComponent(name)}`, { dtype: "f32", ...part });
  projection = (trace: Manifest, asked: Query) => this.part<never>(trace, "projection", asked);
  summaries = (trace: Manifest) => this.part<never>(trace, "summaries", {});
  logits = (trace: Manifest, asked: Query) => this.part<never>(trace, "logits", asked);
  lens = (trace: Manifest) => this.part<never>(trace, "lens", { top: 3 });
  contributions = (trace: Manifest) => this.part<never>(trace, "contributions", {});
  beam = (trace: Manifest) => this.part<never>(trace, "beam", {});
  step = (wish: Wish & { written: number[] }) => this.post<never>("api/step", wish);
  neighbours = (model: string, word: string, count: number) => this.get<never>("api/neighbours", { model, word, count });
  contexts = (model: string, word: string, texts: string[]) => this.post<never>("api/contexts", { model, word, texts });

  private part<T>(trace: Manifest, name: string, query: Query): Promise<T> {
    return this.get<T>(`api/trace/${trace.id}/${name}`, query);
  }

  private get<T>(path: string, query: Query): Promise<T> {
    const asked = address(path, query);
    return this.once(asked, async () => (await answer(fetch(asked))).json() as Promise<T>);
  }

  private slab(path: string, query: Query): Promise<Slab & { kind: string }> {
    const asked = address(path, query);
    return this.once(asked, async () => {
      const response = await answer(fetch(asked));
      const shape = (response.headers.get("X-Shape") ?? "").split(",").filter(Boolean).map(Number);
      const values = numbers(response.headers.get("X-Dtype") ?? "f32", await response.arrayBuffer());
      return { shape, values, kind: response.headers.get("X-Kind") ?? "" };
    });
  }

  private async post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
    const headers = { "Content-Type": "application/json" };
    return (await answer(fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal }))).json() as Promise<T>;
  }

  /** What was asked before is not asked again; the oldest answers are forgotten first, failures at once. */
  private once<T>(asked: string, ask: () => Promise<T>): Promise<T> {
    const known = this.known.get(asked) as Promise<T> | undefined;
    if (known) return known;
    const fresh = ask();
    this.known.set(asked, fresh);
    fresh.catch(() => this.known.delete(asked));
    if (this.known.size > KEPT) this.known.delete(this.known.keys().next().value!);
    return fresh;
  }
}
