"""Seconds that BLEU takes in a validation during training, on a GPU.

    python benchmarks/validation_gpu.py [MODEL ...] [--pairs FILE] [--sentences 1000] [--rounds 5]
                                         [--json FILE]

Each model is measured on pairs that it held out, or on those of a file with two columns, from English to
German: greedy and with a beam of 5, in fp32 and bf16. Every round decodes with a new copy, as in training.
Without a model, the built-in one is measured.
"""

import argparse
import json
import time
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from measuring import about

import clearhead
from clearhead.config import apply_overrides, parse_settings, read_toml
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.evaluate import Validator, held_out_pairs
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.zoo import BUILT_IN

DIRECTION = Direction("en", "de")
BEAMS, PRECISIONS = (1, 5), ("fp32", "bf16")


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("models", nargs="*", type=Path, default=[BUILT_IN["en-de-fr"]])
    arguments.add_argument("--pairs", type=Path)
    arguments.add_argument("--sentences", type=int, default=1000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    options = arguments.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    figures: dict[str, Any] = {"about": about(device)}
    print(figures["about"], flush=True)
    for folder in options.models:
        figures[folder.name] = measured(folder, options, device)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def measured(folder: Path, options: argparse.Namespace, device: torch.device) -> dict[str, list[float]]:
    """The seconds of each round, in turn."""
    loaded = clearhead.load(folder, device=device.type)
    assert isinstance(loaded, clearhead.TranslationModel)
    pairs = held_out_pairs(options.pairs, folder, DIRECTION).pairs
    cases = {}
    for beam, precision in product(BEAMS, PRECISIONS):
        changes = [f"validation={{sentences = {options.sentences}, beam = {beam}}}"]
        recipe = parse_settings(
            TranslationRecipe, apply_overrides(read_toml(folder / "config.toml"), changes)
        )
        cases[f"beam {beam}, {precision}"] = (
            Validator({DIRECTION: pairs}, loaded.tokenizer, recipe),
            precision,
        )
    seconds, values = {name: [] for name in cases}, {}
    for _ in range(options.rounds + 1):
        for name, (validator, precision) in cases.items():
            start = time.perf_counter()
            values[name] = validator.bleu(loaded.model, precision)["bleu"]
            seconds[name].append(time.perf_counter() - start)
    count = min(len(pairs), options.sentences)
    print(f"{folder.name}, {count:,} sentences: median, most and fewest seconds, BLEU")
    for name, (_, *some) in seconds.items():
        # The first round compiles kernels.
        print(
            f"  {name:16}{median(some):8.3f}{max(some):8.3f}{min(some):8.3f}{values[name]:8.2f}", flush=True
        )
    return {name: some[1:] for name, some in seconds.items()}


if __name__ == "__main__":
    main()
