// A linear scale with round ticks.

export interface Axis {
  (value: number): number;
  invert(pixel: number): number;
  ticks: number[];
}

/** Maps values to pixels; with `count`, the domain is widened to round ticks. */
export function axis([low, high]: [number, number], [start, end]: [number, number], count = 0): Axis {
  const step = count ? roundStep((high - low) / count) : 0;
  const from = step ? Math.floor(low / step + 1e-9) * step : low;
  const to = step ? Math.ceil(high / step - 1e-9) * step : high;
  const scale = (value: number) => start + ((value - from) / (to - from || 1)) * (end - start);
  const invert = (pixel: number) => from + ((pixel - start) / (end - start || 1)) * (to - from);
  const ticks = step
    ? Array.from({ length: Math.round((to - from) / step) + 1 }, (_, i) => Number((from + i * step).toPrecision(12)))
    : [];
  return Object.assign(scale, { invert, ticks });
}

function roundStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  const share = rough / power;
  return power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
}
