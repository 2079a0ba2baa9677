// Edits that apply while the model generates and while it is traced.

import type { Intervention } from "../contract";
import { explorer, plain } from "../explorer.svelte";
import { select, selection, type Selected } from "../selection.svelte";

/** Requests a trace with these edits. */
export function apply(edits: Intervention[], also: Partial<Selected> = {}): void {
  select({ edits, ...also });
  void explorer.run();
}

export const add = (edit: Intervention): void => apply([...selection.edits, edit]);

export function describe(edit: Intervention): string {
  switch (edit.kind) {
    case "mute":
      return `mute head ${edit.heads.join(", ")} of ${edit.attention}`;
    case "keep":
      return `keep only head ${edit.heads.join(", ")} of ${edit.attention}`;
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

/** The hidden patches of a side, by row and column. */
export const hiddenOf = (side: string): [number, number][] =>
  selection.edits.flatMap((edit) => (edit.kind === "hide" && edit.side === side ? edit.patches : []));

/** Hides a patch, or shows it again. */
export function toggle(side: string, row: number, column: number): void {
  const before = hiddenOf(side);
  const rest = before.filter(([r, c]) => r !== row || c !== column);
  const patches = rest.length < before.length ? rest : [...before, [row, column] as [number, number]];
  const others = selection.edits.filter((edit) => !(edit.kind === "hide" && edit.side === side));
  apply(patches.length ? [...others, { kind: "hide", side, patches }] : others);
}

/** The heads of an attention named by edits of a kind. */
export const headsOf = (kind: "mute" | "keep", attention: string): number[] =>
  selection.edits.flatMap((edit) => (edit.kind === kind && edit.attention === attention ? edit.heads : []));

/** The edits without those of a kind at an attention. */
export const without = (kind: "mute" | "keep", attention: string): Intervention[] =>
  selection.edits.filter((edit) => !(edit.kind === kind && edit.attention === attention));
