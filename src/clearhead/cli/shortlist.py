"""clearhead shortlist: the tokens that translations are likely to need, for faster translation on a CPU."""

from pathlib import Path
from typing import Annotated, Any

from clearhead.cli.console import print_status
from clearhead.cli.options import ModelArgument, Pairs, columns_named, option, pairs_location
from clearhead.errors import ModelError, SettingsError
from clearhead.files import check_output
from clearhead.wording import counted


def shortlist(
    model: ModelArgument,
    out: Annotated[Path, option("File for the shortlist.", "FILE")],
    pairs: Pairs = None,
    columns: Annotated[
        str | None, option("Columns of --pairs to read, by name or number from 0.", "A,B")
    ] = None,
    source: Annotated[str | None, option("Source language, if several.", "LANG", name="--from")] = None,
    target: Annotated[str | None, option("Target language, if several.", "LANG", name="--to")] = None,
) -> None:
    """Learn a vocabulary shortlist, for speed on a CPU.

    Learns from the training pairs of a translator, or from --pairs, which tokens translate which. With the
    shortlist, a translation contains only likely translations of its source's tokens, the source's tokens,
    frequent tokens and bytes. Fewer logits are computed, and a few translations change.

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

    check_output(out)
    if out.exists() and not _is_shortlist(out):
        raise SettingsError(f"--out {out}: exists and is not a shortlist; choose another file")
    translator = load_for("translation", model)
    if pairs:
        direction = chosen(translator.directions, source, target, ("--from", "--to"))
        names = columns_named(columns) if columns else None
        found = {direction: list(read_pairs(pairs_location(pairs), direction, names))}
    elif columns or source or target:
        raise SettingsError(
            "--columns, --from and --to: need --pairs FILE; omit them to learn all directions"
        )
    else:
        found = training_pairs(translator.folder, translator.directions)
    languages = " and ".join(dict.fromkeys(direction.target for direction in found))
    print_status(f"learning from {counted(sum(map(len, found.values())), 'pair')} into {languages} …")
    Shortlist.learn(translator.tokenizer, found).save(out)
    print_status(f"written: {out}; use it: clearhead translate --model {model} --shortlist {out}")


def _is_shortlist(path: Path) -> bool:
    from clearhead.tasks.translation.shortlist import Shortlist

    try:
        Shortlist.load(path)
    except ModelError:
        return False
    return True


def use_shortlist(model: Any, name: str, path: Path, to: str | None = None) -> None:
    """Give a translator the shortlist in a file, which must have the target language if one is named."""
    from clearhead.tasks.translation.model import TranslationModel
    from clearhead.tasks.translation.shortlist import Shortlist

    if not isinstance(model, TranslationModel):
        raise SettingsError(f"--shortlist {path}: {name} is not a translator; leave it out")
    model.shortlist = shortlist = Shortlist.load(path)
    if to and to not in shortlist.languages:
        known = ", ".join(shortlist.languages)
        raise SettingsError(f"--shortlist {path}: was made for {known}, not for {to}; make one for it")
