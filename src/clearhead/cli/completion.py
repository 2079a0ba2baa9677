"""Shell completion of models, recipes and data sets; imports nothing slow, because it runs at every Tab."""

import tomllib
from collections.abc import Iterator
from pathlib import Path


def model_names() -> list[str]:
    """Built-in models and their directions, and the folders of models here and in runs."""
    from clearhead import assets

    built_in = sorted(assets.path("models").glob("*/config.toml"))
    trained = (path for folder in (Path(), Path("runs")) for path in sorted(folder.glob("*/config.toml")))
    directions = (name for path in built_in for name in _directions(path))
    return [*(path.parent.name for path in built_in), *directions, *(str(path.parent) for path in trained)]


def recipe_names(incomplete: str) -> list[str]:
    """The names of the shipped recipes, or their last parts if only those begin as the user does."""
    from clearhead import assets

    names = list(assets.recipes())
    short = [name.partition("/")[2] for name in names]
    if any(name.startswith(incomplete) for name in names):
        return names
    return [name for name in short if short.count(name) == 1]


def dataset_names() -> list[str]:
    """The names of the public data sets."""
    from clearhead.data.datasets import list_datasets

    return [data.name for data in list_datasets()]


def language_codes() -> list[tuple[str, str]]:
    """The codes of all languages, with their names."""
    from clearhead.text.languages import NAMES

    return list(NAMES.items())


def shipped_pairs() -> list[str]:
    """The names of the pairs in the package."""
    from clearhead.data.datasets import SHIPPED

    return list(SHIPPED)


def shipped_texts() -> list[str]:
    """The names of the texts in the package."""
    from clearhead.data.datasets import SHIPPED_TEXTS

    return list(SHIPPED_TEXTS)


def _directions(path: Path) -> Iterator[str]:
    """The directions of a built-in translator, by its settings."""
    for corpus in tomllib.loads(path.read_text(encoding="utf-8"))["data"].get("corpora", []):
        yield f"{corpus['source']}-{corpus['target']}"
        if corpus.get("both"):
            yield f"{corpus['target']}-{corpus['source']}"
