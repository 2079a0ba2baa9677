// The list of views, and which traces have them.

import type { Component } from "svelte";
import type { Manifest, TraceSource } from "./contract";
import { readsImage, withinImage } from "./explorer.svelte";
import Backoff from "./views/Backoff.svelte";
import Beam from "./views/Beam.svelte";
import Cross from "./views/Cross.svelte";
import Embedding from "./views/Embedding.svelte";
import Gates from "./views/Gates.svelte";
import FeedForward from "./views/FeedForward.svelte";
import Generate from "./views/Generate.svelte";
import Gradient from "./views/Gradient.svelte";
import Head from "./views/Head.svelte";
import Heads from "./views/Heads.svelte";
import Looks from "./views/Looks.svelte";
import Logits from "./views/Logits.svelte";
import Mix from "./views/Mix.svelte";
import Patches from "./views/Patches.svelte";
import Projections from "./views/Projections.svelte";
import Readout from "./views/Readout.svelte";
import Regions from "./views/Regions.svelte";
import Relevance from "./views/Relevance.svelte";
import Residual from "./views/Residual.svelte";
import Softmax from "./views/Softmax.svelte";
import TextTokens from "./views/TextTokens.svelte";
import Vectors from "./views/Vectors.svelte";

export interface View {
  id: string;
  title: string;
  says: string;
  show: Component<{ trace: Manifest }>;
  has?: (trace: Manifest, source: TraceSource) => boolean;
  /** Runs the model again, so a saved file cannot show it. */
  live?: boolean;
}

const part =
  (name: string) =>
  (trace: Manifest): boolean =>
    trace.parts.includes(name);

const seesImage = (trace: Manifest): boolean => Object.keys(trace.images).length > 0;

const attends = (trace: Manifest): boolean => trace.model.attentions.length > 0;

export const VIEWS: View[] = [
  {
    id: "patches",
    title: "Image → patches",
    says: "what the model reads",
    show: Patches,
    has: seesImage,
  },
  {
    id: "regions",
    title: "Words → regions",
    says: "where each word looks",
    show: Regions,
    has: (trace) => trace.model.attentions.some((one) => readsImage(trace, one)),
  },
  {
    id: "looks",
    title: "Over the image",
    says: "heads, rollout, distance",
    show: Looks,
    has: (trace) => trace.model.attentions.some((one) => withinImage(trace, one)),
  },
  {
    id: "tokens",
    title: "Text → tokens",
    says: "what the model reads",
    show: TextTokens,
    has: (trace) => Object.keys(trace.sides).some((side) => !trace.images[side]),
  },
  {
    id: "relevance",
    title: "Relevance",
    says: "what supports the class",
    show: Relevance,
    has: part("relevance"),
  },
  {
    id: "embedding",
    title: "Embedding + position",
    says: "tokens become vectors",
    show: Embedding,
    has: (trace) => trace.tensors.some((one) => one.role === "embedding"),
  },
  { id: "projections", title: "Q, K, V", says: "x · W with real numbers", show: Projections, has: part("projection") },
  { id: "softmax", title: "Scores → softmax", says: "one row as arithmetic", show: Softmax, has: attends },
  {
    id: "mix",
    title: "Attention output",
    says: "weights · V, W_O, add & norm",
    show: Mix,
    has: part("projection"),
  },
  { id: "heads", title: "Heads", says: "all heads, by role", show: Heads, has: attends },
  { id: "head", title: "One head", says: "lines, matrix, text", show: Head, has: attends },
  {
    id: "cross",
    title: "Cross-attention",
    says: "which word became which",
    show: Cross,
    has: (trace) => trace.model.attentions.some((one) => one.kind === "cross" && !trace.images[one.keys]),
  },
  {
    id: "feedforward",
    title: "Feed-forward",
    says: "units and what excites them",
    show: FeedForward,
    has: part("feedforward"),
  },
  {
    id: "residual",
    title: "Residual stream",
    says: "what each sub-layer adds",
    show: Residual,
    has: (trace) => trace.tensors.some((one) => one.role === "stream"),
  },
  {
    id: "gates",
    title: "Gates",
    says: "what is kept over time",
    show: Gates,
    has: (trace) => trace.tensors.some((one) => one.recurrence),
  },
  {
    id: "gradient",
    title: "Gradient",
    says: "of each source word",
    show: Gradient,
    has: part("gradients"),
  },
  {
    id: "readout",
    title: "Readout",
    says: "final norm, logit, softmax",
    show: Readout,
    has: part("readout"),
  },
  { id: "logits", title: "Next token", says: "logits, filters, logit lens", show: Logits, has: part("logits") },
  {
    id: "backoff",
    title: "Backoff",
    says: "which n-grams predict",
    show: Backoff,
    has: (trace) => trace.tensors.some((one) => one.role === "orders"),
  },
  { id: "beam", title: "Beam tree", says: "every path the search tried", show: Beam, has: part("beam") },
  {
    id: "generate",
    title: "Generate",
    says: "one token at a time",
    show: Generate,
    has: (trace) => trace.model.generates,
    live: true,
  },
  {
    id: "vectors",
    title: "Vectors",
    says: "neighbours and context",
    show: Vectors,
    live: true,
    has: ({ model }) =>
      model.input === "text" && model.width !== null && model.tokenizer !== null && model.tokenizer !== "character",
  },
];

export const viewOf = (id: string): View => VIEWS.find((view) => view.id === id) ?? VIEWS[0];
