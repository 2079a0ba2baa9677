// The vectors and weights of the followed token.

import { before } from "../block";
import type { Attention, Manifest, Slab, Stack, TensorEntry } from "../contract";
import { numbers, pythonName, tensorOf } from "../explorer.svelte";
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

/** The weights of every head at the followed position: heads × keys. */
export async function weightsAt(trace: Manifest, attention: Attention, layer: number): Promise<Slab> {
  const query = followed(trace, attention.queries);
  return numbers(trace, tensorOf(trace, "weights", { attention: attention.name }), { layer, query });
}
