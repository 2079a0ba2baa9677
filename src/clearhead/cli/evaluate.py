"""clearhead evaluate: scores of a model on test data."""

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.console import print_result, print_status
from clearhead.cli.options import (
    Beam,
    Device,
    Json,
    Labels,
    LengthPenalty,
    ModelArgument,
    Pairs,
    PrecisionName,
    ShortlistFile,
    Texts,
    check_taken,
    columns_named,
    device_named,
    given,
    option,
    pairs_location,
    precision_named,
)
from clearhead.cli.progress import FileProgress, Progress
from clearhead.cli.shortlist import use_shortlist
from clearhead.errors import SettingsError

if TYPE_CHECKING:
    from clearhead.tasks.evaluation import Evaluable

WORDS_HELP = "Test of word vectors: lines of 'word word score', or analogies of four words; may be repeated."

DATA_HELP = "Test data of any other model, in the format of its training data."


def evaluate(
    context: typer.Context,
    model: ModelArgument,
    pairs: Pairs = None,
    columns: Annotated[
        str | None, option("Columns of --pairs or --labels to read, by name or number from 0.", "A,B")
    ] = None,
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
    words: Annotated[list[str] | None, option(WORDS_HELP, "FILE")] = None,
    labels: Labels = None,
    explanations: Annotated[
        int | None, option("Texts on which a classifier's explanations are tested.", "N", min=1)
    ] = None,
    data: Annotated[str | None, option(DATA_HELP, "FILE")] = None,
    device: Device = "auto",
    precision: PrecisionName = "fp32",
    shortlist: ShortlistFile = None,
    json: Json = False,
) -> None:
    """Score a model on test data.

    A translator gets BLEU, chrF and TER on --pairs, or on the test pairs held out from its training. Pairs
    with a blank side are skipped; a source longer than the model's limit counts as an empty translation. With
    --against, a paired bootstrap tests the difference between two systems.

    A language model, n-grams included, gets its loss, perplexity and bits per byte on --text, or on the text
    held out from its training. A sliding window predicts each token once, with at least window minus stride
    tokens of context.

    A masked language model gets its accuracy, loss and perplexity on masked tokens of --text, always the same
    ones, or of the text held out from its training.

    Word vectors get their rank correlation with human similarity ratings, and their accuracy on analogies, on
    the files of --words.

    A classifier gets its accuracy, F1, calibration error and confusion matrix on --labels, or on the test
    files of its recipe, or on the texts held out from its training. With --explanations, tokens are removed
    from N of the texts, the most relevant first, to see whether they decide the label.

    Every other model is scored on --data, or on the data held out from its training.

    \b
    Examples:
      clearhead evaluate fr-en --pairs test.fr-en.tsv
      clearhead evaluate runs/mine
      clearhead evaluate runs/mine --pairs test.tsv --against runs/quickstart
      clearhead evaluate runs/mine --pairs test.en,test.de --json
      clearhead evaluate runs/mine --pairs my.csv --columns english,german
      clearhead evaluate runs/multilingual --from en --to fr
      clearhead evaluate shakespeare --text my.txt
      clearhead evaluate runs/mine --text other.jsonl --field story
      clearhead evaluate runs/vectors --words EN-WS-353-ALL.txt
      clearhead evaluate runs/reviews --labels test.tsv
      clearhead evaluate runs/reviews --explanations 200
      clearhead evaluate runs/answers --data test.jsonl
    """
    from clearhead.tasks.load import load
    from clearhead.tasks.zoo import find

    loaded: Evaluable = load(model, device_named(device), precision_named(precision))
    if shortlist:
        use_shortlist(loaded, model, shortlist, target)
    test = pairs_location(pairs) if pairs else None
    chosen = columns_named(columns) if columns else None
    options = given(
        columns=chosen, pairs=test, against=against, source=source, target=target, beam=beam, out=out
    )
    options |= given(length_penalty=length_penalty, text=text, field=field, stride=stride)
    options |= given(words=words, labels=labels, explanations=explanations, data=data)
    parameters = signature(loaded.evaluate).parameters
    taken = [name for name in parameters if name in context.params]
    check_taken(context, model, loaded.task, options, taken)
    if columns and not (pairs or labels):
        raise SettingsError(f"--columns {columns}: needs --pairs FILE or --labels FILE")
    if field and not text:
        raise SettingsError(f"--field {field}: needs --text FILE; the held-out text has no fields")
    with Progress("evaluating", loaded.evaluate_unit) as progress:

        def follow(done: int, total: int) -> None:
            if not done:
                progress.start(total)
            progress.update(done)

        if "generated" in parameters:
            options["generated"] = lambda tokens: progress.add(sentence=1, token=tokens)
        found = loaded.evaluate(find(model)[0], progress=follow, reading=FileProgress(), **options)
    for note in found.notes:
        print_status(note)
    if json:
        print_result(dict(found.record))
        return
    for line in found.lines:
        print_result(line)
