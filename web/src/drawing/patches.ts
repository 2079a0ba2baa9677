// An image with its patches: its pixels, and a map of one number per patch over a faded copy.

import type { PatchImage } from "../contract";

const HEAT = [194, 65, 12];
const COLD = [20, 80, 143];
const FADED = 0.5;
const known = new WeakMap<PatchImage, Uint8Array>();

/** The bytes of red, green and blue, row by row. */
export function pixelsOf(image: PatchImage): Uint8Array {
  let bytes = known.get(image);
  if (!bytes) {
    bytes = Uint8Array.from(atob(image.pixels), (one) => one.charCodeAt(0));
    known.set(image, bytes);
  }
  return bytes;
}

function canvasOf(width: number, height: number, colour: (at: number) => ArrayLike<number>): HTMLCanvasElement {
  const small = document.createElement("canvas");
  small.width = width;
  small.height = height;
  const context = small.getContext("2d")!;
  const pixels = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) pixels.data.set(colour(i), i * 4);
  context.putImageData(pixels, 0, 0);
  return small;
}

/** Draws the image; with `values`, one for each patch, as a map on a √ scale from 0 to `largest`; blue is below 0. */
export function drawPatches(
  context: CanvasRenderingContext2D,
  image: PatchImage,
  width: number,
  height: number,
  values: ArrayLike<number> | null,
  largest: number,
): void {
  const bytes = pixelsOf(image);
  const [rows, columns] = image.grid;
  context.imageSmoothingEnabled = image.width > width;
  const colour = (i: number) => [bytes[i * 3], bytes[i * 3 + 1], bytes[i * 3 + 2], 255];
  const faded = (i: number) => {
    const grey = 0.299 * bytes[i * 3] + 0.587 * bytes[i * 3 + 1] + 0.114 * bytes[i * 3 + 2];
    const light = 255 * FADED + grey * (1 - FADED);
    return [light, light, light, 255];
  };
  context.drawImage(canvasOf(image.width, image.height, values ? faded : colour), 0, 0, width, height);
  if (!values) return;
  context.imageSmoothingEnabled = false;
  const heat = (i: number) => [
    ...(values[i] < 0 ? COLD : HEAT),
    242 * Math.sqrt(Math.min(1, Math.abs(values[i]) / (largest || 1))),
  ];
  context.drawImage(canvasOf(columns, rows, heat), 0, 0, width, height);
}

/** The values of the patches, without those of a class token. */
export const onGrid = (image: PatchImage, values: Float32Array): Float32Array => values.subarray(image.before);

/** A position as words. */
export function positionName(image: PatchImage, position: number): string {
  const at = position - image.before;
  return at < 0 ? "[CLS]" : `patch ${Math.floor(at / image.grid[1])},${at % image.grid[1]}`;
}
