// The colours of the page: weights in one hue, signed numbers in two, heads in eight.

type Colour = [number, number, number];

const WEIGHT: Colour[] = [
  [255, 255, 255],
  [205, 221, 249],
  [126, 164, 236],
  [58, 98, 204],
  [27, 45, 122],
  [13, 20, 62],
];
const SIGNED: Colour[] = [
  [17, 74, 158],
  [88, 148, 214],
  [188, 214, 238],
  [255, 255, 255],
  [250, 208, 166],
  [232, 132, 54],
  [163, 69, 6],
];

/** Eight colours for numbered heads, then again from the first. */
export const HEADS = ["#1d4fbf", "#b4500b", "#157347", "#8a2a8f", "#b3261e", "#0c6b78", "#6b5a00", "#5b3fc4"];

export const headColour = (head: number): string => HEADS[head % HEADS.length];

function ramp(stops: Colour[]): Uint8ClampedArray {
  const table = new Uint8ClampedArray(256 * 4);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    for (let c = 0; c < 3; c++) table[i * 4 + c] = stops[low][c] + (stops[low + 1][c] - stops[low][c]) * (at - low);
    table[i * 4 + 3] = 255;
  }
  return table;
}

export const weightRamp = ramp(WEIGHT);
export const signedRamp = ramp(SIGNED);

/** A weight's index on its ramp; the square root spreads small weights. */
export const weightIndex = (alpha: number): number => Math.round(255 * Math.sqrt(Math.min(1, Math.max(0, alpha))));

/** A signed number's index on its ramp, which ends at ±`largest`. */
export const signedIndex = (value: number, largest: number): number =>
  Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, largest > 0 ? value / largest : 0)));

const css = (table: Uint8ClampedArray, i: number): string => `rgb(${table[i * 4]},${table[i * 4 + 1]},${table[i * 4 + 2]})`;

export const weightColour = (alpha: number): string => css(weightRamp, weightIndex(alpha));
export const signedColour = (value: number, largest: number): string => css(signedRamp, signedIndex(value, largest));

function luminance(table: Uint8ClampedArray, i: number): number {
  const part = (c: number) => ((table[i * 4 + c] / 255 + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2);
}

/** Black or white, whichever is more readable on a colour of this ramp. */
const ink = (table: Uint8ClampedArray, i: number): string => (luminance(table, i) < 0.179 ? "#fff" : "#000");

export const inkOnWeight = (alpha: number): string => ink(weightRamp, weightIndex(alpha));
export const inkOnSigned = (value: number, largest: number): string => ink(signedRamp, signedIndex(value, largest));

export function largestOf(values: ArrayLike<number>): number {
  let largest = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i]);
    if (size > largest && Number.isFinite(size)) largest = size;
  }
  return largest;
}

/** The size that a share of the numbers do not exceed; never 0. */
export function percentile(values: ArrayLike<number>, share: number): number {
  const sizes = Float32Array.from(values, Math.abs).sort();
  return sizes[Math.floor(sizes.length * share)] || sizes.at(-1) || 1;
}
