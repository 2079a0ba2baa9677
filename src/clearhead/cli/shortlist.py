"""clearhead shortlist: the tokens that translations are likely to need, for faster translation on a CPU."""

from pathlib import Path
from typing import Annotated, Any

from clearhead.cli.console import print_status
from clearhead.cli.options import ModelArgument, Pairs, columns_named, option, pairs_location
from clearhead.errors import SettingsError
from clearhead.files import check_output
from clearhead.wording import counted


def shortlist(
    model: ModelArgument,
    out: Annotated[Path | None, option("File for the shortlist.", "FILE")] = None,
    pairs: Pairs = None,
    columns: Annotated[
        str | None, option("Columns of --pairs to read, by name or number from 0.", "A,B")
    ] = None,
    source: Annotated[str | None, option("Source language, if several.", "LANG", name="--from")] = None,
    target: Annotated[str | None, option("Target language, if several.", "LANG", name="--to")] = None,
) -> None:
    """Learn a vocabulary shortlist, for speed on a CPU.

    Learns which tokens translate which, from the pairs that a translator was trained on or from --pairs. With
    the shortlist, a translation contains only the likely translations of the source's tokens, the source's
    own tokens, and frequent ones, so that fewer logits are computed. A few translations change.

    \b
    Examples:
      clearhead shortlist en-de --out en-de.shortlist
      clearhead shortlist runs/mine --pairs my.en-de.tsv --out my.shortlist
      clearhead translate --model en-de --shortlist en-de.shortlist < in.txt
      clearhead evaluate en-de --shortlist en-de.shortlist
    """
    from clearhead.data.sources.corpus import read_pairs
    from clearhead.tasks.load import load_for
    from clearhead.tasks.translation.directions import chosen
    from clearhead.tasks.translation.mixing import training_pairs
    from clearhead.tasks.translation.shortlist import Shortlist

    if out is None:
        raise SettingsError("--out: is missing; name a file for the shortlist")
    check_output(out)
    translator = load_for("translation", model)
    if pairs:
        direction = chosen(translator.directions, source, target, ("--from", "--to"))
        names = columns_named(columns) if columns else None
        found = {direction: list(read_pairs(pairs_location(pairs), direction, names))}
    elif columns or source or target:
        raise SettingsError("--columns, --from and --to: need --pairs FILE")
    else:
        found = training_pairs(translator.folder, translator.directions)
    by_language: dict[str, list[tuple[str, str]]] = {}
    for direction, some in found.items():
        by_language.setdefault(direction.target, []).extend(some)
    for language, some in by_language.items():
        print_status(f"learning from {counted(len(some), 'pair')} into {language} …")
    Shortlist.learn(translator.tokenizer, by_language).save(out)
    print_status(f"written: {out}; use it: clearhead translate --model {model} --shortlist {out}")


def use_shortlist(model: Any, name: str, path: Path) -> None:
    """Give a translator the shortlist in a file."""
    from clearhead.tasks.translation.model import TranslationModel
    from clearhead.tasks.translation.shortlist import Shortlist

    if not isinstance(model, TranslationModel):
        raise SettingsError(f"--shortlist {path}: {name} is not a translator; leave it out")
    model.shortlist = Shortlist.load(path)
