// Where the boxes and arrows of the architecture are: lanes run to the right, or upwards as in the paper.

import { widthOf } from "../export/scene";
import type { Graph, Lane, Node } from "./graph";

export type Flow = "across" | "up";
export type Point = [number, number];

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Arrow {
  id: string;
  kind: "flow" | "residual" | "cross" | "position";
  points: Point[];
}

export interface Frame extends Box {
  name: string;
  layers: number;
  side: string;
}

export interface Layout {
  flow: Flow;
  width: number;
  height: number;
  boxes: Record<string, Box>;
  frames: Frame[];
  arrows: Arrow[];
  /** By side: the direction in which there is room beside a box. */
  free: Record<string, number>;
}

const ROUND = 20;
const SMALL = 20;
const TALL = { across: 36, up: 33 };
const LABEL = 18;
const PAD = 8;
const BOW = 10;
const EDGE = 2;
const ATTACHED = 3;
const MARK = 60;
/** Room between lanes for the arrows that cross it; on a phone there is little. */
const between = (flow: Flow, room: number) => (flow === "across" ? 12 : room < 600 ? 26 : 60);
const GAPS = { across: [11, 30], up: [8, 8] } as const;
/** From the middle of a sum to the position that is added. */
const BESIDE = { across: TALL.across / 2 + 4, up: ROUND / 2 + 14 };

/** A box along the flow and across it. */
interface Extent {
  u: number;
  v: number;
  long: number;
  wide: number;
}

/** The width of a text in the font of the page. */
export const textWidth = (text: string, size = 12, weight = "400"): number =>
  Math.ceil(widthOf(text, { size, weight, style: "normal", family: getComputedStyle(document.documentElement).fontFamily }));

function extentOf(node: Node, flow: Flow, u = 0, v = 0): Extent {
  const { kind, title, detail } = node;
  const letters = Math.max(textWidth(title, 13, "600"), textWidth(detail)) + 14;
  const small = textWidth(title) + 10;
  const [width, height] =
    kind === "add" ? [ROUND, ROUND] : kind === "norm" || kind === "position" ? [small, SMALL] : [letters, TALL[flow]];
  return flow === "across" ? { u, v, long: width, wide: height } : { u, v, long: height, wide: width };
}

const entersFrame = (lane: Lane, i: number) => lane.nodes[i].stack && lane.nodes[i].stack !== lane.nodes[i - 1]?.stack;
const leavesFrame = (lane: Lane, i: number) => lane.nodes[i].stack && lane.nodes[i].stack !== lane.nodes[i + 1]?.stack;
/** Above the last box of a block that runs upwards is its label. */
const endOfFrame = (flow: Flow) => (flow === "up" ? LABEL + 2 : PAD);

/** The boxes of a lane from one end to the other, and where its blocks begin and end. */
function along(lane: Lane, flow: Flow, gap: number): { extents: Extent[]; blocks: [number, number][]; end: number } {
  const extents: Extent[] = [];
  const blocks: [number, number][] = [];
  let u = EDGE;
  lane.nodes.forEach((node, i) => {
    if (i) u += node.attached ? ATTACHED : gap;
    if (entersFrame(lane, i)) {
      blocks.push([u, 0]);
      u += PAD + 2;
    }
    extents.push(extentOf(node, flow, u));
    u += extents[i].long;
    if (leavesFrame(lane, i)) {
      u += endOfFrame(flow);
      blocks.at(-1)![1] = u;
    }
  });
  return { extents, blocks, end: u + EDGE };
}

/** The width that lanes to the right need at least. */
export const widthNeeded = ({ lanes }: Graph): number =>
  Math.max(...lanes.map((lane) => along(lane, "across", GAPS.across[0]).end));

/** The widest gap between boxes with which all lanes fit into the room. */
function gapFor({ lanes }: Graph, flow: Flow, room: number): number {
  const [least, most] = GAPS[flow];
  const fits = lanes.map((lane) => {
    const one = along(lane, flow, 0).end;
    return (room - one) / (along(lane, flow, 1).end - one || 1);
  });
  return Math.max(least, Math.min(most, ...fits));
}

class Drawing {
  readonly extents = new Map<string, Extent>();
  readonly frames: (Extent & Pick<Frame, "name" | "layers" | "side">)[] = [];
  readonly arrows: Arrow[] = [];
  readonly free: Record<string, number> = {};
  /** The edge of each lane on the side of the lane before it. */
  readonly edges = new Map<Lane, number>();
  long = 0;
  wide: number;

  constructor(
    private readonly graph: Graph,
    private readonly flow: Flow,
    private readonly gap: number,
    private readonly between: number,
  ) {
    // The name of the followed token is on the inner side of a lane that runs upwards.
    this.wide = flow === "up" && graph.lanes.length === 1 ? MARK : EDGE;
    for (const lane of graph.lanes) this.lane(lane);
    for (const { from, to } of graph.links.filter((one) => one.kind === "cross")) this.cross(from, to);
    this.wide += EDGE - this.between;
  }

  private lane(lane: Lane): void {
    const { graph, flow } = this;
    // Shortcuts are below a lane that runs to the right, and outside of those that run upwards.
    const outward = flow === "up" && lane === graph.lanes[0] && graph.lanes.length > 1 ? -1 : 1;
    const { extents, blocks, end } = along(lane, flow, this.gap);
    const half = Math.max(...extents.map((one) => one.wide)) / 2;
    const framed = blocks.length > 0;
    // The label of a block is above it, and the name of the followed token above its box.
    const inner = half + (flow === "across" ? PAD + LABEL - 2 : framed ? PAD : 0);
    const outer = half + (framed ? PAD + BOW : 0);
    const chips = lane.beside.map((node) => BESIDE[flow] + extentOf(node, flow).wide);
    const room = Math.max(outer, ...chips);
    const middle = this.wide + (outward > 0 ? inner : room);
    this.edges.set(lane, this.wide);
    this.free[lane.side] = -outward;
    this.wide = middle + (outward > 0 ? room : inner) + this.between;
    this.long = Math.max(this.long, end);
    const stacks = [...new Set(lane.nodes.flatMap((node) => node.stack ?? []))];
    blocks.forEach(([from, to], i) => {
      const { name, layers } = stacks[i];
      const wide = inner + outer;
      this.frames.push({
        name,
        layers,
        side: lane.side,
        u: from,
        long: to - from,
        v: middle + (outward * (outer - inner)) / 2,
        wide,
      });
    });
    lane.nodes.forEach((node, i) => {
      this.extents.set(node.id, { ...extents[i], v: middle });
      if (!i || node.attached) return;
      const before = extents[i - 1];
      this.arrow("flow", lane.nodes[i - 1].id, node.id, [
        [before.u + before.long, middle],
        [extents[i].u, middle],
      ]);
    });
    for (const { kind, from, to } of graph.links) {
      if (!lane.nodes.some((node) => node.id === to)) continue;
      const sum = this.extents.get(to)!;
      const at = sum.u + sum.long / 2;
      const arrival: Point = [at, middle + (outward * ROUND) / 2];
      if (kind === "position") {
        const chip = extentOf(
          lane.beside.find((node) => node.id === from)!,
          flow,
        );
        // In lanes to the right it is under the boxes before the sum, because a block follows.
        const start = flow === "across" ? at + ROUND / 2 + 2 - chip.long : at - chip.long / 2;
        this.extents.set(from, { ...chip, u: Math.max(EDGE, start), v: middle + outward * (BESIDE[flow] + chip.wide / 2) });
        this.arrow(kind, from, to, [[at, middle + outward * BESIDE[flow]], arrival]);
      } else if (kind === "residual") {
        const start = this.extents.get(from)!.u - Math.min(this.gap, 12) / 2;
        const out = middle + outward * (half + BOW - 2);
        this.arrow(kind, from, to, [[start, middle], [start, out], [at, out], arrival]);
      }
    }
  }

  /** From the end of one lane into a box of the next. */
  private cross(from: string, to: string): void {
    const start = this.extents.get(from)!;
    const box = this.extents.get(to)!;
    const lane = this.graph.lanes.find((one) => one.nodes.some((node) => node.id === to))!;
    const out = start.u + start.long + Math.min(this.gap, 12);
    const middle = this.edges.get(lane)! - this.between / 2;
    const at = box.u + box.long / 2;
    this.long = Math.max(this.long, out + EDGE);
    this.arrow("cross", from, to, [
      [start.u + start.long, start.v],
      [out, start.v],
      [out, middle],
      [at, middle],
      [at, box.v - box.wide / 2],
    ]);
  }

  private arrow(kind: Arrow["kind"], from: string, to: string, points: Point[]): void {
    this.arrows.push({ id: arrowName(from, to, kind), kind, points });
  }
}

export const arrowName = (from: string, to: string, kind: Arrow["kind"]): string => `${kind} ${from} ${to}`;

export function layoutOf(graph: Graph, flow: Flow, room: number): Layout {
  const drawing = new Drawing(graph, flow, gapFor(graph, flow, room), between(flow, room));
  const { long, wide } = drawing;
  const turned = ([u, v]: Point): Point => (flow === "across" ? [u, v] : [v, long - u]);
  const box = (one: Extent): Box =>
    flow === "across"
      ? { x: one.u, y: one.v - one.wide / 2, width: one.long, height: one.wide }
      : { x: one.v - one.wide / 2, y: long - one.u - one.long, width: one.wide, height: one.long };
  return {
    flow,
    width: flow === "across" ? long : wide,
    height: flow === "across" ? wide : long,
    boxes: Object.fromEntries([...drawing.extents].map(([id, one]) => [id, box(one)])),
    frames: drawing.frames.map((one) => ({ name: one.name, layers: one.layers, side: one.side, ...box(one) })),
    free: drawing.free,
    arrows: drawing.arrows.map((one) => ({ ...one, points: one.points.map(turned) })),
  };
}

export const centre = ({ x, y, width, height }: Box): Point => [x + width / 2, y + height / 2];

/** A path with rounded corners. */
export function rounded(points: Point[], radius = 6): string {
  return points
    .map(([x, y], i) => {
      if (i === 0) return `M${x},${y}`;
      const next = points[i + 1];
      if (!next) return `L${x},${y}`;
      const toward = ([ax, ay]: Point) => {
        const length = Math.hypot(ax - x, ay - y) || 1;
        const share = Math.min(radius, length / 2) / length;
        return `${x + (ax - x) * share},${y + (ay - y) * share}`;
      };
      return `L${toward(points[i - 1])}Q${x},${y},${toward(next)}`;
    })
    .join("");
}
