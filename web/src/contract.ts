// The JSON types of docs/trace.md.

import type { Selected } from "./selection.svelte";

export interface Token {
  id: number;
  piece: string;
  word: number | null;
  special: boolean;
  /** Not in the vocabulary. */
  unknown: boolean;
  /** Whether it cannot continue a word; set by the page. */
  whole?: boolean;
  next?: number | null;
  generated?: boolean;
  log_prob?: number | null;
}

export interface Attention {
  name: string;
  path: string;
  kind: "self" | "cross";
  stack: string | null;
  layers: number;
  heads: number;
  head_size: number;
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
  position: string;
  ffn_width: number | null;
}

export interface Recurrence {
  name: string;
  side: string;
  layers: number;
  cell: string;
  directions: number;
}

export interface Model {
  name: string;
  kind: string;
  width: number | null;
  ffn_width: number | null;
  /** Of the first attention; null without attention, like its score. */
  heads: number | null;
  kv_heads: number | null;
  head_size: number | null;
  vocabulary: number | null;
  max_length: number | null;
  parameters: number;
  position: string | null;
  norm: string | null;
  norm_position: string | null;
  activation: string | null;
  score: string | null;
  /** Where a recurrent decoder attends: "before" or "after" its cell, "none". */
  attend: string | null;
  tied: string | null;
  /** What it reads: "text" or "image". */
  input: string;
  tokenizer: string | null;
  /** The side that the readout predicts. */
  output_side: string;
  languages: { source: string; target: string }[];
  max_tokens: number | null;
  beam: number | null;
  length_penalty: number | null;
  /** Whether it can generate one token at a time. */
  generates: boolean;
  stacks: Stack[];
  recurrences: Recurrence[];
  attentions: Attention[];
}

export interface Models {
  version: string;
  /** What tooltips explain. */
  glossary: Record<string, { term: string; formula: string; meaning: string }>;
  models: { name: string; kind: string; input: string; loaded: boolean }[];
}

/** A line of a lesson; some hold for the lesson's own text only. */
export interface Line {
  text: string;
  any_text: boolean;
}

export interface Lesson {
  title: string;
  view: string;
  /** What the model reads, unless the reader has typed another text. */
  text: string;
  /** From the lectures. */
  quote: string;
  says: Line[];
  worked: string[];
  look: Line[];
  /** The selection with which it opens. */
  pick: Partial<Selected>;
  /** The role of the head to open with, or "aligner". */
  head: string;
}

/** The tour of a model, and example texts in its language. */
export interface Guide {
  text: string;
  meanings: { word: string; first: string; second: string; moved: string };
  lessons: Lesson[];
}

export interface Tokenized {
  text: string;
  normalized: string;
  tokens: Token[];
  count: number;
  max_tokens: number | null;
}

export type Intervention =
  | { kind: "mute" | "keep"; attention: string; heads: number[] }
  | { kind: "row"; attention: string; head: number; query: number; weights: number[] }
  | { kind: "embedding"; side: string; position: number; token: string }
  | { kind: "position"; side: string; position: number; to: number }
  | { kind: "hide"; side: string; patches: [number, number][] };

/** An image as the model reads it. */
export interface PatchImage {
  height: number;
  width: number;
  /** Rows and columns of patches. */
  grid: [number, number];
  /** Positions before the first patch: 1 with a class token. */
  before: number;
  /** Bytes of red, green and blue, row by row, in base64. */
  pixels: string;
}

export interface TraceRequest {
  model?: string;
  text: string;
  image?: string;
  to?: string;
  beam?: number;
  prefix?: string;
  target?: string | null;
  forced?: number[];
  tokens?: number;
  temperature?: number;
  top_k?: number | null;
  top_p?: number;
  min_p?: number;
  seed?: number;
  interventions?: Intervention[];
}

export interface OutputSummary {
  text: string;
  score: number | null;
  log_prob: number | null;
  /** Of every class, if it is a classifier. */
  probabilities: Record<string, number> | null;
}

export interface TensorEntry {
  name: string;
  role: string;
  attention?: string;
  side?: string;
  stack?: string;
  sublayer?: string;
  recurrence?: string;
  axes: string[];
  shape: number[];
  dtypes: string[];
}

export interface Manifest {
  format: number;
  id: string;
  kind: string;
  model: Model;
  text: string;
  normalized: string;
  to: string | null;
  sides: Record<string, Token[]>;
  /** The sample or uploaded file that was read, and the image of each side that is one. */
  image: string | null;
  images: Record<string, PatchImage>;
  output: OutputSummary & { complete: boolean; tokens: Token[]; nbest: OutputSummary[] };
  before: OutputSummary | null;
  difference: number | null;
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
  position: number;
  dimension: number;
  input: number[];
  weight: number[];
  bias: number | null;
  product: number;
  output: number[];
}

/** LayerNorm or RMSNorm of one vector. */
export interface Norm {
  kind: "layer" | "rms";
  input: number[];
  mean: number | null;
  variance: number;
  epsilon: number;
  gain: number[];
  bias: number[] | null;
  output: number[];
}

/** One number of what a sub-layer adds, as a sum, and add & norm around it. */
interface Added {
  matrix: string;
  row: number[];
  bias: number | null;
  product: number;
  before: number[];
  added: number[];
  after: number[];
  norm_position: "pre" | "post";
  norm: Norm | null;
}

export interface AttentionOutput extends Added {
  weights: number[];
  values: number[];
  head_output: number;
  heads: number[][];
}

export interface FeedForward extends Added {
  input: number[];
  /** The unit written out. */
  unit: number;
  unit_weight: number[];
  unit_bias: number | null;
  unit_input: number;
  unit_gate: number | null;
  /** Of one unit at all positions, and of all units at one position. */
  activations: number[];
  hidden: number[];
  active: number;
  strongest: { unit: number; activation: number; tokens: { position: number; piece: string; activation: number }[] }[];
}

export interface Readout {
  token: { id: number; piece: string };
  norm: Norm | null;
  state: number[];
  row: number[];
  bias: number | null;
  product: number;
  logit: number;
  largest: number;
  sum: number;
  probability: number;
  /** The most probable tokens, and their logits at every position. */
  candidates: { id: number; piece: string }[];
  logits: number[][];
}

export interface HeadSummary {
  layer: number;
  head: number;
  entropy: number;
  /** In positions, between patches in pixels; for cross-attention from the diagonal. */
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
  attentions: Record<string, { heads: HeadSummary[]; distance_unit: string }>;
  /** By attention between patches: what the output is read from, and the share of each position in it after every layer. */
  images: Record<string, { side: string; reader: string; weights: number[]; rollout: number[][]; even_distance: number }>;
  aligners: {
    how: string;
    /** `reads`: it looks for the source of the word that was read, not of the one being written. */
    ranked: { layer: number; head: number; score: number; reads: boolean }[];
    words: { source: string[]; target: string[]; links: [number, number][] };
  } | null;
  residual: Record<string, ResidualStep[]>;
  rollout: Record<string, number[][]>;
}

export interface Candidate {
  id: number;
  piece: string;
  /** Null for minus infinity. */
  logit: number | null;
  /** The model's own, and at the temperature. */
  own_probability: number;
  probability: number;
  sampling_probability: number;
  kept: boolean;
  /** The filter that cut it. */
  cut_by: string | null;
}

export interface NextToken extends Candidate {
  rank: number;
  /** It does not depend on the temperature. */
  log_prob: number | null;
}

export interface Logits {
  position: number;
  vocabulary: number;
  entropy: number;
  temperature: number;
  /** Whether a filter cuts tokens. */
  cuts: boolean;
  kept: number;
  kept_mass: number;
  top: Candidate[];
  next: NextToken | null;
}

export interface Lens {
  rows: string[];
  cells: { id: number; piece: string; probability: number }[][][];
  next: (number | null)[][];
}

/** (predicted tokens, source tokens) */
export interface Gradients {
  norms: number[][];
}

/** By method: how much each position of a side supports the output, and the probability without the most relevant ones. */
export interface Relevance {
  label: string;
  side: string;
  values: Record<string, number[]>;
  deletion: { shares: number[]; probability: Record<string, number[]>; comprehensiveness: Record<string, number> };
}

export interface Filters {
  title: string;
  says: string;
  images: PatchImage[];
}

export interface Contributions {
  heads: { attention: string; layer: number; head: number; change: number | null }[];
  log_prob: number;
}

export interface BeamNode {
  node: number;
  parent: number | null;
  step: number;
  id: number;
  piece: string;
  log_prob: number | null;
  sum_log_prob: number | null;
  score: number | null;
  state: "kept" | "dropped" | "finished";
  reason: string | null;
  best: boolean;
}

export interface Beam {
  beam: number;
  length_penalty: number;
  nodes: BeamNode[];
}

export interface Step {
  next: NextToken;
  top: Candidate[];
  /** The random number of a sampled token, and the part of 0 to 1 that picks each token, by id. */
  draw: { number: number; parts: Record<string, [number, number]> } | null;
  /** The text without the next token, and with it. */
  read: string;
  text: string;
  ended: boolean;
  positions: number;
  cache: { layers: number; heads: number; head_size: number; positions: number; bytes: number } | null;
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
  positions: number[][];
  similarity: number[][][];
  nearest: Near[][];
}

/** Where the page gets its traces from: a server, or the file it is in. */
export interface TraceSource {
  /** Whether it can run a model: edit, intervene, continue. */
  readonly live: boolean;
  /** How many numbers of each vector can be written out as sums; a file has few of the weights. */
  readonly numbers: number;
  models(): Promise<Models>;
  lessons(model: string): Promise<Guide>;
  samples(model: string): Promise<{ samples: string[] }>;
  upload(file: File): Promise<{ image: string }>;
  tokenize(model: string, text: string): Promise<Tokenized>;
  positions(model: string, positions: number): Promise<Slab & { kind: string }>;
  /** Resolves once the output is known; tensors follow while the pass runs. */
  trace(request: TraceRequest, signal?: AbortSignal): Promise<Manifest>;
  /** The manifest after the pass has finished, with log-probabilities, difference and seconds. */
  whole(trace: Manifest, signal?: AbortSignal): Promise<Manifest>;
  tensor(trace: Manifest, name: string, part: Part): Promise<Slab>;
  projection(
    trace: Manifest,
    query: { attention: string; layer: number; head: number; position: number; part: string; dimension: number },
  ): Promise<Projection>;
  attentionOutput(
    trace: Manifest,
    query: { attention: string; layer: number; head: number; position: number; dimension: number; output: number },
  ): Promise<AttentionOutput>;
  feedforward(
    trace: Manifest,
    query: { stack: string; layer: number; position: number; unit?: number; output: number },
  ): Promise<FeedForward>;
  /** The units of a feed-forward network at every position. */
  units(trace: Manifest, query: { stack: string; layer: number }): Promise<Slab>;
  readout(trace: Manifest, query: { position: number; token?: number }): Promise<Readout>;
  summaries(trace: Manifest): Promise<Summaries>;
  logits(
    trace: Manifest,
    query: { position: number; top: number; temperature?: number; top_k?: number; top_p?: number; min_p?: number },
  ): Promise<Logits>;
  lens(trace: Manifest): Promise<Lens>;
  gradients(trace: Manifest): Promise<Gradients>;
  relevance(trace: Manifest): Promise<Relevance>;
  filters(trace: Manifest): Promise<Filters>;
  contributions(trace: Manifest): Promise<Contributions>;
  beam(trace: Manifest): Promise<Beam>;
  step(request: TraceRequest & { generated: number[] }): Promise<Step>;
  neighbours(model: string, word: string, count: number): Promise<Neighbours>;
  contexts(model: string, word: string, texts: string[]): Promise<Contexts>;
}

/** An error as one line to show. `gone`: the server no longer has the trace. */
export class RequestError extends Error {
  constructor(
    line: string,
    readonly field: string | null = null,
    readonly gone = false,
  ) {
    super(line);
  }
}

/** The server did not answer, or could not; the same request may succeed later. */
export class UnavailableError extends RequestError {}
