// The route of one token through the architecture, step by step.

import type { Manifest, Stack } from "../contract";
import { outputSide } from "../explorer.svelte";
import { selection } from "../selection.svelte";
import type { Graph, Node } from "./graph";
import { arrowName, centre, type Layout, type Point } from "./layout";

export interface Step {
  /** What is reached; in "earlier" and "later" layers the token stays at the edge of the block. */
  kind: Node["kind"] | "earlier" | "later" | "handed";
  node: Node;
  /** The node before it, if the token moves there. */
  from: Node | null;
  /** Of its stack. */
  layer: number;
  arrows: string[];
}

/** The position that is followed on a side. */
export function followed(trace: Manifest, side: string): number {
  const wanted = side === outputSide(trace) ? selection.position : selection.key;
  return Math.max(0, Math.min(wanted, trace.sides[side].length - 1));
}

/** Every step through the graph, in the chosen layer of each stack. */
export function routeOf(graph: Graph, layerOf: (stack: Stack) => number): Step[] {
  const steps: Step[] = [];
  for (const { nodes } of graph.lanes) {
    nodes.forEach((node, i) => {
      const before = nodes[i - 1] ?? null;
      const layer = node.stack ? layerOf(node.stack) : 0;
      const put = (kind: Step["kind"], at: Node, from: Node | null, arrows: string[] = []) =>
        steps.push({ kind, node: at, from, layer, arrows });
      const into = graph.links.filter((one) => one.to === node.id && (one.kind !== "cross" || node.kind === "attention"));
      const arrows = into.map((one) => arrowName(one.from, one.to, one.kind));
      if (before && !node.attached) arrows.unshift(arrowName(before.id, node.id, "flow"));
      const waits = node.stack && node.stack !== before?.stack && layer > 0;
      if (waits) put("earlier", node, before, arrows);
      put(node.kind, node, waits ? null : before, arrows);
      const leaves = node.stack && node.stack !== nodes[i + 1]?.stack;
      if (leaves && layer < node.stack!.layers - 1) put("later", node, null);
    });
    const last = nodes.at(-1)!;
    const link = graph.links.find((one) => one.kind === "cross" && one.from === last.id);
    const reader = link && graph.lanes.flatMap((lane) => lane.nodes).find((node) => node.id === link.to);
    if (reader)
      steps.push({
        kind: "handed",
        node: reader,
        from: last,
        layer: reader.stack ? layerOf(reader.stack) : 0,
        arrows: [arrowName(last.id, reader.id, "cross")],
      });
  }
  return steps;
}

/** The way of the token to a step: first and last are the middles of boxes. */
export function wayTo(step: Step, layout: Layout): Point[] {
  const end = centre(layout.boxes[step.node.id]);
  if (!step.from) return [end];
  const crossing = step.kind === "handed" ? (layout.arrows.find((one) => one.id === step.arrows[0])?.points ?? []) : [];
  return [centre(layout.boxes[step.from.id]), ...crossing, end];
}

/** What else arrives at a step: the stream past a sub-layer, a position, or what the encoder has written. */
export function arrivalAt(step: Step, layout: Layout): Point[] {
  const id = step.kind === "handed" ? "" : step.arrows.find((one) => /^(residual|position|cross) /.test(one));
  return layout.arrows.find((one) => one.id === id)?.points ?? [];
}

/** Keyframes of a move along a way, at even speed. */
export function keyframes(way: Point[]): Keyframe[] {
  const lengths = way.map(([x, y], i) => (i ? Math.hypot(x - way[i - 1][0], y - way[i - 1][1]) : 0));
  const total = lengths.reduce((sum, one) => sum + one, 0) || 1;
  let gone = 0;
  return way.map(([x, y], i) => {
    gone += lengths[i];
    return { transform: `translate(${x}px,${y}px)`, offset: Math.min(1, gone / total) };
  });
}
