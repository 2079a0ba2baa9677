// What differs between two traces: tokens that both have, and their numbers, right minus left.

import { tensorOf } from "../block";
import type { Manifest, Part, Slab, TensorEntry, Token } from "../contract";

/** Positions of the same token in both traces. */
export type Pairs = [number, number][];

const nameOf = ({ piece }: Token): string => piece.replace(/^[▁Ġ ]/, "");

/** The longest common subsequence of two token lists. */
export function align(left: Token[], right: Token[]): Pairs {
  const [a, b] = [left.map(nameOf), right.map(nameOf)];
  const wide = b.length + 1;
  const best = new Uint16Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i * wide + j] =
        a[i] === b[j] ? best[(i + 1) * wide + j + 1] + 1 : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
  const pairs: Pairs = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (best[(i + 1) * wide + j] >= best[i * wide + j + 1]) i++;
    else j++;
  }
  return pairs;
}

/** Right minus left of two matrices, at the rows and columns that both have; all columns without `columns`. */
export function difference(left: Slab, right: Slab, rows: Pairs, columns?: Pairs): Float32Array {
  const across = columns ?? Array.from({ length: left.shape[1] }, (_, i) => [i, i] as [number, number]);
  const out = new Float32Array(rows.length * across.length);
  rows.forEach(([a, b], r) =>
    across.forEach(([c, d], k) => {
      out[r * across.length + k] = right.values[b * right.shape[1] + d] - left.values[a * left.shape[1] + c];
    }),
  );
  return out;
}

/** Each layer and head: the mean over queries of half the sum of |difference|, 0 for equal rows and 1 for disjoint ones. */
export function headDifferences(left: Slab, right: Slab, rows: Pairs, columns: Pairs): Float32Array {
  const [layers, heads] = [0, 1].map((axis) => Math.min(left.shape[axis], right.shape[axis]));
  const out = new Float32Array(layers * heads);
  const plane = ({ shape, values }: Slab, layer: number, head: number): Slab => {
    const size = shape[2] * shape[3];
    const begin = (layer * shape[1] + head) * size;
    return { shape: shape.slice(2), values: (values as Float32Array).subarray(begin, begin + size) };
  };
  for (let layer = 0; layer < layers; layer++)
    for (let head = 0; head < heads; head++) {
      const cells = difference(plane(left, layer, head), plane(right, layer, head), rows, columns);
      out[layer * heads + head] = cells.reduce((sum, one) => sum + Math.abs(one), 0) / 2 / Math.max(1, rows.length);
    }
  return out;
}

/** Each layer and token: the norm of the difference relative to the norm on the left. */
export function streamDifferences(left: Slab, right: Slab, rows: Pairs): Float32Array {
  const [layers, width] = [Math.min(left.shape[0], right.shape[0]), left.shape[2]];
  const out = new Float32Array(layers * rows.length);
  for (let layer = 0; layer < layers; layer++)
    rows.forEach(([a, b], r) => {
      let [changed, before] = [0, 0];
      for (let i = 0; i < width; i++) {
        const old = left.values[(layer * left.shape[1] + a) * width + i];
        changed += (right.values[(layer * right.shape[1] + b) * width + i] - old) ** 2;
        before += old ** 2;
      }
      out[layer * rows.length + r] = Math.sqrt(changed / (before || 1));
    });
  return out;
}

/** A tensor that a view is about, and the sides of its axes. */
export interface Subject {
  title: string;
  entry: TensorEntry | undefined;
  part: Part;
  rows: string;
  columns?: string;
}

interface Chosen {
  attention: string;
  layer: number;
  head: number;
  part: string;
}

/** The matrix that a view compares; undefined for views that are compared otherwise, or not at all. */
export function subjectOf(trace: Manifest, view: string, chosen: Chosen): Subject | undefined {
  const all = trace.model.attentions;
  const wanted = view === "cross" ? all.find((one) => one.kind === "cross") : all.find((one) => one.name === chosen.attention);
  const attention = wanted ?? all[0];
  const { layer, head } = chosen;
  const stack = trace.model.stacks.find((one) => one.name === attention?.stack) ?? trace.model.stacks.at(-1);
  const part = { layer, head };
  const of = { attention: attention?.name };
  const one = `layer ${layer}, head ${head}`;
  switch (view) {
    case "embedding":
    case "tokens": {
      const side = Object.keys(trace.sides)[0];
      return { title: "input of the first layer", entry: tensorOf(trace, "embedding", { side }), part: {}, rows: side };
    }
    case "softmax":
    case "head":
    case "cross":
      if (!attention) return undefined;
      return {
        title: `weights α of ${attention.name}, ${one}`,
        entry: tensorOf(trace, "weights", of),
        part,
        rows: attention.queries,
        columns: attention.keys,
      };
    case "projections": {
      if (!attention) return undefined;
      const role = ["keys", "values"].includes(chosen.part) ? chosen.part : "queries";
      const rows = role === "queries" ? attention.queries : attention.keys;
      return { title: `${role} of ${one}`, entry: tensorOf(trace, role, of), part, rows };
    }
    case "mix":
      if (!attention) return undefined;
      return { title: `weights · V of ${one}`, entry: tensorOf(trace, "head_output", of), part, rows: attention.queries };
    case "feedforward":
      if (!stack) return undefined;
      return {
        title: `what the feed-forward network of layer ${layer} adds`,
        entry: tensorOf(trace, "added", { stack: stack.name, sublayer: "feedforward" }),
        part: { layer: Math.min(layer, stack.layers - 1) },
        rows: stack.side,
      };
    case "readout": {
      const last = trace.model.stacks.find((one) => one.side === trace.model.output_side);
      return (
        last && {
          title: "states that are read out",
          entry: tensorOf(trace, "states", { stack: last.name }),
          part: {},
          rows: last.side,
        }
      );
    }
  }
  return undefined;
}
