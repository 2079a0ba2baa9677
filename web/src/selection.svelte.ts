// What is looked at. It lives in the address, so that a lesson or a bug is a link.

import type { Intervention } from "./contract";

export type Door = "learn" | "inspect";

export interface Selected {
  door: Door;
  view: string;
  lesson: number;
  model: string;
  text: string;
  to: string;
  /** How the output has to begin, and which ids of it are forced. */
  prefix: string;
  forced: number[];
  /** The whole translation, given instead of searched for. */
  target: string;
  /** How many tokens a language model writes, and how it draws them. */
  tokens: number;
  temperature: number;
  topK: number;
  topP: number;
  seed: number;
  attention: string;
  layer: number;
  head: number;
  query: number;
  key: number;
  /** Where the next token is looked at. */
  place: number;
  node: number;
  edits: Intervention[];
}

const START: Selected = {
  door: "learn",
  view: "tokens",
  lesson: 0,
  model: "",
  text: "",
  to: "",
  prefix: "",
  forced: [],
  target: "",
  tokens: 0,
  temperature: 0,
  topK: 0,
  topP: 1,
  seed: 0,
  attention: "",
  layer: 0,
  head: 0,
  query: 1,
  key: 1,
  place: 1,
  node: -1,
  edits: [],
};

function read(hash: string): Selected {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const out: Record<string, unknown> = { ...START };
  for (const [name, fallback] of Object.entries(START)) {
    const text = given.get(name);
    if (text !== null) out[name] = value(text, fallback);
  }
  if (out.door !== "inspect") out.door = "learn";
  return out as unknown as Selected;
}

function value(text: string, fallback: unknown): unknown {
  if (typeof fallback === "string") return text;
  if (typeof fallback === "number") return Number.isFinite(Number(text)) ? Number(text) : fallback;
  try {
    const list = JSON.parse(text);
    return Array.isArray(list) ? list : fallback;
  } catch {
    return fallback;
  }
}

function write(selected: Selected): string {
  const out = new URLSearchParams();
  for (const [name, one] of Object.entries(selected)) {
    const text = typeof one === "object" ? JSON.stringify(one) : String(one);
    const usual = START[name as keyof Selected];
    if (name === "door" || text !== (typeof usual === "object" ? JSON.stringify(usual) : String(usual))) out.set(name, text);
  }
  return `#${out}`;
}

export const selection = $state<Selected>(read(location.hash));

/** Changes what is looked at. Another place of the page is a step of the browser's history; a detail is not. */
export function select(change: Partial<Selected>): void {
  const moved = (["door", "view", "lesson", "model", "text"] as const).some(
    (name) => name in change && change[name] !== selection[name],
  );
  put(change, moved);
}

/** Fills in what an answer has decided: no step of the history. */
export function settle(change: Partial<Selected>): void {
  put(change, false);
}

function put(change: Partial<Selected>, moved: boolean): void {
  Object.assign(selection, change);
  const address = write(selection);
  // A frame without an address of its own, as in a notebook, has no history to write to.
  if (address === location.hash || location.protocol === "about:") return;
  if (moved) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

/** Forgets everything that was selected. */
export function afresh(): void {
  select({ ...START });
}

/** Follows the browser's back and forward, and addresses that are typed. */
export function follow(after: () => void): void {
  addEventListener("popstate", () => {
    Object.assign(selection, read(location.hash));
    after();
  });
}
