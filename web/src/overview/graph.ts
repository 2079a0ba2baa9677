// The architecture as boxes in lanes, one lane for each side of the input; drawn like Figure 1 of Vaswani et al. 2017.

import type { Attention, Manifest, Stack } from "../contract";
import { counted } from "../drawing/numbers";
import { outputSide, readsImage, tensorOf } from "../explorer.svelte";

export type Kind =
  | "tokens"
  | "embedding"
  | "position"
  | "norm"
  | "attention"
  | "feedforward"
  | "add"
  | "recurrence"
  | "ngrams"
  | "readout"
  | "softmax"
  | "class"
  | "output";

export interface Node {
  id: string;
  kind: Kind;
  title: string;
  detail: string;
  side: string;
  /** The view that it opens. */
  view: string;
  stack?: Stack;
  sublayer?: string;
  attention?: Attention;
  recurrence?: string;
  /** Drawn without an arrow from the box before it. */
  attached?: boolean;
}

export interface Link {
  kind: "residual" | "cross" | "position";
  from: string;
  to: string;
}

export interface Lane {
  side: string;
  nodes: Node[];
  /** Boxes beside the lane. */
  beside: Node[];
}

export interface Graph {
  lanes: Lane[];
  links: Link[];
}

export const SUBLAYERS: Record<string, string> = {
  attention: "self-attention",
  cross_attention: "cross-attention",
  feedforward: "feed-forward",
};
const CELLS: Record<string, string> = { rnn: "RNN", gru: "GRU", lstm: "LSTM" };
const NORMS: Record<string, string> = { layer: "LayerNorm", rms: "RMSNorm" };
const count = (n: number | null) => n?.toLocaleString("en") ?? "";
/** The last part of its path. */
export const stackName = ({ name }: { name: string }): string => name.split(".").at(-1) || "layers";
export const cellName = (cell: string): string => CELLS[cell] ?? cell;
export const normName = (trace: Manifest): string => NORMS[trace.model.norm ?? ""] ?? "norm";

export function graphOf(trace: Manifest): Graph {
  const links: Link[] = [];
  const lanes = Object.keys(trace.sides).map((side) => laneOf(trace, side, links));
  for (const { nodes } of lanes)
    for (const node of nodes)
      if (node.kind === "attention" && node.attention?.kind === "cross") {
        const keys = lanes.find((lane) => lane.side === node.attention!.keys);
        if (keys) links.push({ kind: "cross", from: keys.nodes.at(-1)!.id, to: node.id });
      }
  // Without attention, the decoder starts with the encoder's last state.
  const [first, second] = lanes;
  const decoder = second?.nodes.find((node) => node.kind === "recurrence");
  if (decoder && !links.some((link) => link.kind === "cross"))
    links.push({ kind: "cross", from: first.nodes.at(-1)!.id, to: decoder.id });
  return { lanes, links };
}

function laneOf(trace: Manifest, side: string, links: Link[]): Lane {
  const { model } = trace;
  const nodes: Node[] = [];
  const beside: Node[] = [];
  const put = (kind: Kind, title: string, detail: string, view: string, more: Partial<Node> = {}, name: string = kind) => {
    nodes.push({ id: `${side}.${name}`, kind, title, detail, side, view, ...more });
    return nodes.at(-1)!;
  };
  const image = trace.images[side];
  put(
    "tokens",
    side,
    image ? `${image.grid.join(" × ")} patches` : counted(trace.sides[side].length, "token"),
    image ? "patches" : "tokens",
  );
  if (model.width) {
    put("embedding", "embedding", `${count(model.width)} wide`, "embedding");
    if (tensorOf(trace, "position_embeddings", { side })) {
      const sum = put("add", "+", "", "embedding", {}, "sum");
      const kind = model.stacks.find((one) => one.side === side)?.position ?? model.position ?? "position";
      const position: Node = { id: `${side}.position`, kind: "position", title: kind, detail: "", side, view: "embedding" };
      beside.push(position);
      links.push({ kind: "position", from: position.id, to: sum.id });
    }
  }
  for (const stack of model.stacks.filter((one) => one.side === side)) putStack(trace, stack, put, links);
  const outside = model.attentions.filter((one) => one.stack === null && one.queries === side);
  const attend = () => {
    for (const one of outside)
      put(
        "attention",
        one.kind === "cross" ? "cross-attention" : "attention",
        heads(one),
        best(trace, one),
        { attention: one },
        one.name,
      );
  };
  if (model.attend === "before") attend();
  for (const part of model.recurrences.filter((one) => one.side === side))
    put(
      "recurrence",
      part.name,
      `${part.layers} × ${cellName(part.cell)}${part.directions > 1 ? ", both directions" : ""}`,
      "gates",
      { recurrence: part.name },
      part.name,
    );
  if (model.attend !== "before") attend();
  if (side === outputSide(trace)) putOutput(trace, put);
  return { side, nodes, beside };
}

type Put = (kind: Kind, title: string, detail: string, view: string, more?: Partial<Node>, name?: string) => Node;

/** One block of a stack, which stands for all of them. */
function putStack(trace: Manifest, stack: Stack, put: Put, links: Link[]): void {
  const { model } = trace;
  for (const sublayer of stack.sublayers) {
    const attention = model.attentions.find(
      (one) => one.stack === stack.name && (sublayer === "cross_attention") === (one.kind === "cross"),
    );
    const forward = sublayer === "feedforward" || !attention;
    const of = { stack, sublayer, attention: forward ? undefined : attention };
    const view = forward ? "feedforward" : best(trace, attention);
    const inside = forward ? "feedforward" : "mix";
    const norm = (name: string, attached: boolean) =>
      put("norm", "norm", "", inside, { ...of, attached }, `${stack.name}.${sublayer}.${name}`);
    const first = model.norm_position === "pre" ? norm("norm", false) : null;
    const box = put(
      forward ? "feedforward" : "attention",
      SUBLAYERS[sublayer] ?? sublayer,
      forward ? `${count(stack.ffn_width)} wide` : heads(attention, attention.kind === "self" ? stack.position : ""),
      view,
      { ...of, attached: first !== null },
      `${stack.name}.${sublayer}`,
    );
    const sum = put("add", "+", "", "residual", of, `${stack.name}.${sublayer}.add`);
    links.push({ kind: "residual", from: (first ?? box).id, to: sum.id });
    if (model.norm_position === "post") norm("norm", true);
  }
  if (model.norm_position === "pre")
    put("norm", "norm", "", stack.side === outputSide(trace) ? "readout" : "residual", {}, `${stack.name}.states`);
}

function putOutput(trace: Manifest, put: Put): void {
  const { model, output } = trace;
  if (trace.tensors.some((one) => one.role === "orders")) put("ngrams", "n-grams", "counted", "backoff");
  if (trace.parts.includes("logits")) {
    if (model.width) put("readout", "readout", `${count(model.width)} → ${count(model.vocabulary)}`, "readout");
    put("softmax", model.width ? "softmax" : "next token", `over ${count(model.vocabulary)}`, "logits");
  }
  if (output.probabilities) put("class", "class", `over ${Object.keys(output.probabilities).length}`, "relevance");
  if (model.beam) put("output", "beam search", `beam of ${model.beam}`, "beam");
  else if (model.generates) put("output", "generate", "token by token", "generate");
}

/** Positions that are not added to the embedding act in the attention itself. */
function heads({ heads, head_size }: Attention, position = ""): string {
  const inside = ["rotary", "alibi"].includes(position) ? `, ${position}` : "";
  return `${counted(heads, "head")} of ${head_size}${inside}`;
}

const best = (trace: Manifest, attention: Attention): string =>
  attention.kind === "cross" ? (readsImage(trace, attention) ? "regions" : "cross") : "head";
