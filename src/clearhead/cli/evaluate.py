"""clearhead evaluate: how good a translator is, alone or against another; or a language model on a text."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.options import (
    MODEL,
    Beam,
    Device,
    Json,
    LengthPenalty,
    Pairs,
    Texts,
    chosen_device,
    place,
    put,
    say,
)
from clearhead.cli.progress import Progress, Reading, tracked
from clearhead.errors import DataError, ModelError, SettingsError

if TYPE_CHECKING:
    import torch

    from clearhead.tasks.language.model import LanguageModel
    from clearhead.tasks.translation.directions import Direction
    from clearhead.tasks.translation.evaluate import Measured, Unseen
    from clearhead.tasks.translation.model import TranslationModel


def evaluate(
    model: Annotated[str, typer.Argument(help=MODEL, metavar="M")],
    pairs: Pairs = None,
    text: Texts = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Another model, or a file of its translations.", metavar="M|FILE"),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="Of the model's directions, one from here.", metavar="LANG")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--to", help="Of the model's directions, one into this.", metavar="LANG")
    ] = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    stride: Annotated[
        int | None,
        typer.Option(min=1, help="Places by which the window over a text moves; else half a window."),
    ] = None,
    field: Annotated[
        str | None, typer.Option(help="Which field of .jsonl or .parquet holds the text.", metavar="NAME")
    ] = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Write the translations here.", metavar="FILE")] = None,
    json: Json = False,
) -> None:
    """Measure a translator: BLEU, chrF and TER; or a language model: loss, perplexity, bits per byte.

    Without --pairs, on the test pairs that were kept from its training. Pairs that are blank on a
    side are left out; a source longer than the model takes counts as translated by nothing. With
    --against, the difference to another system is tested by paired bootstrap resampling.

    A language model is measured on --text, or on what was kept from its training, through a
    sliding window: each token is foreseen once, from at least window - stride tokens before it.

        clearhead evaluate fr-en

        clearhead evaluate runs/quickstart

        clearhead evaluate runs/mine --pairs test.tsv --against runs/quickstart

        clearhead evaluate runs/mine --pairs test.en,test.de --json

        clearhead evaluate runs/many --from en --to fr

        clearhead evaluate shakespeare --text my.txt

        clearhead evaluate runs/mine --text other.jsonl --field story
    """
    from clearhead.tasks.language.model import LanguageModel
    from clearhead.tasks.load import load
    from clearhead.tasks.translation.directions import chosen as chosen_direction
    from clearhead.tasks.translation.evaluate import measure, unseen_pairs
    from clearhead.tasks.zoo import find

    chosen = chosen_device(device)
    translator = load(model, chosen)
    if isinstance(translator, LanguageModel):
        if pairs or against or out or source or target or beam is not None or length_penalty is not None:
            raise SettingsError(f"{model}: continues texts, so it is measured on --text FILE alone")
        if field and not text:
            raise SettingsError(f"--field {field}: goes with --text FILE; what was kept needs none")
        _foresee(translator, model, text or [], field, stride, json)
        return
    if text or stride or field:
        raise SettingsError(
            f"{model}: translates, so it is measured on --pairs FILE; leave out --text, --field and --stride"
        )
    direction = chosen_direction(translator.directions, source, target, asked_by=("--from", "--to"))
    test = unseen_pairs(place(pairs) if pairs else None, find(model)[0], direction)
    if test.blank:
        say(f"{test.blank:,} of {test.read:,} pairs are blank on a side and left out")
    # What can be wrong with the rival or the output is found before the work begins.
    rival = _rival(against, direction, test, chosen) if against else None
    if out:
        out.touch()
    options: dict[str, Any] = {
        name: value
        for name, value in (("beam", beam), ("length_penalty", length_penalty))
        if value is not None
    }
    options["to"] = direction.target
    translations, too_long = _translations(model, translator, test, options)
    if out:
        out.write_text("".join(f"{line}\n" for line in test.spread(translations)), encoding="utf-8")
    if rival is None or isinstance(rival, list):
        theirs = rival
    else:
        theirs, _ = _translations(str(against), rival, test, options)
    measured = measure(test.pairs, translations, direction.target, theirs)
    if json:
        put({**asdict(measured), "blank": test.blank, "too_long": too_long})
    else:
        name = f"{model}, {direction}," if len(translator.directions) > 1 else model
        _show(measured, name, against)


def _foresee(
    language: "LanguageModel", name: str, text: list[str], field: str | None, stride: int | None, json: bool
) -> None:
    from clearhead.tasks.language.data import counted
    from clearhead.tasks.language.evaluate import foresee, unseen_text
    from clearhead.tasks.zoo import find

    with Progress("measuring", "windows") as progress:

        def follow(done: int, total: int) -> None:
            if not done:
                progress.begin(total)
            progress.at(done)

        found = foresee(language, unseen_text(text, find(name)[0]), field, stride, follow, Reading())
    measured = found.measured
    if found.unknown:
        say(f"{found.unknown:,} characters of the text are not in the model's vocabulary")
    if json:
        put({**measured.record(), "documents": found.documents, "unknown": found.unknown})
        return
    where = counted(found.documents, "document")
    put(f"{name} on {measured.tokens:,} tokens of {measured.bytes:,} bytes in {where}")
    put(f"  loss per token  {measured.loss:.4f}")
    put(f"  perplexity      {measured.perplexity:.3f}")
    put(f"  bits per byte   {measured.bits_per_byte:.4f}")
    put(f"  (a window of {measured.window} tokens, moved by {measured.stride})")


def _rival(
    place: Path, direction: "Direction", test: "Unseen", device: "torch.device"
) -> "TranslationModel | list[str]":
    """The model in a folder, or the translations in a file."""
    from clearhead.data.sources.streams import lines
    from clearhead.tasks.load import load_translator

    if not place.is_file():
        rival = load_translator(place, device)
        if direction not in rival.directions:
            theirs = ", ".join(map(str, rival.directions))
            raise ModelError(f"{place}: translates {theirs}, not {direction}; name a model that does")
        return rival
    translations = list(lines(place))
    if len(translations) != test.read:
        raise DataError(
            f"{place}: {len(translations)} lines for {test.read} test pairs; give one translation each"
        )
    return test.kept(translations)


def _translations(
    name: str, translator: "TranslationModel", test: "Unseen", options: dict[str, Any]
) -> tuple[list[str], int]:
    """What a model gives for the sources, and how many of them are too long for it."""
    from clearhead.tasks.translation.evaluate import within_reach

    sources = within_reach(translator, [pair.source for pair in test.pairs])
    too_long = sources.count("")
    if too_long:
        say(
            f"{name}: {too_long:,} of {len(sources):,} sources have more than the {translator.max_length} "
            "tokens that the model takes; each counts as translated by nothing"
        )
    found = translator.stream(sources, at_once=256, **options)
    return [str(one) for one in tracked(found, "translating", len(sources), "sentences")], too_long


def _show(measured: "Measured", name: str, against: Path | None) -> None:
    put(f"{name} on {measured.sentences:,} sentences")
    for score in measured.scores:
        put(f"  {score.name:<26}{score.value:6.2f}  {score.signature}")
    put("by words in the source")
    put(f"  {'words':<10}{'sentences':>10}{'BLEU':>8}{'chrF':>8}{'length':>8}")
    for row in measured.by_length:
        put(f"  {row.label:<10}{row.sentences:>10,}{row.bleu:8.2f}{row.chrf:8.2f}{row.length_ratio:8.2f}")
    if measured.comparisons:
        put(f"against {against} (95 % intervals, paired bootstrap)")
    for row in measured.comparisons:
        ours, theirs = (f"{e.value:.2f} [{e.low:.2f}, {e.high:.2f}]" for e in (row.ours, row.theirs))
        put(f"  {row.name:<6} {ours} against {theirs}  p = {row.p_value:.4f}")
