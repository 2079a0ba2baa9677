// The shapes of docs/trace.md: what the page asks, and what it gets.

export interface Token {
  id: number;
  piece: string;
  word: number | null;
  special: boolean;
  next?: number | null;
  written?: boolean;
  log_probability?: number | null;
}

export interface Attention {
  key: string;
  path: string;
  kind: "self" | "cross";
  stack: string;
  layers: number;
  heads: number;
  queries: string;
  keys: string;
  causal: boolean;
  window: number | null;
  scale: number | null;
}

export interface Stack {
  name: string;
  layers: number;
  side: string;
  sublayers: string[];
}

export interface Model {
  name: string;
  kind: "translator" | "gpt";
  languages: { source: string; target: string }[];
  width: number;
  hidden: number;
  heads: number;
  key_heads: number;
  size: number;
  vocabulary: number;
  longest: number;
  most_tokens: number;
  parameters: number;
  position: string;
  norm: string;
  norm_place: string;
  activation: string;
  score: string;
  tied: string;
  tokenizer: string;
  beam: number | null;
  alpha: number | null;
  stacks: Stack[];
  attentions: Attention[];
}

export interface Models {
  version: string;
  models: { name: string; kind: string; loaded: boolean }[];
}

export interface Cut {
  text: string;
  normalised: string;
  tokens: Token[];
  count: number;
  most: number;
}

export type Intervention =
  | { kind: "mute" | "keep"; attention: string; heads: number[] }
  | { kind: "row"; attention: string; head: number; query: number; weights: number[] }
  | { kind: "embedding"; side: string; place: number; token: string }
  | { kind: "position"; side: string; place: number; to: number };

export interface Wish {
  model?: string;
  text: string;
  to?: string;
  beam?: number;
  prefix?: string;
  target?: string | null;
  forced?: number[];
  tokens?: number;
  temperature?: number;
  top_k?: number | null;
  top_p?: number;
  seed?: number;
  tree?: boolean;
  interventions?: Intervention[];
}

export interface Found {
  text: string;
  score: number | null;
  log_probability: number | null;
}

export interface TensorEntry {
  name: string;
  role: string;
  attention?: string;
  side?: string;
  stack?: string;
  sublayer?: string;
  axes: string[];
  shape: number[];
  dtypes: string[];
}

export interface Manifest {
  format: number;
  id: string;
  kind: "translator" | "gpt";
  model: Model;
  text: string;
  normalised: string;
  to: string | null;
  sides: Record<string, Token[]>;
  output: (Found & { complete: boolean; tokens: Token[]; nbest?: Found[] }) | null;
  before: Found | null;
  agreement: number | null;
  interventions: Intervention[];
  python: string;
  bytes: number;
  seconds: number;
  tensors: TensorEntry[];
  parts: string[];
}

export interface Part {
  layer?: number;
  head?: number;
  query?: number;
  dtype?: "f32" | "u8s";
  pool?: number;
}

export interface Slab {
  shape: number[];
  values: Float32Array | Uint8Array;
}

export interface Projection {
  name: string;
  part: string;
  side: string;
  place: number;
  dimension: number;
  input: number[];
  weight: number[];
  bias: number | null;
  product: number;
  output: number[];
}

export interface HeadSummary {
  layer: number;
  head: number;
  entropy: number;
  /** In places; of self-attention alone. */
  distance: number | null;
  role: string | null;
  roles: Record<string, number>;
}

export interface ResidualStep {
  layer: number;
  sublayer: string;
  norm: number[];
  added: number[];
  share: number[];
}

export interface Summaries {
  attentions: Record<string, { heads: HeadSummary[] }>;
  aligners: {
    how: string;
    ranked: { layer: number; head: number; score: number }[];
    words: { source: string[]; target: string[]; links: [number, number][] };
  } | null;
  residual: Record<string, ResidualStep[]>;
  rollout: Record<string, number[][]>;
}

export interface Candidate {
  id: number;
  piece: string;
  logit: number;
  probability: number;
  drawn: number;
  kept: boolean;
}

export interface Logits {
  place: number;
  vocabulary: number;
  entropy: number;
  temperature: number;
  kept: number;
  kept_mass: number;
  top: Candidate[];
  next: { id: number; piece: string; logit: number; probability: number; rank: number } | null;
}

export interface Lens {
  rows: string[];
  cells: { id: number; piece: string; probability: number }[][][];
  next: (number | null)[][];
}

export interface Contributions {
  heads: { attention: string; layer: number; head: number; change: number | null }[];
  log_probability: number;
}

export interface BeamNode {
  node: number;
  parent: number | null;
  step: number;
  id: number;
  piece: string;
  log_probability: number | null;
  total: number | null;
  score: number | null;
  state: "kept" | "dropped" | "finished";
  why: string | null;
  best: boolean;
}

export interface Beam {
  beam: number;
  alpha: number;
  nodes: BeamNode[];
}

export interface Step {
  next: { id: number; piece: string; probability: number };
  top: Candidate[];
  text: string;
  ended: boolean;
  places: number;
  cache: { layers: number; heads: number; size: number; places: number; bytes: number };
}

export interface Near {
  id: number;
  piece: string;
  cosine: number;
}

export interface Neighbours {
  word: string;
  pieces: { id: number; piece: string }[];
  neighbours: Near[];
}

export interface Contexts {
  word: string;
  layers: number;
  places: number[][];
  similar: number[][][];
  nearest: Near[][];
}

/** Where a page gets its traces from: a server, or the file that it lies in. */
export interface TraceSource {
  /** Whether it can run a model: edit, intervene, go on. */
  readonly live: boolean;
  models(): Promise<Models>;
  cut(model: string, text: string): Promise<Cut>;
  positions(model: string, places: number): Promise<Slab & { kind: string }>;
  /** As soon as it is known what is to be shown; numbers arrive while they are asked for. */
  trace(wish: Wish, until?: AbortSignal): Promise<Manifest>;
  /** The same with all that only the end of the pass tells: log-probabilities, agreement, seconds. */
  whole(trace: Manifest, until?: AbortSignal): Promise<Manifest>;
  tensor(trace: Manifest, name: string, part: Part): Promise<Slab>;
  projection(
    trace: Manifest,
    asked: { attention: string; layer: number; head: number; place: number; part: string; dimension: number },
  ): Promise<Projection>;
  summaries(trace: Manifest): Promise<Summaries>;
  logits(
    trace: Manifest,
    asked: { place: number; top: number; temperature?: number; top_k?: number; top_p?: number },
  ): Promise<Logits>;
  lens(trace: Manifest): Promise<Lens>;
  contributions(trace: Manifest): Promise<Contributions>;
  beam(trace: Manifest): Promise<Beam>;
  step(wish: Wish & { written: number[] }): Promise<Step>;
  neighbours(model: string, word: string, count: number): Promise<Neighbours>;
  contexts(model: string, word: string, texts: string[]): Promise<Contexts>;
}

/** One line that the page shows. `gone`: the server has forgotten the trace. */
export class Refusal extends Error {
  constructor(
    line: string,
    readonly field: string | null = null,
    readonly gone = false,
  ) {
    super(line);
  }
}

/** Nobody answered, or nobody could: what was asked may well be right. */
export class Silence extends Refusal {}
