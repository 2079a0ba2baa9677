// Masked is not small: masked cells are hatched, with different patterns for causal and padding.

export type Hidden = "causal" | "padding";

const SIZE = 8;
const patterns = new Map<Hidden, CanvasPattern>();

export function hatch(context: CanvasRenderingContext2D, kind: Hidden): CanvasPattern {
  const known = patterns.get(kind);
  if (known) return known;
  const tile = document.createElement("canvas");
  tile.width = tile.height = SIZE;
  const ink = tile.getContext("2d")!;
  ink.fillStyle = kind === "causal" ? "#f1efea" : "#e9edf1";
  ink.fillRect(0, 0, SIZE, SIZE);
  ink.strokeStyle = kind === "causal" ? "#c4bfb3" : "#a9b6c3";
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
  patterns.set(kind, pattern);
  return pattern;
}
