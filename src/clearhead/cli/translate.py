"""clearhead translate: texts, a document, or stdin line by line."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.console import print_result, print_status, read_lines, utf8_arguments
from clearhead.cli.options import (
    MODEL_HELP,
    MULTILINGUAL,
    TRANSLATOR,
    Beam,
    Device,
    Json,
    LengthPenalty,
    PrecisionName,
    RepetitionPenalty,
    ShortlistFile,
    TopK,
    device_named,
    given,
    option,
    precision_named,
    print_default,
)
from clearhead.cli.progress import Progress
from clearhead.cli.shortlist import use_shortlist
from clearhead.errors import SettingsError

if TYPE_CHECKING:
    from clearhead.tasks.translation.search import Translation

# What is a file name rather than a text.
FILE_NAME = re.compile(r"[^\s:]+\.(md|markdown|txt|text|rst|html)", re.IGNORECASE)


def translate(
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Texts, or with --to one FILE to translate; reads stdin line by line if omitted.",
            metavar="TEXT",
        ),
    ] = None,
    model: Annotated[
        str | None, option(f"{MODEL_HELP} Default: {TRANSLATOR}.", "MODEL", name="--model")
    ] = None,
    to: Annotated[str | None, option("Target language.", "LANG")] = None,
    out: Annotated[
        Path | None, option("File for a translated document; default: stdout (-).", "FILE")
    ] = None,
    mark: Annotated[
        bool, option("Mark doubtful sentences of a document ⟪like this⟫.", name="--mark")
    ] = False,
    mark_below: Annotated[float | None, option("Confidence below which to mark; default: 0.5.", "P")] = None,
    beam: Beam = None,
    nbest: Annotated[int, option("Translations per text, best first.", "N")] = 1,
    length_penalty: LengthPenalty = None,
    prefix: Annotated[str, option("Text that starts each translation.", "TEXT")] = "",
    repetition_penalty: RepetitionPenalty = 1.0,
    no_repeat: Annotated[int, option("Never repeat an N-gram; 0: off.", "N", name="--no-repeat-ngram")] = 0,
    temperature: Annotated[float | None, option("Sample at this temperature; default: search.", "X")] = None,
    top_k: TopK = None,
    top_p: Annotated[float | None, option("Sample from the top tokens of total probability P.", "P")] = None,
    min_p: Annotated[float | None, option("Skip tokens below P times the top probability.", "P")] = None,
    seed: Annotated[int | None, option("Random seed for sampling; default: 0.", "N")] = None,
    batch_size: Annotated[
        int | None, option("Lines of stdin to translate at a time; default: 512, on a GPU 4096.", "N", min=1)
    ] = None,
    device: Device = "auto",
    precision: PrecisionName = "fp32",
    shortlist: ShortlistFile = None,
    json: Json = False,
) -> None:
    """Translate texts, a document, or stdin line by line.

    Prints one line per input line, in order; blank lines stay blank. Numbers, URLs, placeholders and emoji
    are kept. For a stream such as that of tail -f, set --batch-size 1. With --nbest N, prints N lines of
    score, tab and the model's own translation. --temperature, --top-k, --top-p and --min-p sample instead of
    searching.

    A FILE with --to or --out is a document in Markdown or plain text: it is split into sentences, and its
    structure, numbers, URLs, code and placeholders are kept. With --json, prints an object per sentence.

    \b
    Examples:
      clearhead translate "Where is the station?"
      clearhead translate --to fr "Where is the station?"
      clearhead translate --model fr-en --nbest 3 "Je suis fatigué."
      clearhead translate guide.md --to de --out guide.de.md
      clearhead translate --model runs/mine < english.txt > german.txt
    """
    from clearhead.tasks.load import load_built_in, load_for
    from clearhead.tasks.translation.documents import LOW_CONFIDENCE
    from clearhead.tasks.translation.options import Sampling, TranslateOptions

    document = _document_path(texts or [], to, out, mark or mark_below is not None)
    if model is None:
        print_default(TRANSLATOR)
        translator = load_built_in(MULTILINGUAL, device_named(device), precision_named(precision))
        to = to or TRANSLATOR.split("-")[1]
    else:
        translator = load_for("translation", model, device_named(device), precision_named(precision))
    if shortlist:
        use_shortlist(translator, model or TRANSLATOR, shortlist, to)
    chunk: int = batch_size or translator.default_batch_size
    filters = given(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    sampling = Sampling(seed=seed or 0, **filters) if filters else None
    if seed is not None and not sampling:
        raise SettingsError(f"--seed {seed}: needs --temperature, --top-k, --top-p or --min-p")
    options = TranslateOptions(beam, nbest, length_penalty, prefix, repetition_penalty, no_repeat, sampling)
    if document:
        from clearhead.cli.document import translate_document

        threshold = LOW_CONFIDENCE if mark_below is None else mark_below
        marks = threshold if mark or mark_below is not None else None
        out = None if out == Path("-") else out
        translate_document(translator, document, to, out, marks, options, chunk, json)
        return
    interactive = bool(sys.stdin) and sys.stdin.isatty()
    chunk = 1 if interactive and not texts else chunk
    lines = utf8_arguments(texts, "text") if texts else read_lines()
    translations = translator.stream(lines, to, batch_size=chunk, options=options)
    # A model without placeholders may have learned to change numbers, such as 3 to three.
    if nbest == 1 and not prefix and not sampling and translator.tokenizer.placeholder_ids:
        from clearhead.tasks.translation.lines import with_items

        translations = with_items(translations, translator, to, options, chunk)
    if not texts and not interactive and not sys.stdout.isatty():
        translations = _tracked(translations)
    for translation in translations:
        _print(translation, nbest, json)


def _tracked(translations: Iterable["Translation"]) -> Iterator["Translation"]:
    """The translations, with a bar on a terminal, and at the end a line with rates unless it was quick."""
    on_terminal, number = sys.stderr.isatty(), 0
    with Progress("translating", "line", transient=True) as progress:
        if on_terminal:
            progress.start(None)
        for number, translation in enumerate(translations, start=1):
            yield translation
            progress.add(sentence=bool(translation.source.strip()), token=len(translation.ids))
            if on_terminal:
                progress.update(number)
    if number and (on_terminal or progress.took_long()):
        print_status(progress.summary())


def _document_path(texts: list[str], to: str | None, out: Path | None, marks: bool) -> Path | None:
    """The document to translate, if the arguments are a file with --to or --out.

    Any other argument that is or names a file would be translated as a text, so it is an error.
    """
    if len(texts) == 1 and (to or out) and (out or os.path.exists(texts[0])):  # noqa: PTH110
        return Path(texts[0])
    if "-" in texts:
        raise SettingsError(
            "-: is not a text; to read lines from stdin, leave it out; a document must be a file"
        )
    for text in texts:
        if os.path.exists(text) and not os.path.isdir(text):  # noqa: PTH110, PTH112
            form = f"clearhead translate {text} --to {to or 'LANG'}"
            raise SettingsError(f"{text}: is a file; translate it with: {form} (line by line: < {text})")
        if FILE_NAME.fullmatch(text):
            raise SettingsError(f"{text}: no such file; if it is a text, pass it on stdin")
    if out or marks:
        name = f"--out {out}" if out else "--mark"
        raise SettingsError(f"{name}: needs one document; use: clearhead translate FILE --to LANG")
    return None


def _print(translation: "Translation", nbest: int, json: bool) -> None:
    if json:
        record = {"source": translation.source, "translation": translation.text, "score": translation.score}
        if nbest > 1:
            record["nbest"] = [{"translation": one.text, "score": one.score} for one in translation.nbest]
        if not translation.complete:
            record["complete"] = False
        print_result(record)
    elif nbest > 1 and translation.nbest:
        for one in translation.nbest:
            print_result(f"{one.score:.4f}\t{one.text}")
    else:
        print_result(translation.text)
