// Edits that apply while the model generates and while it is traced.

import type { Attention, Intervention, Manifest } from "../contract";
import { attentionOf, explorer, plain } from "../explorer.svelte";
import { select, selection, type Selected } from "../selection.svelte";

type Edited = Pick<Selected, "edits" | "prefix" | "forced" | "target">;

/** What was edited before each step, for undo; a new text starts again. */
const before: { text: string; edited: Edited }[] = [];

const edited = (): Edited => {
  const { edits, prefix, forced, target } = selection;
  return { edits, prefix, forced, target };
};

/** Requests a trace with these edits. */
export function apply(edits: Intervention[], also: Partial<Selected> = {}): void {
  before.push({ text: selection.text, edited: $state.snapshot(edited()) as Edited });
  select({ edits, ...also });
  void explorer.run();
}

/** Takes back the last step; one that another page made is taken back head by head, edit by edit. */
export function undo(): void {
  const now = JSON.stringify(edited());
  // Steps of another text, and steps that were refused, changed nothing here.
  while (before.length && (before.at(-1)!.text !== selection.text || JSON.stringify(before.at(-1)!.edited) === now)) before.pop();
  const last = before.pop();
  select(last ? last.edited : withoutLast());
  void explorer.run();
}

function withoutLast(): Partial<Selected> {
  const { edits } = selection;
  const last = edits.at(-1);
  if (selection.forced.length) return { forced: selection.forced.slice(0, -1) };
  if (selection.prefix) return { prefix: "" };
  if (last && (last.kind === "mute" || last.kind === "keep") && last.heads.length > 1)
    return { edits: [...edits.slice(0, -1), { ...last, heads: last.heads.slice(0, -1) }] };
  return { edits: edits.slice(0, -1) };
}

export const add = (edit: Intervention): void => apply([...selection.edits, edit]);

/** Forces the start of the output; the search continues from there. */
export const force = (forced: number[]): void => apply(selection.edits, { forced, prefix: "", target: "", node: -1 });

export function describe(edit: Intervention): string {
  switch (edit.kind) {
    case "mute":
      return `mute ${headNames(edit.heads)} of ${edit.attention}`;
    case "keep":
      return `keep only ${headNames(edit.heads)} of ${edit.attention}`;
    case "row":
      return `weights of query ${edit.query}, head ${edit.head} of ${edit.attention}`;
    case "embedding":
      return `token “${plain(edit.token, true)}” at ${edit.side} position ${edit.position}`;
    case "position":
      return `${edit.side} position ${edit.position} moved to ${edit.to}`;
    case "hide":
      return `hide ${edit.patches.length === 1 ? "patch" : "patches"} ${edit.patches.map((one) => one.join(",")).join(" · ")}`;
  }
}

const headNames = (heads: number[]): string => `${heads.length === 1 ? "head" : "heads"} ${heads.join(", ")}`;

/** The hidden patches of a side, by row and column. */
export const hiddenOf = (side: string): [number, number][] =>
  selection.edits.flatMap((edit) => (edit.kind === "hide" && edit.side === side ? edit.patches : []));

/** Hides a patch, or shows it again. */
export function toggle(side: string, row: number, column: number): void {
  const hidden = hiddenOf(side);
  const rest = hidden.filter(([r, c]) => r !== row || c !== column);
  const patches = rest.length < hidden.length ? rest : [...hidden, [row, column] as [number, number]];
  const others = selection.edits.filter((edit) => !(edit.kind === "hide" && edit.side === side));
  apply(patches.length ? [...others, { kind: "hide", side, patches }] : others);
}

/** The heads of an attention named by edits of a kind. */
export const headsOf = (kind: "mute" | "keep", attention: string): number[] =>
  selection.edits.flatMap((edit) => (edit.kind === kind && edit.attention === attention ? edit.heads : []));

/** The edits without those of a kind at an attention. */
export const without = (kind: "mute" | "keep", attention: string): Intervention[] =>
  selection.edits.filter((edit) => !(edit.kind === kind && edit.attention === attention));

/** Whether a head of the trace on the page is muted, or not among those kept. */
export const isMuted = (trace: Manifest, { path }: Attention, layer: number, head: number): boolean =>
  trace.interventions.some(
    (edit) =>
      (edit.kind === "mute" || edit.kind === "keep") &&
      (edit.attention === path || edit.attention === path.replace("*", String(layer))) &&
      edit.heads.includes(head) === (edit.kind === "mute"),
  );

const OF_ONE_HEAD = ["projections", "softmax", "head"];

/** Whether a view shows one head, and this head is muted. */
export function mutedHere(trace: Manifest, view: string): boolean {
  return OF_ONE_HEAD.includes(view) && isMuted(trace, attentionOf(trace, selection.attention), selection.layer, selection.head);
}
