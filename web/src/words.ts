// Subwords merged to words: what goes to a word is what goes to its pieces, what it looks at is their mean.

import type { Token } from "./contract";
import { shown } from "./explorer.svelte";

export interface Word {
  text: string;
  places: number[];
}

export function wordsOf(tokens: Token[]): Word[] {
  const words: Word[] = [];
  tokens.forEach((token, place) => {
    const last = words.at(-1);
    const goesOn = token.word !== null && place > 0 && tokens[place - 1].word === token.word;
    const text = shown(token, place);
    if (last && goesOn) {
      last.text += text.replace(/^·/, "");
      last.places.push(place);
    } else words.push({ text, places: [place] });
  });
  return words;
}

/** Weights (queries, keys) of tokens as weights of words: summed over keys, averaged over queries. */
export function merge(weights: ArrayLike<number>, keys: number, rows: Word[], columns: Word[]): Float32Array {
  const out = new Float32Array(rows.length * columns.length);
  rows.forEach((row, r) =>
    columns.forEach((column, c) => {
      let sum = 0;
      for (const q of row.places) for (const k of column.places) sum += weights[q * keys + k];
      out[r * columns.length + c] = sum / row.places.length;
    }),
  );
  return out;
}

export const single = (tokens: Token[]): Word[] => tokens.map((token, place) => ({ text: shown(token, place), places: [place] }));
