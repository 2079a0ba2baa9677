// A trace inlined in the page itself; needs no server.

import {
  RequestError,
  type Beam,
  type Filters,
  type Gradients,
  type Lens,
  type Logits,
  type Manifest,
  type Models,
  type Part,
  type Relevance,
  type Slab,
  type Summaries,
  type TensorEntry,
  type TraceSource,
} from "./contract";
import { InlinedBlock, type BlockFile, type Packed } from "./inlined_block";
import { weightIndex } from "./drawing/scales";

interface File {
  manifest: Manifest;
  glossary: Models["glossary"];
  summaries: Summaries;
  lens: Lens | null;
  gradients: Gradients | null;
  relevance: Relevance | null;
  filters: Filters | null;
  beam: Beam | null;
  logits: Record<string, Logits>;
  tensors: Record<string, Packed>;
  block: BlockFile | null;
  positions?: { kind: string; shape: number[]; data: string };
}

function bytes(data: string): ArrayBuffer {
  const text = atob(data);
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out.buffer;
}

function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function unpack({ dtype, shape, data }: Packed): Slab {
  const buffer = bytes(data);
  const values = dtype === "f32" ? new Float32Array(buffer) : Float32Array.from(new Uint16Array(buffer), half);
  return { shape, values };
}

/** One index of an axis; the axis is removed. */
function pick({ shape, values }: Slab, axis: number, index: number): Slab {
  const inner = shape.slice(axis + 1).reduce((a, b) => a * b, 1);
  const outer = shape.slice(0, axis).reduce((a, b) => a * b, 1);
  const out = new Float32Array(outer * inner);
  for (let i = 0; i < outer; i++) {
    const from = (i * shape[axis] + index) * inner;
    out.set(values.subarray(from, from + inner), i * inner);
  }
  return { shape: shape.toSpliced(axis, 1), values: out };
}

/** The last two axes max-pooled to at most `most` cells. */
function pool({ shape, values }: Slab, most: number): Slab {
  const [rows, columns] = shape.slice(-2);
  const high = Math.min(rows, most);
  const wide = Math.min(columns, most);
  if (high === rows && wide === columns) return { shape, values };
  const planes = values.length / (rows * columns);
  const out = new Float32Array(planes * high * wide);
  for (let plane = 0; plane < planes; plane++)
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++) {
        const at = (plane * high + Math.floor((row * high) / rows)) * wide + Math.floor((column * wide) / columns);
        out[at] = Math.max(out[at], values[(plane * rows + row) * columns + column]);
      }
  return { shape: [...shape.slice(0, -2), high, wide], values: out };
}

const missing = () => Promise.reject(new RequestError("This file has no model. Use `clearhead explore` for that."));

export class InlinedSource implements TraceSource {
  readonly live = false;
  readonly numbers: number;
  private readonly unpacked = new Map<Packed, Slab>();
  private readonly block: InlinedBlock | null;

  constructor(private readonly file: File) {
    this.numbers = file.block?.numbers ?? 0;
    const read = (entry: TensorEntry, part: Part) => this.slice(entry, part);
    this.block = file.block && new InlinedBlock(file.block, (packed) => this.once(packed), read);
  }

  models = async () => ({
    version: "",
    glossary: this.file.glossary,
    models: [
      {
        name: this.file.manifest.model.name,
        kind: this.file.manifest.kind,
        input: this.file.manifest.model.input,
        loaded: true,
      },
    ],
  });
  lessons = missing;
  samples = missing;
  upload = missing;
  trace = async () => this.file.manifest;
  whole = async () => this.file.manifest;
  summaries = async () => this.file.summaries;
  lens = async () => this.file.lens ?? missing();
  gradients = async () => this.file.gradients ?? missing();
  relevance = async () => this.file.relevance ?? missing();
  filters = async () => this.file.filters ?? missing();
  tokenize = missing;
  projection: TraceSource["projection"] = async (trace, query) => this.block!.projection(trace, query);
  attentionOutput: TraceSource["attentionOutput"] = async (trace, query) => this.block!.attentionOutput(trace, query);
  feedforward: TraceSource["feedforward"] = async (trace, query) => this.block!.feedforward(trace, query);
  units: TraceSource["units"] = async (_, query) => this.block!.units(query);
  readout: TraceSource["readout"] = async (trace, query) => this.block!.readout(trace, query);
  contributions = missing;
  step = missing;
  neighbours = missing;
  contexts = missing;

  async beam(): Promise<Beam> {
    return this.file.beam ?? missing();
  }

  async logits(_: Manifest, query: { position: number }): Promise<Logits> {
    return this.file.logits[String(query.position)] ?? missing();
  }

  async positions(): Promise<Slab & { kind: string }> {
    const saved = this.file.positions;
    return saved ? { shape: saved.shape, kind: saved.kind, values: new Float32Array(bytes(saved.data)) } : missing();
  }

  async tensor(trace: Manifest, name: string, part: Part): Promise<Slab> {
    const slab = this.slice(
      trace.tensors.find((one) => one.name === name)!,
      part,
    );
    return part.dtype === "u8s" ? { shape: slab.shape, values: Uint8Array.from(slab.values, weightIndex) } : slab;
  }

  private slice(entry: TensorEntry, part: Part): Slab {
    const packed = this.file.tensors[entry.name];
    if (!packed) throw new RequestError(`${entry.name} is not in this file.`);
    let slab = this.once(packed);
    let axes = entry.axes;
    for (const [wanted, index] of [
      ["layers", part.layer],
      ["heads", part.head],
      ["queries", part.query],
      ["positions", part.query],
    ] as const) {
      const axis = axes.indexOf(wanted);
      if (index === undefined || axis < 0) continue;
      slab = pick(slab, axis, index);
      axes = axes.toSpliced(axis, 1);
    }
    return part.pool ? pool(slab, part.pool) : slab;
  }

  private once(packed: Packed): Slab {
    const known = this.unpacked.get(packed);
    if (known) return known;
    const slab = unpack(packed);
    this.unpacked.set(packed, slab);
    return slab;
  }
}
