"""The alignment error rate (AER) of a translator's cross-attention heads on the Hansards.

    CLEARHEAD_DATA=FOLDER python benchmarks/alignment.py [--model en-fr]

The folder holds word-alignment/word-alignment-gold.tar.xz: 447 sentences of the Canadian parliament with gold
alignments (WPT 2003), and 37 for development. The head is chosen without gold, by the agreement of words in
the sentences themselves; the threshold for a link was chosen on the 37.
"""

import argparse
import os
import time
from pathlib import Path

import torch
from hansards import HANSARDS, read_hansards

import clearhead
from clearhead.evaluation.alignment import AlignedPair, alignment_score
from clearhead.inspection.alignment import LINKED, Aligner, align, align_by_layer, links, merge_words
from clearhead.tasks.translation.alignment import CapturedPair, best_aligners, capture_pairs

THRESHOLDS = (0.05, 0.1, LINKED, 0.2, 0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="en-fr", help="a translator from English to French")
    archive = Path(os.environ["CLEARHEAD_DATA"]) / HANSARDS
    model = clearhead.load(parser.parse_args().model)
    torch.set_num_threads(1)
    found = {}
    for part in ("dev", "test"):
        gold = read_hansards(archive, part)
        began = time.perf_counter()
        captured = list(capture_pairs(model, [(pair.source, pair.target) for pair in gold]))
        found[part] = captured, gold
        print(f"{part}: {len(gold)} pairs, {time.perf_counter() - began:.1f} s on one core")
    ranked = best_aligners(found["test"][0])
    print("\nheads by agreement, without gold; AER on the 447")
    for one in ranked:
        word = "input    " if one.reads else "predicted"
        score = alignment_score([pair.links(one) for pair in found["test"][0]], found["test"][1])
        largest = alignment_score([_largest(pair, one) for pair in found["test"][0]], found["test"][1])
        head = f"layer {one.layer}, head {one.head}, {word} word"
        print(f"  {head}  agreement {one.agreement:.3f}  {score}; by the largest weight alone {largest}")
    _layers(*found["test"])
    print("\nthresholds for a link, with the best head: AER on dev and test")
    for least in THRESHOLDS:
        scores = [_thresholded(*found[part], ranked[0], least) for part in ("dev", "test")]
        print(f"  {least:.2f}  dev {scores[0]:.3f}  test {scores[1]:.3f}")


def _largest(captured: CapturedPair, aligner: Aligner) -> set[tuple[int, int]]:
    """Each target word linked with the source word of its largest weight."""
    merged = merge_words(captured.layers[aligner.layer], captured.words, aligner.reads)[aligner.head]
    return {(source, target) for target, source in enumerate(merged.argmax(-1).tolist())}


def _layers(captured: list[CapturedPair], gold: list[AlignedPair]) -> None:
    print("\nmean of all heads of a layer")
    for layer in range(len(captured[0].layers)):
        for reads in (False, True):
            found = [links(align_by_layer(one.layers, one.words, layer, reads)) for one in captured]
            word = "input    " if reads else "predicted"
            print(f"  layer {layer}, {word} word  {alignment_score(found, gold)}")


def _thresholded(captured: list[CapturedPair], gold: list[AlignedPair], best: Aligner, least: float) -> float:
    found = [links(align(one.layers, one.words, best), least) for one in captured]
    return alignment_score(found, gold).error_rate


if __name__ == "__main__":
    main()
