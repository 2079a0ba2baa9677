// The arithmetic of a block that the page does itself: the stream before a sub-layer, and norms.

import type { Manifest, Norm, Part, Slab, Stack, TensorEntry } from "./contract";

/** What a norm is made of, without a vector. */
export type NormWeights = Pick<Norm, "kind" | "epsilon" | "gain" | "bias">;

export function normalize(norm: NormWeights, input: ArrayLike<number>): Norm {
  const x = Array.from(input);
  const mean = norm.kind === "layer" ? x.reduce((sum, one) => sum + one, 0) / x.length : 0;
  const variance = x.reduce((sum, one) => sum + (one - mean) ** 2, 0) / x.length;
  const root = Math.sqrt(variance + norm.epsilon);
  const output = x.map((one, i) => ((one - mean) / root) * norm.gain[i] + (norm.bias?.[i] ?? 0));
  return { ...norm, input: x, mean: norm.kind === "layer" ? mean : null, variance, output };
}

export const rowOf = ({ shape, values }: Slab, at: number): Float32Array =>
  (values as Float32Array).subarray(at * shape[1], (at + 1) * shape[1]);

/** A matrix with each row replaced. */
export function mapRows(slab: Slab, make: (row: Float32Array) => ArrayLike<number>): Slab {
  const values = new Float32Array(slab.values.length);
  for (let i = 0; i < slab.shape[0]; i++) values.set(make(rowOf(slab, i)), i * slab.shape[1]);
  return { shape: slab.shape, values };
}

type Owner = Partial<Pick<TensorEntry, "attention" | "side" | "stack" | "sublayer" | "recurrence">>;

/** The tensor with a role, and of an attention, side, stack, sub-layer or recurrence. */
export function tensorOf(trace: Manifest, role: string, of: Owner = {}): TensorEntry | undefined {
  return trace.tensors.find(
    (one) => one.role === role && Object.entries(of).every(([key, wanted]) => one[key as keyof Owner] === wanted),
  );
}

/** Which tensor holds the stream before a sub-layer, and which of its layers. */
export function before(trace: Manifest, stack: Stack, layer: number, sublayer: string): { entry: TensorEntry; part: Part } {
  const find = (role: string, of: Owner) => tensorOf(trace, role, of)!;
  const at = stack.sublayers.indexOf(sublayer);
  if (at) return { entry: find("stream", { stack: stack.name, sublayer: stack.sublayers[at - 1] }), part: { layer } };
  if (!layer) return { entry: find("embedding", { side: stack.side }), part: {} };
  return { entry: find("stream", { stack: stack.name, sublayer: stack.sublayers.at(-1) }), part: { layer: layer - 1 } };
}

/** The sub-layer of a block that an attention is. */
export const sublayerOf = (path: string): string => path.split(".").at(-1)!;
