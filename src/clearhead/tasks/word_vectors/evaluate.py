"""Evaluation of word vectors on similarity tests and analogies."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch.nn.functional as F

from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.errors import DataError
from clearhead.evaluation.word_tests import (
    MOST_FREQUENT,
    AnalogyScore,
    SimilarityScore,
    analogy_scores,
    read_word_test,
    similarity_score,
    total,
)
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.word_vectors.model import WordVectorsModel
from clearhead.wording import counted

SKIPPED = (
    "skipped: pairs with a word that has no vector, and analogies with one that is not among the "
    f"{MOST_FREQUENT:,} most frequent"
)


def evaluate(
    vectors: WordVectorsModel,
    folder: Path,
    *,
    words: Sequence[str] = (),
    progress: ProgressCallback = ignore_progress,
    reading: ProgressCallback = ignore_progress,
) -> Evaluation:
    """The scores on files of tests, in their order."""
    if not words:
        raise DataError(
            f"{folder}: word vectors are tested on files: --words EN-WS-353-ALL.txt "
            "(clearhead data get word-similarity, word-analogies)"
        )
    tests = [read_word_test(Path(path)) for path in words]
    unit, find = F.normalize(vectors.matrix, dim=-1), vectors.vocabulary.find
    size, done = sum(test.size for test in tests), 0
    progress(0, size)
    lines, records = [f"{vectors.name}, {vectors.vocabulary.size:,} words"], []
    for test in tests:
        if test.pairs:
            score = similarity_score(test, unit, find)
            lines.append(f"  {test.name}: {_similarity(score)}")
            records.append(_record(score, "correlation"))
            progress(done + test.size, size)
        else:
            sections = analogy_scores(test, unit, find, partial(_add, progress, done, size))
            whole = total(sections, test.name)
            lines.append(f"  {test.name}: {_accuracy(whole)}")
            lines += [f"    {one.name}: {_accuracy(one)}" for one in sections if len(sections) > 1]
            parts = [_record(one, "accuracy", "right") for one in sections]
            records.append({**_record(whole, "accuracy", "right"), "sections": parts})
        done += test.size
    notes = (SKIPPED,) if any(record["skipped"] for record in records) else ()
    return Evaluation(tuple(lines), {"tests": records}, notes)


def _add(progress: ProgressCallback, before: int, size: int, done: int, _: int) -> None:
    progress(before + done, size)


def _similarity(score: SimilarityScore) -> str:
    found = "no Spearman" if score.correlation is None else f"Spearman {score.correlation:.3f}"
    return f"{found} ({counted(score.tested, 'pair')} tested, {score.skipped:,} skipped)"


def _accuracy(score: AnalogyScore) -> str:
    return (
        f"{score.accuracy:.1%} right ({score.right:,} of {score.tested:,} tested, {score.skipped:,} skipped)"
    )


def _record(score: SimilarityScore | AnalogyScore, *names: str) -> dict[str, Any]:
    return {name: getattr(score, name) for name in ("name", *names, "tested", "skipped")}
