"""Starting a run from a trained model: its weights, its architecture, its tokenizer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from clearhead.checkpoint import SETTINGS, load_checkpoint, set_weights, weights
from clearhead.config import Settings, parse_settings, read_toml
from clearhead.errors import ModelError, SettingsError
from clearhead.models import read_config
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.zoo import find
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

INIT_FROM = "training.init_from"
# Settings that may differ between models of one architecture.
FREE = {"dropout": True, "attention": {"dropout"}}
R = TypeVar("R", bound=Recipe)


def model_folder(setting: str, name: str) -> str:
    """The absolute folder of a trained model, or of a built-in one by its name."""
    with naming(setting):
        return str(find(name)[0].absolute())


def with_model_of(recipe: R, folder: Path) -> R:
    """The recipe with the architecture of the model in a folder; the recipe's own settings must agree."""
    with naming(INIT_FROM):
        found: Any = read_config(read_toml(folder / SETTINGS).get("model", {}), str(folder / SETTINGS))
    if found.kind != recipe.model.kind:
        raise ModelError(
            f"{INIT_FROM}: {folder} holds a {found.kind}, but this recipe trains a {recipe.model.kind}; "
            "name another folder"
        )
    shape = found.model_dump(mode="json", exclude_none=True)
    given = recipe.model.model_dump(mode="json", exclude_unset=True)
    nested = {name: shape[name] | value for name, value in given.items() if isinstance(value, dict)}
    values = recipe.model_dump(mode="json", exclude_none=True) | {"model": shape | given | nested}
    shaped = parse_settings(type(recipe), values)
    _check_shape(shaped.model, found, folder)
    return shaped


def tokenizer_of(folders: dict[str, str | None]) -> Tokenizer | None:
    """The tokenizer shared by the models that settings name; None if no setting names one."""
    found: dict[str, Tokenizer] = {}
    for setting, folder in folders.items():
        if folder:
            with naming(setting):
                found[setting] = Tokenizer.load(Path(folder) / Tokenizer.FILE)
    if len({tokenizer.fingerprint for tokenizer in found.values()}) > 1:
        first, second = list(found)[:2]
        raise ModelError(
            f"{second}: the tokenizer of {folders[second]} differs from that of {first}, {folders[first]}; "
            "train one of them with the tokenizer of the other"
        )
    return next(iter(found.values()), None)


def with_tokenizer(recipe: R, tokenizer: Tokenizer) -> R:
    """The recipe with the settings of an inherited tokenizer, but its own dropout."""
    values = tokenizer.config.model_dump(exclude_none=True)
    values["dropout"] = recipe.tokenizer.dropout  # pyright: ignore[reportAttributeAccessIssue]
    settings = parse_settings(TokenizerConfig, values, group="tokenizer")
    return recipe.model_copy(update={"tokenizer": settings})


def init_weights_from(model: nn.Module, folder: Path) -> None:
    """Copies the weights of a trained model of the same architecture."""
    with naming(INIT_FROM):
        trained = load_checkpoint(folder).model
    set_weights(model, weights(trained), f"{INIT_FROM}: {folder}")


@contextmanager
def naming(setting: str) -> Iterator[None]:
    """Errors about a model start with the setting that names it."""
    try:
        yield
    except (ModelError, SettingsError) as error:
        raise ModelError(f"{setting}: {error}") from None


def _check_shape(recipe: Settings, trained: Settings, folder: Path) -> None:
    found = trained.model_dump(exclude=FREE)
    for name, value in recipe.model_dump(exclude=FREE).items():
        if found.get(name) != value:
            raise ModelError(
                f"{INIT_FROM}: {folder} has model.{name} {_shown(found.get(name))}, this recipe "
                f"{_shown(value)}; make them equal, or leave it out of the recipe"
            )


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_shown(inner)}" for name, inner in value.items()) + "}"
    return f"'{value}'" if isinstance(value, str) else str(value)
