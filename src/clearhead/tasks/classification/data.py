"""Labelled texts: reading, checking, splitting, and batches of them."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import TensorBatch
from clearhead.data.batching.buckets import BatchingConfig, Rows, cuts, plan
from clearhead.data.batching.plan import SINGLE, PlannedBatches, Share
from clearhead.data.sources.columns import columns_option, columns_setting
from clearhead.data.sources.examples import Example, NoColumnError, read_examples
from clearhead.data.sources.streams import UndecodableError
from clearhead.data.store import TokenSequences
from clearhead.errors import DataError
from clearhead.tasks.classification.recipe import LabelledConfig
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import PAD
from clearhead.wording import counted, quoted

# More different labels than this are most likely not labels.
MAX_LABELS = 1000
# Fewer texts than this per label, on average, too.
MIN_TEXTS_PER_LABEL = 2
# Of so few texts, one cannot tell.
FEW_TEXTS = 10
# Names of columns are shorter than this.
MAX_NAME = 30
# The class of all texts that may have several labels, when they are split.
ALL = ""
Targets = NDArray[np.int64] | NDArray[np.bool_]
"""The class of each text, or whether it has each label."""


@dataclass(frozen=True)
class LabelledTexts:
    """The texts of a recipe in two parts, without blank ones, and all labels in order."""

    labels: tuple[str, ...]
    train: list[Example]
    validation: list[Example]
    blank: int
    """The number of texts without words or without a label, which are left out."""
    multi_label: bool = False
    """Whether a text may have any number of labels."""

    @classmethod
    def read(cls, config: LabelledConfig, seed: int) -> "LabelledTexts":
        """Reads and splits the files; raises DataError where they cannot be classified."""
        texts, blank = _read(config.train, config)
        labels = _labels(texts, " and ".join(config.train))
        several = any(not isinstance(example.label, str) for example in texts)
        if several:
            texts = [example._replace(label=example.labels) for example in texts]
        if config.validation:
            _check_first(texts, config)
            validation, more = _read(config.validation, config)
            check_known(validation, labels, " and ".join(config.validation), several)
            return cls(labels, texts, validation, blank + more, several)
        train, validation = split(texts, labels, config, seed)
        return cls(labels, train, validation, blank, several)

    def classes(self, texts: Sequence[Example]) -> Targets:
        """The number of each text's label, or whether it has each label."""
        return label_matrix(texts, self.labels) if self.multi_label else class_numbers(texts, self.labels)

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """The number of training texts with each label."""
        return label_matrix(self.train, self.labels).sum(0)

    @property
    def words_per_text(self) -> float:
        """The median length of the training texts."""
        return float(np.median([len(example.text.split()) for example in self.train]))

    @property
    def ratio(self) -> float:
        """The number of training texts divided by their median length."""
        return len(self.train) / max(1.0, self.words_per_text)


def read_labelled(files: Sequence[str], config: LabelledConfig) -> tuple[list[Example], int]:
    """The labelled texts of files, and the number of those that were left out because they are blank."""
    found = [example for file in files for example in read_examples(file, config.columns, config.encoding)]
    if config.label_separator:
        found = [_separated(example, config.label_separator) for example in found]
    # No labels at all are fine where there may be several.
    kept = [example for example in found if example.label != "" and example.text.strip()]
    if not any(example.labels for example in kept):
        raise DataError(f"{' and '.join(files)}: no text with a label; name another file, or data.columns")
    return kept, len(found) - len(kept)


def class_numbers(texts: Sequence[Example], labels: Sequence[str]) -> NDArray[np.int64]:
    """The number of the label of each text."""
    numbers = {label: number for number, label in enumerate(labels)}
    return np.array([numbers[example.labels[0]] for example in texts], dtype=np.int64)


def label_matrix(texts: Sequence[Example], labels: Sequence[str]) -> NDArray[np.bool_]:
    """Whether each text (row) has each label (column)."""
    numbers = {label: number for number, label in enumerate(labels)}
    found = np.zeros((len(texts), len(labels)), dtype=np.bool_)
    for row, example in zip(found, texts, strict=True):
        row[[numbers[label] for label in example.labels]] = True
    return found


def check_known(texts: Sequence[Example], labels: Sequence[str], files: str, several: bool = False) -> None:
    """Raises DataError for a label that training does not have, and for several labels where it has one."""
    many = next((one for one in texts if not several and not isinstance(one.label, str)), None)
    if many:
        raise DataError(
            f"{files}: '{many.text[:30]}…' has a list of labels, but the training texts have one label each; "
            "name a file with one label per text"
        )
    unknown = [label for label in _counted(texts) if label not in {*labels}]
    if unknown:
        first = texts[0]
        is_header = len(unknown) == 1 and unknown == [*first.labels] and _could_be_header(first)
        names = columns_option([*first.labels, first.text])
        header = f"if it is a header, name its columns (evaluate: {names}); else " if is_header else ""
        raise DataError(
            f"{files}: label {quoted(unknown)} is not in the training data, which has {quoted(labels)}; "
            f"{header}fix the file, or train with these labels"
        )


def split(
    texts: Sequence[Example], labels: Sequence[str], config: LabelledConfig, seed: int
) -> tuple[list[Example], list[Example]]:
    """Holds out a share of each class, or of all texts with several labels; equal texts stay together."""
    if not config.holds_out:
        return list(texts), []
    hold = config.hold_out
    share = min(hold.share, hold.most / len(texts))
    by_label: dict[str, set[int]] = {}
    for example in texts:
        # With several labels, a text is in no class: one share of all texts is held out.
        label = example.label if isinstance(example.label, str) else ALL
        by_label.setdefault(label, set()).add(_hash(example.text, seed))
    held: set[int] = set()
    for label, keys in by_label.items():
        if len(keys) < 2:
            raise _one_text_only(label, texts)
        held.update(sorted(keys)[: max(1, int(share * len(keys)))])
    train = [example for example in texts if _hash(example.text, seed) not in held]
    missing = {*labels} - {*_counted(train)}
    if missing:
        why = "; add more" if ALL in by_label else ", because other labels have the same texts; remove copies"
        raise DataError(
            f"label '{min(missing)[:40]}' has no text left to train on after validation{why}, or set "
            "data.hold_out.share to 0"
        )
    return train, [example for example in texts if _hash(example.text, seed) in held]


def shorten(ids: Sequence[int], length: int) -> list[int]:
    """The ids; of a long text, those of its beginning and more of its end (Sun et al. 2019)."""
    head = length // 4
    return list(ids) if len(ids) <= length else [*ids[:head], *ids[len(ids) - length + head :]]


def encode(texts: Iterable[str], processor: TextProcessor, max_length: int) -> TokenSequences:
    """The ids of texts, each with its special tokens, shortened to `max_length` tokens."""
    tokenizer = processor.tokenizer
    length = max_length - len(tokenizer.with_special_tokens([]))
    encoded = tokenizer.encode_batch(list(texts))
    return TokenSequences.of([tokenizer.with_special_tokens(shorten(ids, length)) for ids in encoded])


@dataclass(frozen=True)
class LabelledBatch(TensorBatch):
    """One text per row, padded, and its class, or whether it has each label."""

    ids: Int[Tensor, "batch positions"]
    lengths: Int[Tensor, " batch"]
    classes: Int[Tensor, " batch"] | Bool[Tensor, "batch labels"]

    @classmethod
    def of(cls, texts: TokenSequences, classes: Targets) -> "LabelledBatch":
        rows, lengths = texts.rows().astype(np.int64), texts.lengths.astype(np.int64)
        rows[np.arange(rows.shape[1]) >= lengths[:, None]] = PAD
        return cls(torch.from_numpy(rows), torch.from_numpy(lengths), torch.from_numpy(classes))

    def padding_share(self) -> float:
        return 1 - int(self.lengths.sum()) / self.ids.numel()


class LabelledBatches(PlannedBatches[Rows, LabelledBatch]):
    """Batches of texts of similar length; every text comes once per epoch."""

    def __init__(
        self,
        texts: TokenSequences,
        classes: Targets,
        config: BatchingConfig,
        seed: int = 0,
        share: Share = SINGLE,
    ):
        super().__init__(seed, share)
        self.texts, self.classes, self.config = texts, classes, config
        if len(texts) < self.share.batches_per_step:
            raise DataError(
                f"{counted(len(texts), 'text')} cannot fill the "
                f"{counted(self.share.batches_per_step, 'batch')} of a step; "
                "use fewer ranks, a lower training.accumulate or more texts"
            )

    def plan(self, epoch: int) -> list[Rows]:
        lengths = self.texts.lengths
        none = np.zeros_like(lengths)
        return plan(lengths, none, self.config, self.random(epoch), self.share.batches_per_step)

    def build(self, epoch: int, plan: Rows) -> LabelledBatch:
        return LabelledBatch.of(self.texts.gather(plan), self.classes[plan])

    def sequential(self) -> list[Rows]:
        """All texts once, sorted by length, as row numbers."""
        order = np.argsort(self.texts.lengths, kind="stable")
        return np.split(order, cuts(self.texts.lengths[order], self.config.tokens))


def _read(files: Sequence[str], config: LabelledConfig) -> tuple[list[Example], int]:
    """Reads labelled texts; errors name the setting that may help."""
    try:
        return read_labelled(files, config)
    except NoColumnError as error:
        raise DataError(f"{error}; name those of label and text: {_columns_option(error.likely)}") from None
    except UndecodableError as error:
        raise DataError(
            f"{error}, or name the encoding (not of JSON), for example --set data.encoding=latin-1"
        ) from None


def _could_be_header(example: Example) -> bool:
    return max(map(len, (*example.labels, example.text))) < MAX_NAME


def _check_first(texts: Sequence[Example], config: LabelledConfig) -> None:
    """Raises DataError if the first text is alone with its label and could be a header."""
    first = texts[0]
    if config.columns or not isinstance(first.label, str) or not _could_be_header(first):
        return
    if _counted(texts)[first.label] == 1:
        names = columns_setting([first.label, first.text])
        raise DataError(
            f"{config.train[0]}: the first line, '{first.label}' and '{first.text}', is the only one with "
            f"its label; if it is a header, name its columns: {names}; if not: "
            "--set data.columns='[0, 1]'"
        )


def _columns_option(names: Sequence[str]) -> str:
    """An example of the option that names two columns of a file."""
    numbers = "--set data.columns='[0, 1]'"
    if len(names) < 2 or any(len(name) >= MAX_NAME for name in names):
        return numbers
    return f"for example {columns_setting(names)}, or without a header {numbers}"


def _one_text_only(label: str, texts: Sequence[Example]) -> DataError:
    if label == ALL:
        return DataError(f"all {len(texts):,} texts are equal; add others, or set data.hold_out.share to 0")
    same = [example for example in texts if example.label == label]
    copies = f" ({len(same):,} copies count once)" if len(same) > 1 else ""
    is_header = same[0] is texts[0] and _could_be_header(same[0])
    names = columns_setting([*same[0].labels, same[0].text])
    header = f"if it is a header, name its columns: {names}; else " if is_header else ""
    return DataError(
        f"label '{label[:40]}' has one text only{copies}, so none is left to train on after validation; "
        f"{header}add more, remove it, or set data.hold_out.share to 0"
    )


def _labels(texts: Sequence[Example], files: str) -> tuple[str, ...]:
    """All labels, in order; raises DataError if they cannot be labels."""
    counts = _counted(texts)
    if len(counts) == 1:
        raise DataError(
            f"{files}: all {len(texts):,} texts have the label {quoted(counts)}; a classifier needs two or "
            "more labels"
        )
    if len(texts) < min(FEW_TEXTS, MIN_TEXTS_PER_LABEL * len(counts)):
        raise DataError(
            f"{files}: {counted(len(texts), 'text')} with {len(counts)} labels, {quoted(counts)}, are too "
            f"few; add texts until each label has {MIN_TEXTS_PER_LABEL} or more"
        )
    if len(counts) > MAX_LABELS or len(texts) < MIN_TEXTS_PER_LABEL * len(counts):
        raise DataError(
            f"{files}: {len(counts):,} different labels in {len(texts):,} texts, such as {quoted(counts)}, "
            "are not labels; name the columns, for example --set data.columns='[0, 1]'"
        )
    if all(re.fullmatch(r"-?\d+", label) for label in counts):
        return tuple(sorted(counts, key=int))
    return tuple(sorted(counts))


def _counted(texts: Iterable[Example]) -> Counter[str]:
    """How many texts have each label, in order of appearance."""
    return Counter(label for example in texts for label in example.labels)


def _separated(example: Example, separator: str) -> Example:
    """The text with all the labels that a separator divides."""
    if not isinstance(example.label, str):
        return example
    parts = (part.strip() for part in example.label.split(separator))
    return example._replace(label=tuple(dict.fromkeys(part for part in parts if part)))


def _hash(text: str, seed: int) -> int:
    key = hashlib.blake2b(
        " ".join(text.casefold().split()).encode(), digest_size=8, salt=seed.to_bytes(8, "little")
    )
    return int.from_bytes(key.digest(), "little")
