"""The training pairs of a finished model: mixed in when it is fine-tuned, so that it forgets less."""

import logging
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from clearhead.checkpoint import SETTINGS
from clearhead.config import parse_settings, read_toml
from clearhead.data.cleaning import clean, sample
from clearhead.data.datasets import SHIPPED, is_shipped
from clearhead.data.pair import Pair
from clearhead.data.sources.corpus import DataPath, check_files, languages_in, read_pairs
from clearhead.errors import DataError, SettingsError
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.recipe import CorpusConfig, DataConfig, TranslationRecipe

log = logging.getLogger(__name__)
R = TypeVar("R", bound=TranslationRecipe)


def with_parent_data(recipe: R, parent: Path) -> R:
    """The recipe with a sample of the parent's training pairs, as many as `data.mix` asks for.

    The parent's test and validation sentences are left out. A recipe that already has samples stays as it is.
    """
    data = recipe.data
    if not data.mix or any(corpus.sample for corpus in data.corpora):
        return recipe
    found = []
    for direction in data.directions:
        corpora, problem = _corpora(parent, direction)
        if problem and not corpora:
            raise DataError(f"data.mix: the training data of {parent.name} is gone ({problem}); leave it out")
        found += corpora
    if not found:
        directions = ", ".join(map(str, data.directions))
        raise DataError(f"data.mix: {parent.name} names no training data for {directions}; leave it out")
    wanted = data.mix / (1 - data.mix) * sum(_count(corpus, data) for corpus in data.corpora)
    total = sum(_count(corpus, data) for corpus in found)
    share = min(1.0, wanted / max(1, total))
    samples = tuple(corpus.model_copy(update={"sample": share}) for corpus in found)
    return recipe.model_copy(update={"data": data.model_copy(update={"corpora": data.corpora + samples})})


def training_pairs(folder: Path, directions: Sequence[Direction]) -> dict[Direction, list[Pair]]:
    """The training pairs of a model whose files are still there, without held-out sentences."""
    pairs: dict[Direction, list[Pair]] = {}
    for direction in directions:
        corpora, problem = _corpora(folder, direction)
        if not corpora:
            reason = f"is gone ({problem})" if problem else f"for {direction} is unknown"
            raise DataError(f"{folder}: its training data {reason}; pass other pairs (--pairs FILE)")
        if problem:
            log.warning("%s: some training data of %s is not here; using the rest", direction, folder.name)
        found = pairs.setdefault(direction, [])
        for corpus in corpora:
            held_out = (read_pairs(file, corpus.languages, (0, 1)) for file in corpus.without)
            found += sample(_read(corpus), 1.0, chain.from_iterable(held_out))
    return pairs


def _read(corpus: CorpusConfig) -> Iterator[Pair]:
    for file in corpus.train:
        yield from read_pairs(file, corpus.languages, corpus.columns)


def _corpora(parent: Path, direction: Direction) -> tuple[list[CorpusConfig], DataError | None]:
    """The parent's corpora of a direction whose files are there, turned if necessary.

    Also the first error about a missing file, if there was one.
    """
    settings = read_toml(parent / SETTINGS).get("data")
    try:
        data = parse_settings(DataConfig, settings if isinstance(settings, dict) else {})
    except SettingsError:
        return [], None
    held_out = tuple(
        str(path) for part in ("test", "validation") for path in sorted(parent.glob(f"{part}*.tsv"))
    )
    found, problem = [], None
    for corpus in data.corpora:
        if direction not in corpus.directions:
            continue
        try:
            check_files(corpus.train)
        except DataError as error:
            problem = problem or error
            continue
        turned: dict[str, Any] = {}
        if direction != corpus.directions[0]:
            files = tuple(file[::-1] if isinstance(file, tuple) else file for file in corpus.train)
            turned = {"train": files, "columns": _turned_columns(corpus)}
        changes = {"source": direction.source, "target": direction.target, "both": False, "without": held_out}
        found.append(corpus.model_copy(update={**changes, "validation": (), "test": (), **turned}))
    return found, problem


def _turned_columns(corpus: CorpusConfig) -> tuple[int | str, int | str] | None:
    """The columns of target and source; None where the file itself names the languages."""
    if corpus.columns:
        return corpus.columns[1], corpus.columns[0]
    return None if all(map(_names_languages, corpus.train)) else (1, 0)


def _names_languages(file: DataPath) -> bool:
    return isinstance(file, tuple) or is_shipped(file, SHIPPED) or languages_in(Path(file)) is not None


def _count(corpus: CorpusConfig, data: DataConfig) -> int:
    """The number of pairs after cleaning."""
    return sum(1 for _ in clean(_read(corpus), data.cleaning))
