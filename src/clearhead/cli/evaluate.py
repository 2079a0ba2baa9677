"""clearhead evaluate: scores of a translator, alone or against another; or of a language model."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.console import print_result, print_status
from clearhead.cli.options import (
    Beam,
    Device,
    Json,
    LengthPenalty,
    ModelArgument,
    Pairs,
    Texts,
    check_task_options,
    device_named,
    given,
    option,
    pairs_location,
)
from clearhead.cli.progress import FileProgress, Progress, track
from clearhead.errors import DataError, ModelError, SettingsError

if TYPE_CHECKING:
    import torch

    from clearhead.tasks.language.model import LanguageModel
    from clearhead.tasks.translation.directions import Direction
    from clearhead.tasks.translation.evaluate import EvaluationReport, HeldOutPairs
    from clearhead.tasks.translation.model import TranslateOptions, TranslationModel

OPTIONS = {
    "translation": ("pairs", "against", "source", "target", "beam", "length_penalty", "out"),
    "language": ("text", "field", "stride"),
}
"""The parameters that only models of one task take."""


def evaluate(
    context: typer.Context,
    model: ModelArgument,
    pairs: Pairs = None,
    against: Annotated[
        Path | None, option("Other model, or a file of its translations.", "MODEL|FILE")
    ] = None,
    source: Annotated[str | None, option("Source language, if several.", "LANG", name="--from")] = None,
    target: Annotated[str | None, option("Target language, if several.", "LANG", name="--to")] = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    out: Annotated[Path | None, option("Write the translations to a file.", "FILE")] = None,
    text: Texts = None,
    field: Annotated[str | None, option("Field of .jsonl or .parquet that holds the text.", "NAME")] = None,
    stride: Annotated[int | None, option("Stride of the window; default: half of it.", "N", min=1)] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Score a model on test data.

    A translator gets BLEU, chrF and TER on --pairs, or on the test pairs held out from its training. Pairs
    with a blank side are skipped; a source longer than the model's limit counts as an empty translation. With
    --against, a paired bootstrap tests the difference between two systems.

    A language model gets its loss, perplexity and bits per byte on --text, or on the text held out from its
    training. A sliding window predicts each token once, with at least window minus stride tokens of context.

    \b
    Examples:
      clearhead evaluate fr-en --pairs test.fr-en.tsv
      clearhead evaluate runs/mine
      clearhead evaluate runs/mine --pairs test.tsv --against runs/quickstart
      clearhead evaluate runs/mine --pairs test.en,test.de --json
      clearhead evaluate runs/multilingual --from en --to fr
      clearhead evaluate shakespeare --text my.txt
      clearhead evaluate runs/mine --text other.jsonl --field story
    """
    from clearhead.tasks.load import load

    loaded: Any = load(model, device_named(device))
    task = loaded.task
    check_task_options(context, model, task, OPTIONS)
    if task == "translation":
        search = given(beam=beam, length_penalty=length_penalty)
        _evaluate_translation(loaded, model, pairs, (source, target), against, search, out, json)
    elif field and not text:
        raise SettingsError(f"--field {field}: needs --text FILE; the held-out text has no fields")
    else:
        _evaluate_language(loaded, model, text or [], field, stride, json)


def _evaluate_translation(
    translator: "TranslationModel",
    name: str,
    pairs: str | None,
    languages: tuple[str | None, str | None],
    against: Path | None,
    search: dict[str, Any],
    out: Path | None,
    json: bool,
) -> None:
    from clearhead.tasks.translation.directions import chosen
    from clearhead.tasks.translation.evaluate import evaluate as score
    from clearhead.tasks.translation.evaluate import held_out_pairs
    from clearhead.tasks.translation.model import TranslateOptions
    from clearhead.tasks.zoo import find

    direction = chosen(translator.directions, *languages, settings=("--from", "--to"))
    test = held_out_pairs(pairs_location(pairs) if pairs else None, find(name)[0], direction)
    if test.blank:
        print_status(f"skipped {test.blank:,} of {test.read:,} pairs with a blank side")
    # Errors in the other system or the output file are reported before the work begins.
    other = _other_system(against, direction, test, translator.device) if against else None
    if out:
        out.touch()
    options, to = TranslateOptions(**search), direction.target
    translations, too_long = _translations(name, translator, test, to, options)
    if out:
        out.write_text("".join(f"{line}\n" for line in test.spread(translations)), encoding="utf-8")
    if other is not None and not isinstance(other, list):
        other, _ = _translations(str(against), other, test, to, options)
    measured = score(test.pairs, translations, direction.target, other)
    if json:
        print_result({**asdict(measured), "blank": test.blank, "too_long": too_long})
    else:
        title = f"{name}, {direction}," if len(translator.directions) > 1 else name
        _print_scores(measured, title, against)


def _other_system(
    location: Path, direction: "Direction", test: "HeldOutPairs", device: "torch.device"
) -> "TranslationModel | list[str]":
    """The model in a folder, or the translations in a file."""
    from clearhead.data.sources.streams import lines
    from clearhead.tasks.load import load_for

    if not location.is_file():
        other = load_for("translation", location, device)
        if direction not in other.directions:
            directions = ", ".join(map(str, other.directions))
            raise ModelError(f"{location}: translates {directions}, not {direction}; pass a model that does")
        return other
    translations = list(lines(location))
    if len(translations) != test.read:
        raise DataError(
            f"{location}: {len(translations)} lines for {test.read} test pairs; one line per pair is needed"
        )
    return test.kept(translations)


def _translations(
    name: str, translator: "TranslationModel", test: "HeldOutPairs", to: str, options: "TranslateOptions"
) -> tuple[list[str], int]:
    """A model's translations of the sources, and the number of sources that are too long for it."""
    sources = [pair.source for pair in test.pairs]
    found = translator.translations(sources, to, batch_size=256, options=options)
    translations = list(track(found, "translating", len(sources), "sentence"))
    too_long = sum(one.too_long for one in translations)
    if too_long:
        print_status(
            f"{name}: {too_long:,} of {len(translations):,} sources exceed the model's limit of "
            f"{translator.max_length} tokens and count as empty translations"
        )
    return list(map(str, translations)), too_long


def _print_scores(measured: "EvaluationReport", title: str, against: Path | None) -> None:
    print_result(f"{title} on {measured.sentences:,} sentences")
    for score in measured.scores:
        print_result(f"  {score.name:<26}{score.value:6.2f}  {score.signature}")
    print_result("by source length in words")
    print_result(f"  {'words':<10}{'sentences':>10}{'BLEU':>8}{'chrF':>8}{'length':>8}")
    for row in measured.by_length:
        scores = f"{row.bleu:8.2f}{row.chrf:8.2f}{row.length_ratio:8.2f}"
        print_result(f"  {row.label:<10}{row.sentences:>10,}{scores}")
    if measured.comparisons:
        print_result(f"against {against} (95 % confidence intervals, paired bootstrap)")
    for row in measured.comparisons:
        ours, theirs = (f"{e.value:.2f} [{e.low:.2f}, {e.high:.2f}]" for e in (row.ours, row.theirs))
        print_result(f"  {row.name:<6} {ours} against {theirs}  p = {row.p_value:.4f}")


def _evaluate_language(
    language: "LanguageModel", name: str, text: list[str], field: str | None, stride: int | None, json: bool
) -> None:
    from clearhead.tasks.language.data import counted
    from clearhead.tasks.language.evaluate import evaluate as perplexity
    from clearhead.tasks.language.evaluate import held_out_text
    from clearhead.tasks.zoo import find

    with Progress("evaluating", "window") as progress:

        def follow(done: int, total: int) -> None:
            if not done:
                progress.start(total)
            progress.update(done)

        report = perplexity(
            language, held_out_text(text, find(name)[0]), field, stride, follow, FileProgress()
        )
    measured = report.measured
    if report.unknown:
        print_status(f"{report.unknown:,} characters of the text are not in the model's vocabulary")
    if json:
        print_result({**measured.record(), "documents": report.documents, "unknown": report.unknown})
        return
    documents = counted(report.documents, "document")
    print_result(f"{name} on {measured.tokens:,} tokens ({measured.bytes:,} bytes) in {documents}")
    print_result(f"  loss per token  {measured.loss:.4f}")
    print_result(f"  perplexity      {measured.perplexity:.3f}")
    print_result(f"  bits per byte   {measured.bits_per_byte:.4f}")
    print_result(f"  (window {measured.window} tokens, stride {measured.stride})")
