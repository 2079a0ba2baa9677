// The trace beside the one on the page: another text, another model, the model without edits, or a reference translation.

import { RequestError, UnavailableError, type Manifest, type TraceRequest } from "../contract";
import { explorer, source } from "../explorer.svelte";
import { selection } from "../selection.svelte";

const KINDS = ["text", "model", "edits", "target"] as const;
export type Kind = (typeof KINDS)[number];

/** What is on the left and on the right; without edits comes first, and a difference is right minus left. */
export interface Sides {
  left: Manifest;
  right: Manifest;
  names: [string, string];
}

class Comparison {
  busy = $state(false);
  problem = $state<string | null>(null);
  /** Why the edits are not in the other trace. */
  note = $state<string | null>(null);
  private newest = new AbortController();

  /** Requests the other trace of the selection. */
  async run(main: Manifest): Promise<void> {
    this.newest.abort();
    this.newest = new AbortController();
    const { signal } = this.newest;
    Object.assign(this, { problem: this.missing(main), note: null, busy: false });
    if (explorer.other?.of !== main.id) explorer.other = null;
    const kind = KINDS.find((one) => one === selection.compare);
    if (!kind || this.problem) {
      explorer.other = null;
      return;
    }
    this.busy = true;
    try {
      const trace = await this.request(otherRequest(explorer.request(), kind), signal);
      if (signal.aborted) return;
      explorer.showOther({ of: main.id, trace, summaries: null });
      const whole = await source.whole(trace, signal);
      if (signal.aborted) return;
      explorer.showOther({ of: main.id, trace: whole, summaries: null });
      const summaries = await source.summaries(trace);
      if (!signal.aborted) explorer.showOther({ of: main.id, trace: whole, summaries });
    } catch (error) {
      if (signal.aborted) return;
      explorer.other = null;
      this.problem = error instanceof Error ? error.message : String(error);
    } finally {
      if (!signal.aborted) this.busy = false;
    }
  }

  stop(): void {
    this.newest.abort();
    explorer.other = null;
  }

  /** Without the edits if the other model or text cannot take them, and says why. */
  private async request(request: TraceRequest, signal: AbortSignal): Promise<Manifest> {
    try {
      return await source.trace(request, signal);
    } catch (error) {
      const refused = error instanceof RequestError && !(error instanceof UnavailableError);
      if (!refused || !request.interventions?.length) throw error;
      const trace = await source.trace({ ...request, interventions: [] }, signal);
      const why = error.message.replace(/^[\w.]+: /, "");
      if (!signal.aborted) this.note = `The edits are not in ${trace.model.name}: ${why}.`;
      return trace;
    }
  }

  /** What is needed before anything can be compared. */
  private missing(main: Manifest): string | null {
    const { compare, other, edits, forced, prefix } = selection;
    if (compare === "text" && !other.trim()) return "Type a text to compare with.";
    if (compare === "target" && !main.model.languages.length) return `${main.model.name} does not translate.`;
    if (compare === "target" && !other.trim()) return "Type a reference translation to compare with.";
    if (compare === "model" && !other) return "Choose a model to compare with.";
    if (compare === "edits" && !edits.length && !forced.length && !prefix)
      return "There are no edits yet. Mute a head or force a token, then compare.";
    return null;
  }
}

export const comparison = new Comparison();

function otherRequest(request: TraceRequest, kind: Kind): TraceRequest {
  const { other } = selection;
  const free = { ...request, prefix: "", forced: undefined, target: null };
  switch (kind) {
    case "text":
      return { ...free, text: other };
    case "model":
      return { ...free, model: other, to: undefined };
    case "edits":
      return { ...free, target: request.target, interventions: [] };
    case "target":
      return { ...free, target: other };
  }
}

/** The two traces in the order of the page. */
export function sidesOf(main: Manifest, other: Manifest): Sides {
  switch (selection.compare as Kind) {
    case "text":
      return { left: main, right: other, names: [main.text, other.text] };
    case "model":
      return { left: main, right: other, names: [main.model.name, other.model.name] };
    case "edits":
      return { left: other, right: main, names: ["before the edits", "after the edits"] };
    case "target":
      return { left: main, right: other, names: ["the model’s translation", "the reference"] };
  }
}
