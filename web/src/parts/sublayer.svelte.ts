// What a sub-layer adds at every position, and the stream that its norm reads or writes.

import { before, tensorOf } from "../block";
import type { Manifest, Slab, Stack, TensorEntry } from "../contract";
import { Fetched, numbers } from "../explorer.svelte";

interface Sublayer {
  stack: Stack;
  sublayer: string;
  layer: number;
  /** Whether the norm comes after the sum. */
  post: boolean;
}

export class SublayerMatrices {
  readonly added: Fetched<Slab>;
  readonly stream: Fetched<Slab>;

  /** Call it in a component's setup, like `Fetched`. */
  constructor(
    private readonly trace: Manifest,
    private readonly of: () => Sublayer,
  ) {
    this.added = new Fetched(() => numbers(trace, this.entry("added"), { layer: of().layer }));
    this.stream = new Fetched(() => {
      const { stack, sublayer, layer, post } = of();
      const { entry, part } = post ? { entry: this.entry("stream"), part: { layer } } : before(trace, stack, layer, sublayer);
      return numbers(trace, entry, part);
    });
  }

  entry(role: string): TensorEntry | undefined {
    const { stack, sublayer } = this.of();
    return tensorOf(this.trace, role, { stack: stack.name, sublayer });
  }
}
