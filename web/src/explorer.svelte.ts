// The trace that is on the page, and the source it comes from.

import {
  Refusal,
  Silence,
  type Attention,
  type Manifest,
  type Models,
  type Part,
  type Slab,
  type Summaries,
  type TensorEntry,
  type Token,
  type TraceSource,
  type Wish,
} from "./contract";
import { HttpSource } from "./http";
import { InlinedSource } from "./inlined";
import { lessonsFor, textOf, type Lesson } from "./learn/lessons";
import { PROMPT, sentencesFor } from "./learn/sentences";
import { selection, settle, type Selected } from "./selection.svelte";

const inlined = document.getElementById("clearhead-trace");

export const source: TraceSource = inlined ? new InlinedSource(JSON.parse(inlined.textContent!)) : new HttpSource();

class Explorer {
  models = $state.raw<Models | null>(null);
  trace = $state.raw<Manifest | null>(null);
  summaries = $state.raw<Summaries | null>(null);
  busy = $state(false);
  trouble = $state<string | null>(null);
  /** Whether the same may be answered another time. */
  passing = $state(false);
  private asked = 0;
  private answered = "";
  /** What was selected when the trace on the page was asked for. */
  private accepted: Partial<Selected> = {};
  /** Ends what is still awaited of a trace when another one is asked for: the server then stops its pass. */
  private newest = new AbortController();

  async start(): Promise<void> {
    try {
      this.models = await source.models();
      // A link to a lesson alone opens it as the way there would.
      await this.run(selection.text ? {} : this.lesson()?.pick);
    } catch (error) {
      this.say(error);
    }
  }

  /** A new trace of what is selected, to look at it where `pick` says; the old one stays on the page until it is there. */
  async run(pick: Partial<Selected> = {}): Promise<void> {
    const turn = ++this.asked;
    this.busy = true;
    this.newest.abort();
    this.newest = new AbortController();
    try {
      if (!this.models) this.models = await source.models();
      const trace = await source.trace(this.wish(), this.newest.signal);
      if (turn !== this.asked) return;
      this.show(trace, pick);
    } catch (error) {
      if (turn !== this.asked) return;
      this.say(error);
      if (this.trace && !(error instanceof Silence)) await this.stay(turn);
    } finally {
      if (turn === this.asked) this.busy = false;
    }
  }

  /** What was refused is not what the page shows: back to that, the numbers of which may have been stopped on their way. */
  private async stay(turn: number): Promise<void> {
    const { trouble } = this;
    settle(this.accepted);
    if (this.summaries) return;
    try {
      const trace = await source.trace(this.wish(), this.newest.signal);
      if (turn !== this.asked) return;
      this.show(trace, {});
      this.trouble = trouble;
    } catch {
      // The trouble that is told already is the one to mend.
    }
  }

  /** After a step through the history: a new trace only where another one is asked for, or is under way. */
  return(): void {
    if (this.busy || JSON.stringify(this.wish()) !== this.answered) void this.run();
  }

  /** What went wrong with something of the trace on the page; if another one is under way, that does not matter any more. */
  refuse(error: unknown): void {
    if (!this.busy) this.say(error);
  }

  private say(error: unknown): void {
    if (error instanceof Refusal && error.gone) {
      this.trouble = "The server has forgotten this trace; it is being made again.";
      void this.run();
      return;
    }
    this.trouble = error instanceof Error ? error.message : String(error);
    this.passing = error instanceof Silence || !(error instanceof Refusal);
  }

  /** What is tried where nobody has given a text: the lesson's sentence, or the first of the lectures'. */
  first(): string {
    const model = selection.model || (this.models?.models[0]?.name ?? "");
    const lesson = this.lesson();
    if (lesson) return textOf(lesson, model);
    return this.kind() === "gpt" ? PROMPT : sentencesFor(model).windows;
  }

  private lesson(): Lesson | undefined {
    return selection.door === "learn" && source.live ? lessonsFor(this.kind())[selection.lesson] : undefined;
  }

  kind(): "translator" | "gpt" {
    const known = this.models?.models.find((one) => one.name === selection.model) ?? this.models?.models[0];
    return known?.kind === "gpt" ? "gpt" : "translator";
  }

  private wish(): Wish {
    const gpt = this.kind() === "gpt";
    const text = selection.text || this.first();
    const wish: Wish = { model: selection.model || undefined, text, interventions: selection.edits };
    if (gpt)
      return {
        ...wish,
        tokens: selection.tokens,
        temperature: selection.temperature,
        top_k: selection.topK || null,
        top_p: selection.topP,
        seed: selection.seed,
      };
    const begun = selection.forced.length ? { forced: selection.forced } : { prefix: selection.prefix };
    return { ...wish, ...begun, to: selection.to || undefined, target: selection.target || null, tree: !selection.target };
  }

  private show(trace: Manifest, pick: Partial<Selected>): void {
    this.trouble = null;
    this.summaries = null;
    this.trace = trace;
    settle({ model: trace.model.name, text: trace.text, ...inside(trace, pick) });
    this.answered = JSON.stringify(this.wish());
    this.accepted = asking();
    void this.complete(trace);
  }

  /** What comes behind the first picture. */
  private async complete(trace: Manifest): Promise<void> {
    const { signal } = this.newest;
    const current = () => this.trace?.id === trace.id && !signal.aborted;
    try {
      const whole = await source.whole(trace, signal);
      if (current()) this.trace = whole;
      const summaries = current() ? await source.summaries(trace) : null;
      if (current()) this.summaries = summaries;
    } catch (error) {
      if (current()) this.refuse(error);
    }
  }
}

/** The part of what is selected that a trace follows from. */
function asking(): Partial<Selected> {
  const { model, text, to, prefix, forced, target, tokens, temperature, topK, topP, seed, edits } = selection;
  return { model, text, to, prefix, forced, target, tokens, temperature, topK, topP, seed, edits };
}

/** What is wanted, and all that hangs on it, inside a trace: no layer, head or place that it does not have. */
export function inside(trace: Manifest, wanted: Partial<Selected> = {}): Partial<Selected> {
  const all = { ...selection, ...wanted };
  const attention = attentionOf(trace, all.attention);
  const within = (index: number, count: number) => Math.max(0, Math.min(Math.floor(index), count - 1));
  return {
    ...wanted,
    attention: attention.key,
    layer: within(all.layer, attention.layers),
    head: within(all.head, attention.heads),
    query: within(all.query, trace.sides[attention.queries].length),
    key: within(all.key, trace.sides[attention.keys].length),
    place: within(all.place, trace.sides[readSide(trace)].length),
  };
}

export const explorer = new Explorer();

export function attentionOf(trace: Manifest, key: string): Attention {
  const all = trace.model.attentions;
  return all.find((one) => one.key === key) ?? all[0];
}

/** The side whose next tokens are foretold. */
export const readSide = (trace: Manifest): string => (trace.kind === "gpt" ? "text" : "target");

export function tensorOf(
  trace: Manifest,
  role: string,
  of: Partial<Pick<TensorEntry, "attention" | "side" | "stack" | "sublayer">> = {},
): TensorEntry | undefined {
  return trace.tensors.find(
    (one) => one.role === role && Object.entries(of).every(([key, wanted]) => one[key as keyof typeof of] === wanted),
  );
}

export async function numbers(trace: Manifest, entry: TensorEntry | undefined, part: Part = {}): Promise<Slab> {
  if (!entry) throw new Refusal("This trace does not hold these numbers.");
  return source.tensor(trace, entry.name, part);
}

/** The name that a tensor has in Python, with the place in it. */
export function pythonName(entry: TensorEntry | undefined, layer: number | null, ...at: number[]): string {
  if (!entry) return "";
  const name = layer === null ? entry.name : entry.name.replace("*", String(layer));
  return at.length ? `${name}[0, ${at.join(", ")}]` : name;
}

/** What a matrix hides: everything after the query where attention is causal, everything beyond a window. */
export function hides(attention: Attention): ((query: number, key: number) => "causal" | null) | undefined {
  const { causal, window } = attention;
  if (!causal && window === null) return undefined;
  return (query, key) => ((causal && key > query) || (window !== null && Math.abs(query - key) > window) ? "causal" : null);
}

/** A piece as a reader knows it: without the sign for a blank; `·` where it goes on with a word. */
export function shown(token: Token | undefined, at = 1): string {
  if (!token) return "";
  return token.special ? token.piece : plain(token.piece, at === 0 || explorer.trace?.model.tokenizer === "character");
}

export function plain(piece: string, first = false): string {
  const text = piece.replace(/\n/g, "⏎").replace(/\t/g, "⇥");
  if (/^[▁ Ġ]/.test(text)) return text.slice(1) || "␣";
  return first || /^[<\p{P}⏎]/u.test(text) ? text : `·${text}`;
}

/** A value that is fetched and kept, newest wins; the old one stays until the new one is there. */
export class Fetched<T> {
  value = $state.raw<T | undefined>(undefined);
  /** The trouble that it had, which is over with its next answer. */
  private trouble: string | null = null;

  /** Call it in a component's setup: `make` is followed like any effect. */
  constructor(make: () => Promise<T> | null | undefined) {
    $effect(() => {
      let current = true;
      make()?.then(
        (value) => {
          if (!current) return;
          this.value = value;
          if (this.trouble !== null && explorer.trouble === this.trouble) explorer.trouble = null;
          this.trouble = null;
        },
        (error) => {
          if (!current) return;
          explorer.refuse(error);
          this.trouble = explorer.trouble;
        },
      );
      return () => {
        current = false;
      };
    });
  }
}
