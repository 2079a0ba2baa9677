// The selection. It lives in the URL, so that a lesson or a bug is a link.

import type { Intervention } from "./contract";

export type Door = "learn" | "inspect";

export interface Selected {
  door: Door;
  /** Empty: that of the lesson, or the first. */
  view: string;
  lesson: number;
  /** 1 in presenter mode. */
  present: number;
  model: string;
  text: string;
  /** A sample of the model, or the key of an uploaded image. */
  image: string;
  to: string;
  /** A forced start of the output, as text or as ids. */
  prefix: string;
  forced: number[];
  /** A given translation, instead of a search. */
  target: string;
  /** How many tokens a language model generates, and how it samples them. */
  tokens: number;
  temperature: number;
  top_k: number;
  top_p: number;
  min_p: number;
  seed: number;
  attention: string;
  layer: number;
  head: number;
  query: number;
  key: number;
  /** Whose next token is shown. */
  position: number;
  node: number;
  /** The sliders of the next token. */
  show_temperature: number;
  show_top_k: number;
  show_top_p: number;
  show_min_p: number;
  /** Which projection, and which of its numbers. */
  part: string;
  dimension: number;
  /** A unit of a feed-forward network, and a number of the stream. */
  unit: number;
  output: number;
  /** The token whose logit is shown; -1: the next one. */
  token: number;
  /** Of the route through the overview; -1: not started. */
  step: number;
  edits: Intervention[];
  /** What the trace is compared with, and the other text, model or translation. */
  compare: string;
  other: string;
}

const START: Selected = {
  door: "learn",
  view: "",
  lesson: 0,
  present: 0,
  model: "",
  text: "",
  image: "",
  to: "",
  prefix: "",
  forced: [],
  target: "",
  tokens: 0,
  temperature: 0,
  top_k: 0,
  top_p: 1,
  min_p: 0,
  seed: 0,
  attention: "",
  layer: 0,
  head: 0,
  query: 1,
  key: 1,
  position: 1,
  node: -1,
  show_temperature: 1,
  show_top_k: 0,
  show_top_p: 1,
  show_min_p: 0,
  part: "queries",
  dimension: 0,
  unit: -1,
  output: 0,
  token: -1,
  step: -1,
  edits: [],
  compare: "",
  other: "",
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

/** Changes the selection. Going to another part of the page adds to the browser's history; a detail does not. */
export function select(change: Partial<Selected>): void {
  const moved = (["door", "view", "lesson", "present", "model", "text", "image", "compare", "other"] as const).some(
    (name) => name in change && change[name] !== selection[name],
  );
  put(change, moved);
}

/** Changes the selection without adding to the history. */
export function update(change: Partial<Selected>): void {
  put(change, false);
}

/** Changes the selection while a slider moves; the URL follows when it rests, because browsers limit its changes. */
export function slide(change: Partial<Selected>): void {
  Object.assign(selection, change);
  clearTimeout(resting);
  resting = setTimeout(() => put({}, false), REST_MS);
}

const REST_MS = 150;
let resting: ReturnType<typeof setTimeout> | undefined;

/** Limits every change of the selection. */
export function limitBy(limiter: (change: Partial<Selected>) => Partial<Selected>): void {
  limit = limiter;
}

let limit = (change: Partial<Selected>): Partial<Selected> => change;

function put(change: Partial<Selected>, moved: boolean): void {
  Object.assign(selection, limit(change));
  const address = write(selection);
  // In a notebook's frame there is no URL to write to.
  if (address === location.hash || location.protocol === "about:") return;
  if (moved) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

/** Back to the initial selection. */
export function reset(): void {
  select({ ...START });
}

/** Follows the browser's back and forward buttons, and typed URLs. */
export function onHistory(after: () => void): void {
  addEventListener("popstate", () => {
    Object.assign(selection, read(location.hash));
    after();
  });
}
