// The colours of the page: weights in one hue, signed numbers in two, heads in eight.

import { theme } from "../theme.svelte";

type Colour = [number, number, number];

// The end of a scale at zero is the colour of the page's cards, in light and in dark.
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

const DARK_WEIGHT: Colour[] = [
  [24, 31, 46],
  [38, 58, 110],
  [54, 94, 190],
  [106, 152, 245],
  [180, 206, 255],
  [242, 247, 255],
];
const DARK_SIGNED: Colour[] = [
  [158, 205, 255],
  [72, 132, 214],
  [38, 66, 110],
  [24, 31, 46],
  [98, 58, 28],
  [214, 120, 46],
  [255, 196, 132],
];

/** Eight colours for numbered heads, then again from the first; app.css has one of each for light and dark. */
export const HEADS = Array.from({ length: 8 }, (_, i) => `var(--head-${i})`);

export const headColour = (head: number): string => HEADS[head % HEADS.length];

/** Colours on a canvas, where the palette of app.css cannot be used. */
export const CHOSEN = "#e8590c";
export const labelInk = (): string => (theme.dark ? "#c8d0e0" : "#3a4256");
export const frame = (): string => (theme.dark ? "#434e66" : "#d5d8e0");

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

const ramps = [WEIGHT, SIGNED, DARK_WEIGHT, DARK_SIGNED].map(ramp);

export const weightRamp = (): Uint8ClampedArray => ramps[theme.dark ? 2 : 0];
export const signedRamp = (): Uint8ClampedArray => ramps[theme.dark ? 3 : 1];

/** A weight's index on its ramp; the square root spreads small weights. */
export const weightIndex = (alpha: number): number => Math.round(255 * Math.sqrt(Math.min(1, Math.max(0, alpha))));

/** A signed number's index on its ramp, which ends at ±`largest`. */
export const signedIndex = (value: number, largest: number): number =>
  Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, largest > 0 ? value / largest : 0)));

const css = (table: Uint8ClampedArray, i: number): string => `rgb(${table[i * 4]},${table[i * 4 + 1]},${table[i * 4 + 2]})`;

export const weightColour = (alpha: number): string => css(weightRamp(), weightIndex(alpha));
export const signedColour = (value: number, largest: number): string => css(signedRamp(), signedIndex(value, largest));

function luminance(table: Uint8ClampedArray, i: number): number {
  const part = (c: number) => ((table[i * 4 + c] / 255 + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2);
}

/** Black or white, whichever is more readable on a colour of this ramp. */
const ink = (table: Uint8ClampedArray, i: number): string => (luminance(table, i) < 0.179 ? "#fff" : "#000");

export const inkOnWeight = (alpha: number): string => ink(weightRamp(), weightIndex(alpha));
export const inkOnSigned = (value: number, largest: number): string => ink(signedRamp(), signedIndex(value, largest));

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
