// Traces over HTTP.

import {
  RequestError,
  UnavailableError,
  type Manifest,
  type Part,
  type Slab,
  type TraceSource,
  type TraceRequest,
} from "./contract";

const KEPT = 600;

type Query = Record<string, string | number | null | undefined>;

function address(path: string, query: Query): string {
  const given = new URLSearchParams();
  for (const [key, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== "") given.set(key, String(value));
  const tail = given.toString();
  return tail ? `${path}?${tail}` : path;
}

async function checked(request: Promise<Response>): Promise<Response> {
  let response: Response;
  try {
    response = await request;
  } catch {
    throw new UnavailableError("The server does not answer. Start `clearhead explore` again, then retry.");
  }
  if (response.ok) return response;
  let body: { error?: string; field?: string | null; gone?: boolean } = {};
  try {
    body = await response.json();
  } catch {
    // A proxy may answer with something other than JSON.
  }
  // A busy or stopping server has not refused the request itself.
  if (response.status >= 500)
    throw new UnavailableError(body.error ?? `The server answered ${response.status}; it may be shutting down.`);
  throw new RequestError(body.error ?? `The server answered ${response.status}.`, body.field ?? null, body.gone ?? false);
}

function numbers(dtype: string, bytes: ArrayBuffer): Float32Array | Uint8Array {
  return dtype === "u8s" ? new Uint8Array(bytes) : new Float32Array(bytes);
}

export class HttpSource implements TraceSource {
  readonly live = true;
  readonly numbers = Infinity;
  private readonly known = new Map<string, Promise<unknown>>();
  /** The traces on the page: at most two, side by side. */
  private recent: string[] = [];

  models = () => this.get<never>("api/models", {});
  lessons = (model: string) => this.get<never>("api/lessons", { model });
  samples = (model: string) => this.get<never>("api/images", { model });
  upload = async (file: File) =>
    (
      await checked(fetch(address("api/image", { name: file.name.slice(0, 200) }), { method: "POST", body: file }))
    ).json() as Promise<never>;
  tokenize = (model: string, text: string) => this.get<never>("api/tokens", { model, text });
  positions = async (model: string, positions: number) => this.slab("api/positions", { model, positions });
  trace = async (request: TraceRequest, signal?: AbortSignal) => {
    const trace = await this.post<Manifest>("api/trace", request, signal);
    this.recent = [...this.recent.slice(-1), trace.id];
    // Responses about earlier traces are dropped.
    for (const url of this.known.keys())
      if (url.startsWith("api/trace/") && !this.recent.includes(url.split("/")[2])) this.known.delete(url);
    return trace;
  };
  whole = async (trace: Manifest, signal?: AbortSignal) =>
    (await checked(fetch(`api/trace/${trace.id}`, { signal }))).json() as Promise<Manifest>;
  tensor = (trace: Manifest, name: string, part: Part) =>
    this.slab(`api/trace/${trace.id}/t/${encodeURIComponent(name)}`, { dtype: "f32", ...part });
  projection = (trace: Manifest, query: Query) => this.part<never>(trace, "projection", query);
  attentionOutput = (trace: Manifest, query: Query) => this.part<never>(trace, "attention_output", query);
  feedforward = (trace: Manifest, query: Query) => this.part<never>(trace, "feedforward", query);
  units = (trace: Manifest, query: Query) => this.slab(`api/trace/${trace.id}/units`, query);
  readout = (trace: Manifest, query: Query) => this.part<never>(trace, "readout", query);
  summaries = (trace: Manifest) => this.part<never>(trace, "summaries", {});
  logits = (trace: Manifest, query: Query) => this.part<never>(trace, "logits", query);
  lens = (trace: Manifest) => this.part<never>(trace, "lens", { top: 3 });
  gradients = (trace: Manifest) => this.part<never>(trace, "gradients", {});
  relevance = (trace: Manifest) => this.part<never>(trace, "relevance", {});
  filters = (trace: Manifest) => this.part<never>(trace, "filters", {});
  contributions = (trace: Manifest) => this.part<never>(trace, "contributions", {});
  beam = (trace: Manifest) => this.part<never>(trace, "beam", {});
  step = (request: TraceRequest & { generated: number[] }) => this.post<never>("api/step", request);
  neighbours = (model: string, word: string, count: number) => this.get<never>("api/neighbours", { model, word, count });
  contexts = (model: string, word: string, texts: string[]) => this.post<never>("api/contexts", { model, word, texts });

  private part<T>(trace: Manifest, name: string, query: Query): Promise<T> {
    return this.get<T>(`api/trace/${trace.id}/${name}`, query);
  }

  private get<T>(path: string, query: Query): Promise<T> {
    const url = address(path, query);
    return this.once(url, async () => (await checked(fetch(url))).json() as Promise<T>);
  }

  private slab(path: string, query: Query): Promise<Slab & { kind: string }> {
    const url = address(path, query);
    return this.once(url, async () => {
      const response = await checked(fetch(url));
      const shape = (response.headers.get("X-Shape") ?? "").split(",").filter(Boolean).map(Number);
      const values = numbers(response.headers.get("X-Dtype") ?? "f32", await response.arrayBuffer());
      return { shape, values, kind: response.headers.get("X-Kind") ?? "" };
    });
  }

  private async post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
    const headers = { "Content-Type": "application/json" };
    return (await checked(fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal }))).json() as Promise<T>;
  }

  /** Responses are cached by URL; the oldest are dropped first, failures at once. */
  private once<T>(url: string, send: () => Promise<T>): Promise<T> {
    const known = this.known.get(url) as Promise<T> | undefined;
    if (known) return known;
    const fresh = send();
    this.known.set(url, fresh);
    fresh.catch(() => this.known.delete(url));
    if (this.known.size > KEPT) this.known.delete(this.known.keys().next().value!);
    return fresh;
  }
}
