// A block written out from what a saved file holds: norms, some rows of the matrices, and the units.

import type {
  AttentionOutput,
  FeedForward,
  Manifest,
  Norm,
  Part,
  Projection,
  Readout,
  Slab,
  Stack,
  TensorEntry,
} from "./contract";
import { before, mapRows, normalize, rowOf, sublayerOf, tensorOf, type NormWeights } from "./block";
import { dot } from "./drawing/numbers";

export interface Packed {
  dtype: "f32" | "f16";
  shape: number[];
  data: string;
}

interface Rows {
  index: number[];
  weight: Packed;
  bias: number[] | null;
}

interface PackedNorm {
  kind: "layer" | "rms";
  position: "pre" | "post" | null;
  epsilon: number;
  gain: Packed;
  bias: Packed | null;
}

export interface BlockFile {
  /** How many numbers of each vector have their weights in the file. */
  numbers: number;
  norms: Record<string, PackedNorm | null>;
  rows: Record<string, Rows & { sizes?: number[] }>;
  units: Record<string, { hidden: Packed; strongest: FeedForward["strongest"][] }>;
  readout:
    | (Rows & {
        pieces: string[];
        logits: Packed;
        positions: { token: number; candidates: number[]; largest: number; sum: number }[];
      })
    | null;
}

type Read = (entry: TensorEntry, part: Part) => Slab;

const RESIDUALS: Record<string, string> = {
  attention: "attention_residual",
  cross_attention: "cross_residual",
  feedforward: "feedforward_residual",
};
const PARTS = ["queries", "keys", "values"];
const named = (trace: Manifest, attention: string) => trace.model.attentions.find((one) => one.name === attention)!;
const silu = (x: number) => x / (1 + Math.exp(-x));

export class InlinedBlock {
  constructor(
    private readonly file: BlockFile,
    private readonly unpack: (packed: Packed) => Slab,
    private readonly read: Read,
  ) {}

  projection(
    trace: Manifest,
    query: { attention: string; layer: number; head: number; position: number; part: string; dimension: number },
  ): Projection {
    const { layer, head, position, part, dimension } = query;
    const attention = named(trace, query.attention);
    const path = attention.path.replace("*", String(layer));
    const rows = this.file.rows[`${path}.project`];
    const at = PARTS.indexOf(part);
    const size = attention.head_size;
    // With grouped-query attention, several query heads share one head of keys and values.
    const group = Math.floor((head * rows.sizes![at]) / rows.sizes![0]);
    const row = rows.sizes!.slice(0, at).reduce((a, b) => a + b, 0) + group * size + dimension;
    const input = Array.from(this.attentionInput(trace, query.attention, layer, part, position));
    const { weight, bias, product } = this.sum(rows, row, input);
    const output = rowOf(this.tensor(trace, part, { attention: attention.name }, { layer, head }), position);
    const side = part === "queries" ? attention.queries : attention.keys;
    return { name: `${path}.project`, part, side, position, dimension, input, weight, bias, product, output: Array.from(output) };
  }

  attentionOutput(
    trace: Manifest,
    query: { attention: string; layer: number; head: number; position: number; dimension: number; output: number },
  ): AttentionOutput {
    const { layer, head, position, dimension } = query;
    const attention = named(trace, query.attention);
    const of = { attention: attention.name };
    const path = attention.path.replace("*", String(layer));
    const values = this.tensor(trace, "values", of, { layer, head });
    const heads = Array.from({ length: attention.heads }, (_, i) =>
      Array.from(rowOf(this.tensor(trace, "head_output", of, { layer, head: i }), position)),
    );
    const { weight, bias, product } = this.sum(this.file.rows[`${path}.output`], query.output, heads.flat());
    return {
      weights: Array.from(rowOf(this.tensor(trace, "weights", of, { layer, head }), position)),
      values: Array.from({ length: values.shape[0] }, (_, i) => rowOf(values, i)[dimension]),
      head_output: heads[head][dimension],
      heads,
      matrix: `${path}.output.weight`,
      row: weight,
      bias,
      product,
      ...this.residual(trace, this.stack(trace, attention.stack), layer, sublayerOf(attention.path), position),
    };
  }

  feedforward(
    trace: Manifest,
    query: { stack: string; layer: number; position: number; unit?: number; output: number },
  ): FeedForward {
    const { layer, position, unit, output } = query;
    const stack = this.stack(trace, query.stack);
    const path = `${stack.name}.blocks.${layer}.feedforward`;
    const { strongest } = this.file.units[path];
    const all = this.units(query);
    const hidden = Array.from(rowOf(all, position));
    const input = Array.from(rowOf(this.sublayerInput(trace, stack, layer, "feedforward"), position));
    // A unit that is strong nowhere has no weights in the file.
    const known = unit !== undefined && this.file.rows[`${path}.inner`].index.includes(unit) ? unit : strongest[position][0].unit;
    const inner = this.sum(this.file.rows[`${path}.inner`], known, input);
    const gate = this.file.rows[`${path}.gate`];
    const outer = this.sum(this.file.rows[`${path}.outer`], output, hidden);
    return {
      input,
      unit: known,
      unit_weight: inner.weight,
      unit_bias: inner.bias,
      unit_input: inner.product,
      unit_gate: gate ? silu(this.sum(gate, known, input).product) : null,
      activations: Array.from({ length: all.shape[0] }, (_, i) => rowOf(all, i)[known]),
      hidden,
      active: hidden.filter((one) => one !== 0).length,
      strongest: strongest[position],
      matrix: `${path}.outer.weight`,
      row: outer.weight,
      bias: outer.bias,
      product: outer.product,
      ...this.residual(trace, stack, layer, "feedforward", position),
    };
  }

  units({ stack, layer }: { stack: string; layer: number }): Slab {
    return this.unpack(this.file.units[`${stack}.blocks.${layer}.feedforward`].hidden);
  }

  readout(trace: Manifest, { position, token }: { position: number; token?: number }): Readout {
    const all = this.file.readout!;
    const { token: next, candidates, largest, sum } = all.positions[position];
    const id = token !== undefined && all.index.includes(token) ? token : next;
    const logits = this.unpack(all.logits);
    const column = (one: number) => all.index.indexOf(one);
    const piece = (one: number) => ({ id: one, piece: all.pieces[column(one)] });
    const shown = candidates.includes(id) ? candidates : [...candidates, id];
    const stack = trace.model.stacks.at(-1)!;
    const last = this.tensor(
      trace,
      "stream",
      { stack: stack.name, sublayer: stack.sublayers.at(-1) },
      { layer: stack.layers - 1 },
    );
    const state = Array.from(rowOf(this.tensor(trace, "states", { stack: stack.name }, {}), position));
    const { weight, bias, product } = this.sum(all, id, state);
    const logit = rowOf(logits, position)[column(id)];
    return {
      token: piece(id),
      norm: this.norm(`${stack.name}.norm`, rowOf(last, position)),
      state,
      row: weight,
      bias,
      product,
      logit,
      largest,
      sum,
      probability: Math.exp(logit - largest) / sum,
      candidates: shown.map(piece),
      logits: Array.from({ length: logits.shape[0] }, (_, i) => shown.map((one) => rowOf(logits, i)[column(one)])),
    };
  }

  private stack = (trace: Manifest, name: string | null): Stack => trace.model.stacks.find((one) => one.name === name)!;

  private tensor(trace: Manifest, role: string, of: Parameters<typeof tensorOf>[2], part: Part): Slab {
    return this.read(tensorOf(trace, role, of)!, part);
  }

  /** One row of a matrix times a vector. */
  private sum(rows: Rows, row: number, x: ArrayLike<number>): { weight: number[]; bias: number | null; product: number } {
    const at = rows.index.indexOf(row);
    const weight = rowOf(this.unpack(rows.weight), at);
    const bias = rows.bias ? rows.bias[at] : null;
    return { weight: Array.from(weight), bias, product: dot(x, weight) + (bias ?? 0) };
  }

  private weights(path: string): (NormWeights & { position: "pre" | "post" | null }) | null {
    const packed = this.file.norms[path];
    if (!packed) return null;
    const list = (one: Packed | null) => (one ? Array.from(this.unpack(one).values) : null);
    return { ...packed, gain: list(packed.gain)!, bias: list(packed.bias) };
  }

  private norm(path: string, x: ArrayLike<number>): Norm | null {
    const weights = this.weights(path);
    return weights && normalize(weights, x);
  }

  private stream(trace: Manifest, stack: Stack, layer: number, sublayer: string): Slab {
    const { entry, part } = before(trace, stack, layer, sublayer);
    return this.read(entry, part);
  }

  /** What a sub-layer reads: the stream, normalized in a pre-norm model. */
  private sublayerInput(trace: Manifest, stack: Stack, layer: number, sublayer: string): Slab {
    const stream = this.stream(trace, stack, layer, sublayer);
    const weights = this.weights(`${stack.name}.blocks.${layer}.${RESIDUALS[sublayer]}.norm`);
    return weights?.position === "pre" ? mapRows(stream, (row) => normalize(weights, row).output) : stream;
  }

  private attentionInput(trace: Manifest, name: string, layer: number, part: string, position: number): Float32Array {
    const attention = named(trace, name);
    if (attention.kind === "cross" && part !== "queries") {
      const source = trace.model.stacks.find((one) => one.side === attention.keys)!;
      return rowOf(this.tensor(trace, "states", { stack: source.name }, {}), position);
    }
    return rowOf(this.sublayerInput(trace, this.stack(trace, attention.stack), layer, sublayerOf(attention.path)), position);
  }

  private residual(trace: Manifest, stack: Stack, layer: number, sublayer: string, position: number) {
    const of = { stack: stack.name, sublayer };
    const row = (role: string) => Array.from(rowOf(this.tensor(trace, role, of, { layer }), position));
    const given = Array.from(rowOf(this.stream(trace, stack, layer, sublayer), position));
    const [added, after] = [row("added"), row("stream")];
    const path = `${stack.name}.blocks.${layer}.${RESIDUALS[sublayer]}.norm`;
    const norm_position = this.file.norms[path]?.position ?? "pre";
    const norm = this.norm(path, norm_position === "pre" ? given : given.map((one, i) => one + added[i]));
    return { before: given, added, after, norm_position, norm };
  }
}
