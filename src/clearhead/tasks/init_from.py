"""Starting a run from a trained model: its weights, its architecture, its tokenizer."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from clearhead.checkpoint import (
    SETTINGS,
    Checkpoint,
    check_model_folder,
    load_checkpoint,
    set_weights,
    stored_parameters,
    weights,
)
from clearhead.config import Settings, parse_settings, read_toml
from clearhead.errors import ModelError, SettingsError
from clearhead.models import MODELS, read_config
from clearhead.tasks.card import file_label
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.zoo import find
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.training import ParentConfig

INIT_FROM = "training.init_from"
# Settings that may differ between models of one architecture.
FREE = {"dropout": True, "attention": {"dropout"}, "head": True}
# What reads the states of a model; the rest of it may be trained on under another one.
HEAD = "head."
R = TypeVar("R", bound=Recipe)


def model_folder(setting: str, name: str) -> str:
    """The absolute folder of a trained model, or of a built-in one by its name."""
    with naming(setting):
        return str(find(name)[0].absolute())


def with_init_from(recipe: R) -> R:
    """The recipe with the tokenizer and architecture of the model that it starts from, if any."""
    if not recipe.training.init_from:
        return recipe
    folder = model_folder(INIT_FROM, recipe.training.init_from)
    training = recipe.training.model_copy(update={"init_from": folder})
    tokenizer = tokenizer_of({INIT_FROM: folder})
    assert tokenizer is not None
    recipe = with_tokenizer(recipe.model_copy(update={"training": training}), tokenizer)
    return with_model_of(recipe, Path(folder))


def with_model_of(recipe: R, folder: Path) -> R:
    """The recipe with the architecture of the model in a folder; the recipe's own settings must agree.

    The head is the recipe's, unless both are of one kind.
    """
    with naming(INIT_FROM):
        found = _config(folder)
    if found.kind != recipe.model.kind:
        raise ModelError(
            f"{INIT_FROM}: {folder} holds {_a(found.kind)}, but this recipe trains {_a(recipe.model.kind)}; "
            "name another folder"
        )
    shape = found.model_dump(mode="json", exclude_none=True)
    given = recipe.model.model_dump(mode="json", exclude_unset=True)
    head = getattr(recipe.model, "head", None)
    if head and head.kind != found.head.kind:
        shape["head"] = head.model_dump(mode="json", exclude_none=True)
    nested = {name: shape[name] | value for name, value in given.items() if isinstance(value, dict)}
    values = recipe.model_dump(mode="json", exclude_none=True) | {"model": shape | given | nested}
    shaped = parse_settings(type(recipe), values)
    _check_shape(shaped.model, found, folder)
    training = shaped.training.model_copy(update={"parents": lineage(folder)})
    return shaped.model_copy(update={"training": training})


def lineage(folder: Path) -> tuple[ParentConfig, ...]:
    """The model in a folder and those that it descends from, nearest first."""
    settings = read_toml(folder / SETTINGS)
    training = settings.get("training")
    earlier = training.get("parents", []) if isinstance(training, dict) else []
    with naming(INIT_FROM):
        size = stored_parameters(folder)
        older = [parse_settings(ParentConfig, one, str(folder / SETTINGS), "parents") for one in earlier]
    return (ParentConfig(name=folder.name, parameters=size, data=_training_files(settings)), *older)


def _training_files(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a run's training files, by its saved settings; shipped data sets are files too."""
    data = settings.get("data")
    data = data if isinstance(data, Mapping) else {}
    files = [file for corpus in data.get("corpora", [data]) for file in corpus.get("train", [])]
    return tuple(dict.fromkeys(file_label(file) for file in files))


def tokenizer_of(folders: dict[str, str | None]) -> Tokenizer | None:
    """The tokenizer shared by the models that settings name; None if no setting names one."""
    found: dict[str, Tokenizer] = {}
    for setting, folder in folders.items():
        if folder:
            with naming(setting):
                found[setting] = _tokenizer(Path(folder))
    if len({tokenizer.fingerprint for tokenizer in found.values()}) > 1:
        first, second = list(found)[:2]
        raise ModelError(
            f"{second}: the tokenizer of {folders[second]} differs from that of {first}, {folders[first]}; "
            "train one of them with the tokenizer of the other"
        )
    return next(iter(found.values()), None)


def with_tokenizer(recipe: R, tokenizer: Tokenizer) -> R:
    """The recipe with the settings of an inherited tokenizer, but its own dropout.

    Other settings that the recipe names must agree, because they would have no effect.
    """
    values = tokenizer.config.model_dump(exclude_none=True)
    own: TokenizerConfig | None = recipe.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    if own and "tokenizer" in recipe.model_fields_set:
        _check_tokenizer(own, tokenizer.config)
    values["dropout"] = own.dropout if own else 0.0
    settings = parse_settings(TokenizerConfig, values, group="tokenizer")
    return recipe.model_copy(update={"tokenizer": settings})


def _check_tokenizer(own: TokenizerConfig, inherited: TokenizerConfig) -> None:
    resolved = {"normalize": "normalizes", "byte_fallback": "falls_back"}
    for name in TokenizerConfig.model_fields:
        found, value = (getattr(one, resolved.get(name, name)) for one in (inherited, own))
        if name in own.model_fields_set and name != "dropout" and value != found:
            raise SettingsError(
                f"tokenizer.{name}: {value} has no effect, because the tokenizer is inherited from a trained "
                f"model, where it is {found}; leave it out"
            )


def init_weights_from(model: nn.Module, folder: Path, processor: Any) -> bool:
    """Copies the weights of a trained model of the same architecture; returns whether the head stays new.

    A head is copied if it is of the same kind and its processor, labels included, is the same.
    """
    with naming(INIT_FROM):
        trained = load_checkpoint(folder)
    values, own = weights(trained.model), weights(model)
    new_head = any(name.startswith(HEAD) for name in own) and not _same_head(model, trained, processor)
    if new_head:
        values = {name: value for name, value in values.items() if not name.startswith(HEAD)}
        values |= {name: value for name, value in own.items() if name.startswith(HEAD)}
    set_weights(model, values, f"{INIT_FROM}: {folder}")
    return new_head


@contextmanager
def naming(setting: str) -> Iterator[None]:
    """Errors about a model start with the setting that names it."""
    try:
        yield
    except (ModelError, SettingsError) as error:
        raise ModelError(f"{setting}: {error}") from None


def _config(folder: Path) -> Any:
    """The settings of the model in a folder."""
    check_model_folder(folder)
    return read_config(read_toml(folder / SETTINGS).get("model", {}), str(folder / SETTINGS))


def _tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of the model in a folder, which may be a part of its processor."""
    kind = MODELS[_config(folder).kind].Processor
    if kind is Tokenizer:
        return Tokenizer.load(folder / Tokenizer.FILE)
    tokenizer = getattr(kind.load(folder / kind.FILE), "tokenizer", None) if kind else None
    if tokenizer is None:
        raise ModelError(f"{folder} holds a model without a tokenizer; name another folder")
    return tokenizer


def _same_head(model: nn.Module, trained: Checkpoint, processor: Any) -> bool:
    kinds = {one.config.head.kind for one in (model, trained.model)}  # pyright: ignore
    return len(kinds) == 1 and trained.processor.fingerprint == processor.fingerprint


def _check_shape(recipe: Any, trained: Settings, folder: Path) -> None:
    # Only learned positions have weights, whose number is that of the positions.
    free = FREE | ({} if getattr(recipe, "position", "none") == "learned" else {"max_length": True})
    found = trained.model_dump(exclude=free)
    for name, value in recipe.model_dump(exclude=free).items():
        if found.get(name) != value:
            raise ModelError(
                f"{INIT_FROM}: {folder} has model.{name} {_shown(found.get(name))}, this recipe "
                f"{_shown(value)}; make them equal, or leave it out of the recipe"
            )


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_shown(inner)}" for name, inner in value.items()) + "}"
    return f"'{value}'" if isinstance(value, str) else str(value)
