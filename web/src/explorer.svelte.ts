// The trace on the page, and the source it comes from.

import { getContext } from "svelte";
import {
  RequestError,
  UnavailableError,
  type Attention,
  type Guide,
  type Lesson,
  type Manifest,
  type Models,
  type Part,
  type Slab,
  type Summaries,
  type TensorEntry,
  type Token,
  type TraceSource,
  type TraceRequest,
} from "./contract";
import { HttpSource } from "./http";
import { InlinedSource } from "./inlined";
import { limitBy, selection, update, type Selected } from "./selection.svelte";

export { tensorOf } from "./block";

const inlined = document.getElementById("clearhead-trace");

export const source: TraceSource = inlined ? new InlinedSource(JSON.parse(inlined.textContent!)) : new HttpSource();

class Explorer {
  models = $state.raw<Models | null>(null);
  /** The tour of the selected model. */
  guide = $state.raw<Guide | null>(null);
  trace = $state.raw<Manifest | null>(null);
  summaries = $state.raw<Summaries | null>(null);
  /** The trace that the one on the page is compared with, and the id of the latter. */
  other = $state.raw<{ of: string; trace: Manifest; summaries: Summaries | null } | null>(null);
  busy = $state(false);
  problem = $state<string | null>(null);
  /** The part of the page that the problem belongs to. */
  where = $state<"page" | "text" | "edits">("page");
  /** Whether trying again may help. */
  retryable = $state(false);
  private latest = 0;
  private answered = "";
  /** The selection behind the trace on the page. */
  private accepted: Partial<Selected> = {};
  /** Aborts what is still loading when another trace is requested; the server then stops its pass. */
  private newest = new AbortController();

  async start(): Promise<void> {
    try {
      this.models = await source.models();
      await this.prepare();
      // A link to a lesson opens it as a click would.
      await this.run(selection.text ? {} : this.lesson()?.pick);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Requests a trace of the selection, then selects `pick`; the old trace stays on the page meanwhile. */
  async run(pick: Partial<Selected> = {}): Promise<void> {
    const turn = ++this.latest;
    this.busy = true;
    this.newest.abort();
    this.newest = new AbortController();
    try {
      if (!this.models) this.models = await source.models();
      await this.prepare();
      if (await this.lacksImage()) {
        if (turn === this.latest) Object.assign(this, { trace: null, summaries: null, problem: null });
        return;
      }
      const trace = await source.trace(this.request(), this.newest.signal);
      if (turn !== this.latest) return;
      this.show(trace, pick);
    } catch (error) {
      if (turn !== this.latest) return;
      this.fail(error);
      if (this.trace && !(error instanceof UnavailableError)) await this.restore(turn);
    } finally {
      if (turn === this.latest) this.busy = false;
    }
  }

  /** Loads the tour of the selected model. */
  private async prepare(): Promise<void> {
    if (source.live && !this.seesImages()) this.guide = await source.lessons(selection.model);
  }

  /** Whether the model reads images, and there is none to start with. */
  private async lacksImage(): Promise<boolean> {
    if (!source.live || !this.seesImages() || selection.image) return false;
    return !(await source.samples(selection.model)).samples.length;
  }

  /** After a refused request: back to the trace on the page, which may have been stopped before its end. */
  private async restore(turn: number): Promise<void> {
    const { problem } = this;
    update(this.accepted);
    if (this.summaries) return;
    try {
      const trace = await source.trace(this.request(), this.newest.signal);
      if (turn !== this.latest) return;
      this.show(trace, {});
      this.problem = problem;
    } catch {
      // The first problem is the one to show.
    }
  }

  /** After a step through the history: a new trace only if the request differs, or one is running. */
  return(): void {
    if (this.busy || JSON.stringify(this.request()) !== this.answered) void this.run();
  }

  /** Shows an error about the trace on the page, unless another trace is on its way. */
  report(error: unknown): void {
    if (!this.busy) this.fail(error);
  }

  private fail(error: unknown): void {
    if (error instanceof RequestError && error.gone) {
      this.problem = "The server no longer has this trace; it is being computed again.";
      void this.run();
      return;
    }
    const message = error instanceof Error ? error.message : String(error);
    // A language model calls its text a prompt.
    const field = /^prompt 1(?=: )/.exec(message)?.[0] ?? (error instanceof RequestError ? (error.field ?? "") : "");
    // The position of the message shows which field it is about.
    const plainly = field && message.startsWith(`${field}: `) ? message.slice(field.length + 2) : message;
    this.where = /^(text|prompt 1)$/.test(field)
      ? "text"
      : this.trace && selection.door === "inspect" && /^(interventions|prefix|forced)/.test(field)
        ? "edits"
        : "page";
    this.problem = this.where === "page" ? message : plainly.charAt(0).toUpperCase() + plainly.slice(1);
    this.retryable = error instanceof UnavailableError || !(error instanceof RequestError);
  }

  /** Refuses an input before it is sent. */
  refuse(problem: string): void {
    Object.assign(this, { problem, where: "text", retryable: false });
  }

  /** The text to start with: the lesson's, or the first of the tour. */
  first(): string {
    return this.lesson()?.text ?? this.guide?.text ?? "";
  }

  /** The lesson on the page, if there is one. */
  lesson(): Lesson | undefined {
    const lessons = this.guide?.lessons ?? [];
    return selection.door === "learn" && source.live
      ? lessons[Math.max(0, Math.min(selection.lesson, lessons.length - 1))]
      : undefined;
  }

  /** The view on the page: the chosen one, or that of the lesson. */
  view(): string {
    return selection.view || this.lesson()?.view || "tokens";
  }

  /** Whether the selected model reads images. */
  seesImages(): boolean {
    const known = this.models?.models.find((one) => one.name === selection.model) ?? this.models?.models[0];
    return known?.input === "image";
  }

  request(): TraceRequest {
    const { model, to, prefix, forced, target, tokens, temperature, top_k, top_p, min_p, seed, edits } = selection;
    const given = this.seesImages()
      ? { text: "", image: selection.image || undefined }
      : { text: selection.text || this.first() };
    // A model ignores the fields of other families.
    const generating = { tokens, temperature, top_k: top_k || null, top_p, min_p, seed };
    const translating = { ...(forced.length ? { forced } : { prefix }), to: to || undefined, target: target || null };
    return {
      ...{ model: model || undefined, ...given, interventions: edits },
      ...generating,
      ...translating,
    };
  }

  /** Shows another trace beside the one on the page; the selection is then limited to both. */
  showOther(other: NonNullable<Explorer["other"]>): void {
    this.other = { ...other, trace: marked(other.trace) };
    update({});
  }

  private show(trace: Manifest, pick: Partial<Selected>): void {
    this.problem = null;
    this.summaries = null;
    this.trace = marked(trace);
    update({ model: trace.model.name, text: trace.text, image: trace.image ?? "", ...inside(trace, pick) });
    this.answered = JSON.stringify(this.request());
    this.accepted = requested();
    void this.complete(trace);
  }

  /** Loads what the first picture does not need. */
  private async complete(trace: Manifest): Promise<void> {
    const { signal } = this.newest;
    const current = () => this.trace?.id === trace.id && !signal.aborted;
    try {
      const whole = await source.whole(trace, signal);
      if (current()) this.trace = marked(whole);
      const summaries = current() ? await source.summaries(trace) : null;
      if (current()) this.summaries = summaries;
    } catch (error) {
      if (current()) this.report(error);
    }
  }
}

/** The part of the selection that determines a trace. */
function requested(): Partial<Selected> {
  const { model, text, image, to, prefix, forced, target, tokens, temperature, top_k, top_p, min_p, seed, edits } = selection;
  return { model, text, image, to, prefix, forced, target, tokens, temperature, top_k, top_p, min_p, seed, edits };
}

/** A wanted selection, limited to the layers, heads and positions that a trace has. */
export function inside(trace: Manifest, wanted: Partial<Selected> = {}): Partial<Selected> {
  const all = { ...selection, ...wanted };
  const attention: Attention | undefined = attentionOf(trace, all.attention);
  const within = (index: number, count: number) => Math.max(0, Math.min(Math.floor(index), count - 1));
  const of = (side: string) => trace.sides[side].length;
  return {
    ...wanted,
    attention: attention?.name ?? "",
    layer: within(all.layer, attention?.layers ?? Infinity),
    head: within(all.head, attention?.heads ?? 1),
    query: within(all.query, of(attention?.queries ?? outputSide(trace))),
    key: within(all.key, of(attention?.keys ?? Object.keys(trace.sides)[0])),
    position: within(all.position, of(outputSide(trace))),
  };
}

export const explorer = new Explorer();

/** The numbers of the selection that both of two compared traces have. */
limitBy((change) => {
  const { trace, other } = explorer;
  if (!trace || other?.of !== trace.id) return change;
  const both = [trace, other.trace];
  const first = inside(trace, change);
  const { layer, head, query, key, position } = inside(other.trace, first);
  const least = (size: (one: Manifest) => number | null | undefined, wanted: number) =>
    Math.min(wanted, ...both.map((one) => (size(one) ?? Infinity) - 1));
  const all = { ...selection, ...change };
  return {
    ...change,
    ...{ layer, head, query, key, position },
    dimension: least((one) => one.model.head_size, all.dimension),
    output: least((one) => one.model.width, all.output),
    unit: least((one) => one.model.ffn_width, all.unit),
  };
});

/** The summaries of a trace, or of the one beside it. */
export const summariesOf = (trace: Manifest): Summaries | null =>
  explorer.other?.trace.id === trace.id ? explorer.other.summaries : explorer.summaries;

/** The context in which a view is not that of the trace on the page, and must not change it. */
export const ACTS = Symbol("acts");

/** Whether a view may run the model with other inputs; call it in a component's setup. */
export const mayAct = (): boolean => source.live && getContext(ACTS) !== false;

/** Says of every token whether it begins a word for sure: always if words are not split, and at the start of a text. */
function marked(trace: Manifest): Manifest {
  const whole = !hasSubwords(trace.model.tokenizer);
  for (const tokens of Object.values(trace.sides))
    for (const [i, token] of tokens.entries()) token.whole = whole || !i || tokens[i - 1].special;
  return trace;
}

/** An attention by name, or the first; views that need one are hidden without attention. */
export function attentionOf(trace: Manifest, name: string): Attention {
  const all = trace.model.attentions;
  return all.find((one) => one.name === name) ?? all[0];
}

/** Whether an attention is between the patches of one image. */
export const withinImage = (trace: Manifest, { kind, keys }: Attention): boolean => kind === "self" && keys in trace.images;

/** Whether an attention looks from a text at an image. */
export const readsImage = (trace: Manifest, { kind, keys }: Attention): boolean => kind === "cross" && keys in trace.images;

/** The side whose next tokens are predicted. */
export const outputSide = (trace: Manifest): string => trace.model.output_side;

/** Whether the output continues the text, as that of a language model. */
export const continues = (trace: Manifest): boolean => trace.model.generates && Object.keys(trace.sides).length === 1;

export async function numbers(trace: Manifest, entry: TensorEntry | undefined, part: Part = {}): Promise<Slab> {
  if (!entry) throw new RequestError("This trace does not have these numbers.");
  return source.tensor(trace, entry.name, part);
}

/** The tensor in Python, as the copied code can read it, with an index. */
export function pythonName(entry: TensorEntry | undefined, layer: number | null, ...at: number[]): string {
  if (!entry) return "";
  const name = layer === null ? entry.name : entry.name.replace("*", String(layer));
  return `explanation["${name}"]${at.length ? `[${at.join(", ")}]` : ""}`;
}

/** Which cells are masked: keys after the query if attention is causal, keys outside the window. */
export function hides(attention: Attention): ((query: number, key: number) => "causal" | null) | undefined {
  const { causal, window } = attention;
  if (!causal && window === null) return undefined;
  return (query, key) => ((causal && key > query) || (window !== null && Math.abs(query - key) > window) ? "causal" : null);
}

/** A piece for display: without the space marker; `·` where it continues a word. */
export function shown(token: Token | undefined, at = 1): string {
  if (!token) return "";
  return token.special
    ? token.piece
    : plain(token.piece, token.whole ?? (at === 0 || !hasSubwords(explorer.trace?.model.tokenizer)));
}

/** Whether a tokenizer splits words, so that a token may continue one. */
export const hasSubwords = (tokenizer: string | null | undefined): boolean =>
  !["character", "word", "whitespace"].includes(tokenizer ?? "");

export function plain(piece: string, first = false): string {
  const text = piece.replace(/\n/g, "⏎").replace(/\t/g, "⇥");
  if (/^[▁ Ġ]/.test(text)) return text.slice(1) || "␣";
  return first || /^[<\p{P}⏎]/u.test(text) ? text : `·${text}`;
}

/** A fetched value; the newest wins, and the old one stays until the new one arrives. */
export class Fetched<T> {
  value = $state.raw<T | undefined>(undefined);
  /** Its own problem, cleared by its next success. */
  private problem: string | null = null;

  /** Call it in a component's setup: `make` is tracked like an effect. */
  constructor(make: () => Promise<T> | null | undefined) {
    $effect(() => {
      let current = true;
      make()?.then(
        (value) => {
          if (!current) return;
          this.value = value;
          if (this.problem !== null && explorer.problem === this.problem) explorer.problem = null;
          this.problem = null;
        },
        (error) => {
          if (!current) return;
          explorer.report(error);
          this.problem = explorer.problem;
        },
      );
      return () => {
        current = false;
      };
    });
  }
}
