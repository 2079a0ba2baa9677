"""Evaluation of captioners: scores on test images, beside what needs no image and what a person gets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint import SETTINGS
from clearhead.config import parse_settings, read_toml
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.captions import read_captions
from clearhead.errors import DataError
from clearhead.evaluation.captions import (
    MAX_NGRAM,
    References,
    best_constant,
    caption_bleu,
    caption_words,
    cider_d,
    one_against_others,
    shuffled,
)
from clearhead.tasks.captioning.data import CaptionedImages, Corpus, LeftOut, captioned_images, decode_images
from clearhead.tasks.captioning.recipe import CaptionsConfig
from clearhead.tasks.evaluation import Evaluation
from clearhead.wording import counted

if TYPE_CHECKING:
    from clearhead.evaluation.metric import Score
    from clearhead.tasks.captioning.model import CaptionModel, CaptionOptions


@dataclass(frozen=True)
class CaptionScores:
    """Scores of captions, and what they are to be compared with."""

    bleu: "list[Score]"
    """BLEU-1 to BLEU-4."""
    cider_d: "Score"
    shuffled: float
    """BLEU-4 if each image gets the caption of another; near `bleu` if captions do not depend on images."""
    constant: tuple[str, float]
    """The best caption for all images at once, and its BLEU-4."""
    person: float | None
    """BLEU-4 of one person against the others; None where images have one caption."""
    different: int
    """The number of different captions."""
    words: tuple[float, float]
    """The mean number of words of the captions and of the references: short captions lower BLEU."""

    @classmethod
    def of(
        cls, captions: Sequence[str], references: References, candidates: Sequence[str] = ()
    ) -> "CaptionScores":
        """`candidates` are further captions from which the constant one is chosen."""
        return cls(
            [caption_bleu(captions, references, order) for order in range(1, MAX_NGRAM + 1)],
            cider_d(captions, references),
            caption_bleu(shuffled(captions), references).value if len(captions) > 1 else 0.0,
            best_constant(references, candidates),
            one_against_others(references),
            len({*captions}),
            (_mean_words(captions), _mean_words([text for several in references for text in several])),
        )

    def lines(self) -> list[str]:
        *others, four = self.bleu
        text, constant = self.constant
        found = [
            f"  BLEU-4 {four.value:.2f}  {four.signature}",
            f"  {', '.join(f'{one.name} {one.value:.2f}' for one in others)}",
            f"  CIDEr-D {self.cider_d.value:.3f}  {self.cider_d.signature}",
            f"  BLEU-4 with shuffled images {self.shuffled:.2f} ({self.shuffled - four.value:+.2f})",
            f"  BLEU-4 of the best constant caption {constant:.2f} ('{text}')",
        ]
        if self.person is not None:
            found.append(f"  BLEU-4 of one person against the others {self.person:.2f}")
        ours, theirs = self.words
        return [
            *found,
            f"  different captions: {self.different:,}; words per caption {ours:.1f}, of people {theirs:.1f}",
        ]

    def record(self) -> dict[str, Any]:
        return {
            **{f"bleu_{order}": one.value for order, one in enumerate(self.bleu, start=1)},
            "cider_d": self.cider_d.value,
            "shuffled_bleu_4": self.shuffled,
            "constant": {"caption": self.constant[0], "bleu_4": self.constant[1]},
            "person_bleu_4": self.person,
            "different_captions": self.different,
            "words": {"captions": self.words[0], "references": self.words[1]},
            "signature": self.bleu[-1].signature,
        }


def evaluate(
    model: "CaptionModel",
    folder: Path,
    *,
    data: str | None = None,
    out: Path | None = None,
    options: "CaptionOptions | None" = None,
    progress: ProgressCallback = ignore_progress,
    reading: ProgressCallback = ignore_progress,
) -> Evaluation:
    """Scores on the captions of a file, else on the recipe's test images; `out` receives the captions."""
    images, left_out, candidates = test_images(data, folder)
    if out:
        out.touch()
    test, damaged = decode_images(images, model.processor.image, reading)
    found = model.caption_pixels(test.pixels, options, progress)
    captions = [str(one) for one in found]
    if out:
        lines = (f"{name}\t{text}\n" for name, text in zip(test.names, captions, strict=True))
        out.write_text("".join(lines), encoding="utf-8")
    scores = CaptionScores.of(captions, test.captions, candidates)
    without = replace(left_out, damaged=tuple(damaged))
    notes = (f"left out: {without}",) if str(without) else ()
    record = {"images": len(test), **scores.record(), "left_out": str(without)}
    title = f"{model.name or folder} on {counted(len(test), 'image')}"
    return Evaluation((title, *scores.lines()), record, notes)


def test_images(named: str | None, folder: Path) -> tuple[CaptionedImages, LeftOut, list[str]]:
    """The test images of a file or of the recipe, what is left out, and all captions that are known."""
    settings = read_toml(folder / SETTINGS)
    group = settings.get("data")
    config = parse_settings(CaptionsConfig, group if isinstance(group, dict) else {}, str(folder), "data")
    training = settings.get("training")
    seed = training.get("seed", 1) if isinstance(training, dict) else 1
    known = [c.text for f in config.captions if Path(f).is_file() for c in read_captions(Path(f))]
    if named:
        return (*captioned_images([named], None, config.location), known)
    corpus = Corpus.read(config, seed)
    if not len(corpus.test):
        raise DataError(f"{folder}: no images were held out from training; name a file with --data")
    return corpus.test, corpus.left_out, known


def _mean_words(captions: Sequence[str]) -> float:
    return sum(len(caption_words(text).split()) for text in captions) / len(captions)
