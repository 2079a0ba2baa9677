// A matrix as a picture: one pixel per cell, scaled without smoothing; masked cells are hatched.

import { hatch, type Hidden } from "./hatch";
import { signedIndex, signedRamp, weightIndex, weightRamp } from "./scales";

export interface Cells {
  rows: number;
  columns: number;
  /** √α in 255 steps, weights, or signed numbers with the end of their scale. */
  kind: "root" | "weight" | "signed";
  values: ArrayLike<number>;
  largest?: number;
  hidden?: (row: number, column: number) => Hidden | null;
}

function indexer(cells: Cells): (value: number) => number {
  if (cells.kind === "root") return (value) => value;
  if (cells.kind === "weight") return weightIndex;
  const largest = cells.largest ?? 1;
  return (value) => signedIndex(value, largest);
}

function image(cells: Cells): HTMLCanvasElement {
  const table = cells.kind === "signed" ? signedRamp() : weightRamp();
  const index = indexer(cells);
  const small = document.createElement("canvas");
  small.width = cells.columns;
  small.height = cells.rows;
  const context = small.getContext("2d")!;
  const pixels = context.createImageData(cells.columns, cells.rows);
  const colours = new Uint32Array(table.buffer);
  const out = new Uint32Array(pixels.data.buffer);
  for (let i = 0; i < out.length; i++) {
    const value = cells.values[i];
    out[i] = value === value ? colours[index(value)] : 0;
  }
  context.putImageData(pixels, 0, 0);
  return small;
}

/** Draws the cells into width × height pixels of a canvas, at x, y. */
export function drawCells(
  context: CanvasRenderingContext2D,
  cells: Cells,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  if (!cells.rows || !cells.columns) return;
  context.imageSmoothingEnabled = cells.columns > width || cells.rows > height;
  context.drawImage(image(cells), x, y, width, height);
  drawHidden(context, cells, x, y, width / cells.columns, height / cells.rows);
}

function drawHidden(context: CanvasRenderingContext2D, cells: Cells, x: number, y: number, wide: number, high: number): void {
  if (!cells.hidden) return;
  for (let row = 0; row < cells.rows; row++) {
    // Neighbours masked for the same reason are drawn as one rectangle.
    let column = 0;
    while (column < cells.columns) {
      const kind = cells.hidden(row, column);
      let end = column + 1;
      while (end < cells.columns && cells.hidden(row, end) === kind) end++;
      if (kind) {
        context.fillStyle = hatch(context, kind);
        context.fillRect(x + column * wide, y + row * high, (end - column) * wide, high);
      }
      column = end;
    }
  }
}

/** Sizes a canvas for the screen's resolution, or a given one. */
export function prepare(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
  ratio = Math.min(2, window.devicePixelRatio || 1),
): CanvasRenderingContext2D {
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
