// What happens to the followed token at a step, in the numbers of the trace.

import type { Manifest, Token } from "../contract";
import { counted, largest, norm } from "../drawing/numbers";
import { positionName } from "../drawing/patches";
import { numbers, plain, pythonName, shown, source, tensorOf } from "../explorer.svelte";
import { cellName, normName, SUBLAYERS } from "./graph";
import { followed, type Step } from "./route";
import { added, MissingError, headsAt, streamAfter, streamInto, strongest, sumAfter, vector, type Vector } from "./vectors";

/** A number of the trace; the rest of a sentence is text. */
export interface Fact {
  key: string;
  value: number;
  decimals: number;
}
export type Sentence = (string | Fact)[];

export interface Facts {
  says: Sentence;
  /** A vector of the trace. */
  strip?: Vector;
  /** The tokens that are attended to. */
  weights?: { tokens: Token[]; values: ArrayLike<number>; label: string; name: (key: number) => string };
  bars?: { label: string; value: number }[];
  /** The largest weight of each head. */
  heads?: { label: string; value: number }[];
}

const TOP = 3;
const fact = (key: string, value: number, decimals = 4): Fact => ({ key, value, decimals });
const range = (from: number, to: number) => (from === to ? `Layer ${from}` : `Layers ${from} to ${to}`);

export function nameOf(trace: Manifest, side: string, position = followed(trace, side)): string {
  const image = trace.images[side];
  return image ? positionName(image, position) : `“${shown(trace.sides[side][position], position)}”`;
}

async function attends(trace: Manifest, { node, layer }: Step): Promise<Facts> {
  const attention = node.attention!;
  const all = await headsAt(trace, attention, layer);
  const best = strongest(all, (one) => one.key);
  const heads = all.map(({ head, muted, key, weights }) => ({
    label: `head ${head}: ${nameOf(trace, attention.keys, key)}${muted ? " (muted)" : ""}`,
    value: weights[key],
  }));
  if (!best) return { says: ["All heads are muted, so no other token has an effect here."], heads };
  const { head, key, weights } = best;
  const keys =
    attention.kind === "cross" ? `the ${attention.keys}` : attention.causal ? "this token and those before it" : "all tokens";
  const says: Sentence = [
    `${counted(attention.heads, "head")} mix vectors of ${keys}. The largest weight is on ${nameOf(trace, attention.keys, key)}: head ${head}, α = `,
    fact("alpha", weights[key]),
    ".",
  ];
  const other = followed(trace, attention.keys);
  if (attention.kind === "cross" && other !== key)
    says.push(` On ${nameOf(trace, attention.keys)} it is `, fact("alpha-followed", weights[other]), ".");
  if (node.stack) {
    const { values } = await added(trace, node.stack, node.sublayer!, layer);
    says.push(" All heads together give a vector of norm ", fact("added", norm(values)), ".");
  }
  const entry = tensorOf(trace, "weights", { attention: attention.name });
  const query = followed(trace, attention.queries);
  return {
    says,
    heads,
    weights: {
      tokens: trace.sides[attention.keys],
      values: weights,
      label: `weights of head ${head}`,
      name: (at) => pythonName(entry, layer, head, query, at),
    },
  };
}

/** What a sub-layer adds to the stream, and its share. */
async function adds(trace: Manifest, { node, layer }: Step): Promise<Facts> {
  const { stack, side } = node;
  if (!stack) {
    const sum = await vector(trace, "embedding", { side }, side, "token + position");
    const position = await vector(trace, "position_embeddings", { side }, side, "position");
    const kind = trace.model.stacks.find((one) => one.side === side)?.position ?? trace.model.position;
    const at = followed(trace, side);
    const moved = trace.interventions.find((one) => one.kind === "position" && one.side === side && one.position === at);
    return {
      says: [
        `The vector of position ${moved?.kind === "position" ? moved.to : at} (${kind}), of norm `,
        fact("position", norm(position.values)),
        ", is added. The sum has norm ",
        fact("norm", norm(sum.values)),
        ".",
      ],
      strip: sum,
    };
  }
  const sum = await sumAfter(trace, stack, node.sublayer!, layer);
  const { residual } = await source.summaries(trace);
  const step = residual[stack.name]?.find((one) => one.layer === layer && one.sublayer === node.sublayer);
  const name = SUBLAYERS[node.sublayer!] ?? node.sublayer;
  const says: Sentence = [`The residual connection adds the output of ${name} to the stream. `];
  if (step) says.push(`Share of ${name}: `, fact("share", 100 * step.share[followed(trace, side)], 1), " %. ");
  says.push("Norm of the sum: ", fact("norm", norm(sum.values)), ".");
  return { says, strip: sum };
}

async function normalizes(trace: Manifest, { node, layer }: Step): Promise<Facts> {
  const { stack, side } = node;
  if (!stack) {
    const name = node.id.slice(side.length + 1).replace(/\.states$/, "");
    const states = await vector(trace, "states", { stack: name }, side, "output of the stack");
    return {
      says: [
        `${normName(trace)} after the last layer. The output of the stack has norm `,
        fact("norm", norm(states.values)),
        ".",
      ],
      strip: states,
    };
  }
  const name = SUBLAYERS[node.sublayer!] ?? node.sublayer!;
  const reader = name.charAt(0).toUpperCase() + name.slice(1);
  const pre = trace.model.norm_position === "pre";
  const stream = await (pre ? streamInto : streamAfter)(trace, stack, node.sublayer!, layer);
  return {
    says: pre
      ? [
          `${reader} reads a copy of the stream, scaled by ${normName(trace)}. The stream itself, of norm `,
          fact("norm", norm(stream.values)),
          ", stays as it is.",
        ]
      : [`${normName(trace)} scales the sum. Norm of the stream now: `, fact("norm", norm(stream.values)), "."],
    strip: stream,
  };
}

/** The layers before or after the one that is drawn. */
async function others(trace: Manifest, { kind, node, layer }: Step): Promise<Facts> {
  const stack = node.stack!;
  const [from, to] = kind === "earlier" ? [0, layer - 1] : [layer + 1, stack.layers - 1];
  const stream = await streamAfter(trace, stack, stack.sublayers.at(-1)!, to);
  const verb = from === to ? "does" : "do";
  return {
    says: [
      kind === "earlier"
        ? `${range(from, to)} ${verb} the same before layer ${layer}. After ${from === to ? "it" : "them"} the stream has norm `
        : `${range(from, to)} ${verb} the same. At the end the stream has norm `,
      fact("norm", norm(stream.values)),
      ".",
    ],
    strip: stream,
  };
}

async function hands(trace: Manifest, step: Step): Promise<Facts> {
  const { node, layer } = step;
  const side = step.from!.side;
  if (!node.attention) return { says: [`The ${node.title} sees only the last state of the ${side}.`] };
  const key = followed(trace, side);
  const best = strongest(await headsAt(trace, node.attention, layer), () => key);
  const reads = node.stack ? "Every layer of the decoder makes" : "The attention of the decoder makes";
  const says: Sentence = [`${reads} keys and values from this vector.`];
  if (best)
    says.push(
      ` At ${nameOf(trace, node.side)}${node.stack ? `, layer ${layer}` : " it"} gives ${nameOf(trace, side)} up to α = `,
      fact("alpha", best.weights[key]),
      ` (head ${best.head}).`,
    );
  return { says };
}

async function predicts(trace: Manifest, { kind, node }: Step): Promise<Facts> {
  const { top, next, entropy, vocabulary } = await source.logits(trace, { position: followed(trace, node.side), top: 20 });
  const [first] = top;
  const all = `${vocabulary.toLocaleString("en")} tokens`;
  if (kind === "output")
    return next
      ? {
          says: [
            `Next is “${plain(next.piece, true)}”: rank ${next.rank + 1} of ${all}, probability `,
            fact("probability", next.probability),
            trace.model.beam ? ". The search keeps the paths with the best sums of log-probabilities." : ".",
          ],
        }
      : { says: ["Nothing is generated after this token yet."] };
  const bars = top.slice(0, TOP);
  return kind === "readout"
    ? {
        says: [
          `The last vector becomes one logit for each of ${all}. The largest is that of “${plain(first.piece, true)}”: `,
          fact("logit", first.logit ?? -Infinity),
          ".",
        ],
      }
    : {
        says: [
          `${trace.model.width ? "Softmax turns the logits into probabilities" : "One probability for each token"}. “${plain(first.piece, true)}” has `,
          fact("probability", first.probability),
          "; the entropy is ",
          fact("entropy", entropy, 2),
          " bits.",
        ],
        bars: bars.map((one) => ({ label: plain(one.piece, true), value: one.probability })),
      };
}

/** A layer of a recurrence reads one token after the other. */
async function recurs(trace: Manifest, { node }: Step): Promise<Facts> {
  const part = trace.model.recurrences.find((one) => one.name === node.recurrence)!;
  const entry = tensorOf(trace, "hidden", { recurrence: part.name });
  if (!entry) throw new MissingError();
  const { values, shape } = await numbers(trace, entry, { layer: part.layers - 1, query: followed(trace, node.side) });
  const state = values.slice(0, shape.at(-1)!);
  return {
    says: [
      `The ${cellName(part.cell)} updates its state with this token. The state of layer ${part.layers - 1} has norm `,
      fact("norm", norm(state)),
      ".",
    ],
    strip: {
      values: state,
      label: "hidden state",
      name: (at) => pythonName(entry, part.layers - 1, 0, followed(trace, node.side), at),
    },
  };
}

async function embeds(trace: Manifest, { node: { side } }: Step): Promise<Facts> {
  const role = tensorOf(trace, "token_embeddings", { side }) ? "token_embeddings" : "embedding";
  const found = await vector(trace, role, { side }, side, "embedding");
  const what = trace.images[side] ? "The pixels of the patch become" : "The token becomes its row of the embedding table:";
  return {
    says: [`${what} ${counted(found.values.length, "number")} of norm `, fact("norm", norm(found.values)), "."],
    strip: found,
  };
}

async function counts(trace: Manifest, { node: { side } }: Step): Promise<Facts> {
  const entry = tensorOf(trace, "orders");
  const { values } = await numbers(trace, entry, { query: followed(trace, side) });
  return {
    says: ["The prediction mixes counts of n-grams: each order adds what longer ones leave open."],
    bars: Array.from(values, (value, order) => ({ label: order ? counted(order, "word") : "any word", value })),
  };
}

export async function factsOf(trace: Manifest, step: Step): Promise<Facts> {
  try {
    return await found(trace, step);
  } catch (error) {
    if (error instanceof MissingError) return { says: ["This trace has no numbers for this step."] };
    throw error;
  }
}

async function found(trace: Manifest, step: Step): Promise<Facts> {
  const { kind, node } = step;
  const { side } = node;
  switch (kind) {
    case "embedding":
      return embeds(trace, step);
    case "add":
      return adds(trace, step);
    case "norm":
      return normalizes(trace, step);
    case "attention":
      return attends(trace, step);
    case "feedforward": {
      const sum = await added(trace, node.stack!, node.sublayer!, step.layer);
      const units = node.stack!.ffn_width;
      const how = units ? `${counted(units, "unit")} read this token alone` : "This sub-layer reads the token";
      return { says: [`${how} and give a vector of norm `, fact("added", norm(sum.values)), "."], strip: sum };
    }
    case "earlier":
    case "later":
      return others(trace, step);
    case "handed":
      return hands(trace, step);
    case "recurrence":
      return recurs(trace, step);
    case "ngrams":
      return counts(trace, step);
    case "class": {
      const all = Object.entries(trace.output.probabilities!).map(([label, value]) => ({ label, value }));
      const first = largest(
        all.map((one) => one.value),
        TOP,
      ).map((i) => all[i]);
      return {
        says: [`The most probable class is “${first[0].label}”: `, fact("probability", first[0].value), "."],
        bars: first,
      };
    }
    case "readout":
    case "softmax":
    case "output":
      return trace.parts.includes("logits") ? predicts(trace, step) : { says: [] };
    default: {
      const at = followed(trace, side);
      const token = trace.sides[side][at];
      return {
        says: trace.images[side]
          ? [`${nameOf(trace, side)} of the image, position ${at}.`]
          : [`${nameOf(trace, side)} is token ${at} of ${trace.sides[side].length}: id `, fact("id", token.id, 0), "."],
      };
    }
  }
}
