// Subwords merged into words: weights are summed over the pieces of a key and averaged over those of a query.

import type { Token } from "./contract";
import { shown } from "./explorer.svelte";

export interface Word {
  text: string;
  positions: number[];
}

export function wordsOf(tokens: Token[]): Word[] {
  const words: Word[] = [];
  tokens.forEach((token, position) => {
    const last = words.at(-1);
    const continues = token.word !== null && position > 0 && tokens[position - 1].word === token.word;
    const text = shown(token, position);
    if (last && continues) {
      last.text += text.replace(/^·/, "");
      last.positions.push(position);
    } else words.push({ text, positions: [position] });
  });
  return words;
}

/** Weights between words from weights between tokens (queries, keys). */
export function merge(weights: ArrayLike<number>, keys: number, rows: Word[], columns: Word[]): Float32Array {
  const out = new Float32Array(rows.length * columns.length);
  rows.forEach((row, r) =>
    columns.forEach((column, c) => {
      let sum = 0;
      for (const q of row.positions) for (const k of column.positions) sum += weights[q * keys + k];
      out[r * columns.length + c] = sum / row.positions.length;
    }),
  );
  return out;
}

export const single = (tokens: Token[]): Word[] =>
  tokens.map((token, position) => ({ text: shown(token, position), positions: [position] }));
