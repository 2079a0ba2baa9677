// How the vector of the followed token changes on its way.

import type { Manifest } from "../contract";
import { factsOf } from "./facts";
import { SUBLAYERS } from "./graph";
import type { Step } from "./route";
import type { Vector } from "./vectors";

const CHANGES: Step["kind"][] = ["embedding", "add", "earlier", "later", "recurrence"];

export interface Trail {
  label: string;
  strip: Vector;
}

/** The vector of the followed token at every step of its lane at which it changes, up to a step. */
export async function trailOf(trace: Manifest, steps: Step[], number: number): Promise<Trail[]> {
  const { side } = steps[number].node;
  const taken = steps.slice(0, number + 1).filter((one) => one.node.side === side && CHANGES.includes(one.kind));
  const all = await Promise.all(taken.map((one) => factsOf(trace, one)));
  return taken.flatMap(({ kind, node, layer }, i) => {
    const { strip } = all[i];
    const sublayer = node.sublayer ? `${layer} ${SUBLAYERS[node.sublayer] ?? node.sublayer}` : strip?.label;
    const label = kind === "later" || kind === "earlier" ? `${kind} layers` : sublayer;
    return strip ? [{ label: label!, strip }] : [];
  });
}
