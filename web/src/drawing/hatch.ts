// Masked is not small: masked cells are hatched, with different patterns for causal and padding.

import { theme } from "../theme.svelte";

export type Hidden = "causal" | "padding";

const SIZE = 8;
const patterns = new Map<string, CanvasPattern>();
// Ground and lines, in light and in dark.
const COLOURS = {
  causal: [
    ["#f1efea", "#c4bfb3"],
    ["#262b38", "#5f6470"],
  ],
  padding: [
    ["#e9edf1", "#a9b6c3"],
    ["#222c38", "#566677"],
  ],
} as const;

export function hatch(context: CanvasRenderingContext2D, kind: Hidden): CanvasPattern {
  const key = `${kind} ${theme.dark}`;
  const known = patterns.get(key);
  if (known) return known;
  const tile = document.createElement("canvas");
  tile.width = tile.height = SIZE;
  const ink = tile.getContext("2d")!;
  const [ground, line] = COLOURS[kind][theme.dark ? 1 : 0];
  ink.fillStyle = ground;
  ink.fillRect(0, 0, SIZE, SIZE);
  ink.strokeStyle = line;
  ink.lineWidth = 1.2;
  const lines =
    kind === "causal"
      ? [
          [0, SIZE, SIZE, 0],
          [-2, 2, 2, -2],
          [6, 10, 10, 6],
        ]
      : [
          [0, 0, SIZE, SIZE],
          [-2, 6, 2, 10],
          [6, -2, 10, 2],
        ];
  for (const [x0, y0, x1, y1] of lines) {
    ink.beginPath();
    ink.moveTo(x0, y0);
    ink.lineTo(x1, y1);
    ink.stroke();
  }
  const pattern = context.createPattern(tile, "repeat")!;
  patterns.set(key, pattern);
  return pattern;
}
