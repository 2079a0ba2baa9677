"""Trains as one of several ranks: run_in_ranks.py RECIPE FOLDER train NAME SETTING… -- resume NAME …

Each run goes to FOLDER/NAME; one process can have several, one after the other.
"""

import sys
from itertools import groupby
from pathlib import Path

import torch

from clearhead.config import read_settings
from clearhead.tasks.recipe import TranslationRecipe
from clearhead.tasks.run import resume, train


def main(recipe: str, folder: str, *runs: str) -> None:
    torch.set_num_threads(1)
    for between, words in groupby(runs, key=lambda word: word == "--"):
        if between:
            continue
        what, name, *changes = words
        out = Path(folder) / name
        if what == "train":
            events = train(read_settings(TranslationRecipe, Path(recipe), changes), out)
        else:
            events = resume(out, changes)
        for _ in events:
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
