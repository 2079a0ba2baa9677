// Number formats: four digits wherever a reader may compare with Python.

export function digits(value: number | null | undefined, decimals = 4): string {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (value === -Infinity) return "−∞";
  if (value === Infinity) return "∞";
  return value.toFixed(decimals).replace("-", "−");
}

export const percent = (value: number): string => {
  const share = value * 100;
  if (share >= 99.95) return "100 %";
  if (share > 0 && share < 0.001) return "<0.001 %";
  return `${share >= 10 ? share.toFixed(1) : share >= 0.1 ? share.toFixed(2) : share.toPrecision(2)} %`;
};

/** A number with its noun: 1 token, 2 tokens. */
export const counted = (count: number, one: string, several = `${one}s`): string =>
  `${count.toLocaleString("en")} ${count === 1 ? one : several}`;

export const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
};

export const norm = (a: ArrayLike<number>): number => Math.sqrt(dot(a, a));

export const cosine = (a: ArrayLike<number>, b: ArrayLike<number>): number => dot(a, b) / (norm(a) * norm(b) || 1);

export const argmax = (values: ArrayLike<number>): number => {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
};

/** The indices of the largest values, largest first. */
export const largest = (values: ArrayLike<number>, count: number): number[] =>
  Array.from({ length: values.length }, (_, i) => i)
    .sort((a, b) => values[b] - values[a])
    .slice(0, count);
