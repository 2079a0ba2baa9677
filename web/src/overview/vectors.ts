// The vectors and weights of the followed token.

import { before } from "../block";
import type { Attention, Manifest, Stack, TensorEntry } from "../contract";
import { argmax } from "../drawing/numbers";
import { numbers, pythonName, tensorOf } from "../explorer.svelte";
import { isMuted } from "../intervene/edits.svelte";
import { followed } from "./route";

export interface Vector {
  values: ArrayLike<number>;
  label: string;
  /** The Python that reads one of its numbers. */
  name: (dimension: number) => string;
}

/** A family of models need not record every tensor. */
export class MissingError extends Error {}

/** The vector of a role at the followed position, and the Python that reads it. */
export async function vector(
  trace: Manifest,
  role: string,
  of: { side?: string; stack?: string; sublayer?: string },
  side: string,
  label: string,
  layer?: number,
): Promise<Vector> {
  return read(trace, tensorOf(trace, role, of), side, label, layer);
}

async function read(
  trace: Manifest,
  entry: TensorEntry | undefined,
  side: string,
  label: string,
  layer?: number,
): Promise<Vector> {
  if (!entry) throw new MissingError();
  const query = followed(trace, side);
  const { values } = await numbers(trace, entry, { layer, query });
  return { values, label, name: (dimension) => pythonName(entry, layer ?? null, query, dimension) };
}

/** The stream that a sub-layer reads. */
export async function streamInto(trace: Manifest, stack: Stack, sublayer: string, layer: number): Promise<Vector> {
  const { entry, part } = before(trace, stack, layer, sublayer);
  return read(trace, entry, stack.side, "stream", part.layer);
}

export const streamAfter = (trace: Manifest, stack: Stack, sublayer: string, layer: number) =>
  vector(trace, "stream", { stack: stack.name, sublayer }, stack.side, "stream", layer);

export const added = (trace: Manifest, stack: Stack, sublayer: string, layer: number) =>
  vector(trace, "added", { stack: stack.name, sublayer }, stack.side, "added", layer);

/** The sum around a sub-layer; where a norm follows, the stream of the trace is the one after it. */
export async function sumAfter(trace: Manifest, stack: Stack, sublayer: string, layer: number): Promise<Vector> {
  if (trace.model.norm_position !== "post") return streamAfter(trace, stack, sublayer, layer);
  const [earlier, more] = await Promise.all([streamInto(trace, stack, sublayer, layer), added(trace, stack, sublayer, layer)]);
  const values = Float32Array.from(earlier.values, (one, i) => one + more.values[i]);
  return { values, label: "sum", name: (at) => `${earlier.name(at)} + ${more.name(at)}` };
}

export interface HeadWeights {
  head: number;
  /** Without effect on the output. */
  muted: boolean;
  weights: ArrayLike<number>;
  /** The key with the largest weight. */
  key: number;
}

/** The weights of every head at the followed position. */
export async function headsAt(trace: Manifest, attention: Attention, layer: number): Promise<HeadWeights[]> {
  const entry = tensorOf(trace, "weights", { attention: attention.name });
  const { values, shape } = await numbers(trace, entry, { layer, query: followed(trace, attention.queries) });
  return Array.from({ length: shape[0] }, (_, head) => {
    const weights = values.slice(head * shape[1], (head + 1) * shape[1]);
    return { head, muted: isMuted(trace, attention, layer, head), weights, key: argmax(weights) };
  });
}

/** The head that gives a key the largest weight, without muted ones; undefined if all are. */
export function strongest(heads: HeadWeights[], keyOf: (head: HeadWeights) => number): HeadWeights | undefined {
  const heard = heads.filter((one) => !one.muted);
  return heard[argmax(heard.map((one) => one.weights[keyOf(one)]))];
}
