// Changes that hold while the model writes and while it is looked at.

import type { Intervention } from "../contract";
import { explorer, plain } from "../explorer.svelte";
import { select, selection, type Selected } from "../selection.svelte";

/** A new trace with these edits instead. */
export function apply(edits: Intervention[], also: Partial<Selected> = {}): void {
  select({ edits, ...also });
  void explorer.run();
}

export const add = (edit: Intervention): void => apply([...selection.edits, edit]);

export function told(edit: Intervention): string {
  switch (edit.kind) {
    case "mute":
      return `mute head ${edit.heads.join(", ")} of ${edit.attention}`;
    case "keep":
      return `keep only head ${edit.heads.join(", ")} of ${edit.attention}`;
    case "row":
      return `row ${edit.query} of head ${edit.head} of ${edit.attention}`;
    case "embedding":
      return `${edit.side} place ${edit.place} reads “${plain(edit.token, true)}”`;
    case "position":
      return `${edit.side} place ${edit.place} stands at ${edit.to}`;
  }
}

/** The heads of an attention that edits of a kind name. */
export const headsOf = (kind: "mute" | "keep", attention: string): number[] =>
  selection.edits.flatMap((edit) => (edit.kind === kind && edit.attention === attention ? edit.heads : []));

/** The edits without those of a kind at an attention. */
export const without = (kind: "mute" | "keep", attention: string): Intervention[] =>
  selection.edits.filter((edit) => !(edit.kind === kind && edit.attention === attention));
