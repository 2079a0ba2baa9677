"""What a run takes over from models that were trained before: a tokenizer, the first weights, a teacher."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from clearhead.checkpoint import SETTINGS, TOKENIZER, load_checkpoint, set_weights, weights
from clearhead.config import Settings, parse_settings, read_toml
from clearhead.errors import ModelError, SettingsError
from clearhead.models import Translator, read_config
from clearhead.tasks.objective import TranslationLoss
from clearhead.tasks.recipes import Recipe, parse_recipe
from clearhead.tasks.translation.directions import saved_directions, tag_ids
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.zoo import find
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.training import Criterion, TrainingConfig, find_device

# What two models of one shape may have different.
FREE = {"dropout": True, "attention": {"dropout"}}
TEACHER = "training.distillation.teacher"


def inherited(recipe: Recipe) -> Recipe:
    """The same with whole paths, and with the settings of the tokenizer and the shape that are taken over."""
    training = recipe.training
    paths: dict[str, object] = {}
    if training.init_from:
        paths["init_from"] = _folder("training.init_from", training.init_from)
    if distillation := getattr(training, "distillation", None):
        teacher = _folder(TEACHER, distillation.teacher)
        paths["distillation"] = distillation.model_copy(update={"teacher": teacher})
    recipe = recipe.model_copy(update={"training": training.model_copy(update=paths)})
    tokenizer = inherited_tokenizer(recipe.training)
    if tokenizer is None:
        return recipe
    if isinstance(recipe, TranslationRecipe):
        _check_tags(recipe, tokenizer)
    values = tokenizer.config.model_dump(exclude_none=True) | {"dropout": recipe.tokenizer.dropout}
    settings = parse_settings(TokenizerConfig, values, group="tokenizer")
    recipe = recipe.model_copy(update={"tokenizer": settings})
    return _shaped(recipe, Path(recipe.training.init_from)) if recipe.training.init_from else recipe


def _folder(setting: str, name: str) -> str:
    """The folder of a trained model, or of one in the package by its name."""
    with _named(setting):
        return str(find(name)[0].absolute())


def _shaped(recipe: Recipe, folder: Path) -> Recipe:
    """The same with the model to begin with, but for what the recipe itself says of its own."""
    with _named("training.init_from"):
        begun = read_config(read_toml(folder / SETTINGS).get("model", {}), str(folder / SETTINGS))
    if begun.kind != recipe.model.kind:
        raise ModelError(
            f"training.init_from: {folder} holds a model of kind {begun.kind}, this recipe needs a "
            f"{recipe.model.kind}; name another folder"
        )
    values = recipe.model_dump(mode="json", exclude_none=True)
    taken = begun.model_dump(mode="json", exclude_none=True)
    said = recipe.model.model_dump(mode="json", exclude_unset=True)
    shaped = parse_recipe(values | {"model": _merged(taken, said)})
    _check_shape(shaped.model, begun, folder)
    return shaped


def _merged(taken: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    inner = {name: taken[name] | value for name, value in said.items() if isinstance(value, dict)}
    return taken | said | inner


def _check_shape(wanted: Settings, begun: Settings, folder: Path) -> None:
    """The model to begin with is as the recipe wants it, but for what may differ."""
    found = begun.model_dump(exclude=FREE)
    for name, value in wanted.model_dump(exclude=FREE).items():
        if found.get(name) != value:
            raise ModelError(
                f"training.init_from: {folder} has model.{name} {_shown(found.get(name))}, this recipe "
                f"{_shown(value)}; make them equal, or leave it out of the recipe"
            )


def _check_tags(recipe: TranslationRecipe, tokenizer: Tokenizer) -> None:
    """The tokenizer that is taken over knows the languages, and a teacher translates them."""
    if recipe.training.distillation:
        _check_languages(recipe, Path(recipe.training.distillation.teacher))
    with _named("training.init_from" if recipe.training.init_from else TEACHER):
        tag_ids(recipe.data.directions, tokenizer)


def inherited_tokenizer(training: TrainingConfig) -> Tokenizer | None:
    """That of the model to begin with or of the teacher, who must agree; None where there is neither."""
    named = {"training.init_from": training.init_from}
    if distillation := getattr(training, "distillation", None):
        named[TEACHER] = distillation.teacher
    folders = {setting: Path(folder) for setting, folder in named.items() if folder}
    found = []
    for setting, folder in folders.items():
        with _named(setting):
            found.append(Tokenizer.load(folder / TOKENIZER))
    if len({tokenizer.fingerprint for tokenizer in found}) > 1:
        raise ModelError(
            f"{TEACHER}: {folders[TEACHER]} has another tokenizer than training.init_from, {training.init_from}; "
            "train one of them with the tokenizer of the other"
        )
    return found[0] if found else None


def _check_languages(recipe: TranslationRecipe, folder: Path) -> None:
    """A teacher translates all that its pupil will."""
    with _named(TEACHER):
        theirs = saved_directions(read_toml(folder / SETTINGS))
    ours = recipe.data.directions
    strange = [str(direction) for direction in ours if direction not in theirs]
    if strange:
        raise ModelError(
            f"{TEACHER}: {folder} translates {', '.join(map(str, theirs))}, not {', '.join(strange)}; name "
            "a teacher that does"
        )


def init_weights_from(model: nn.Module, folder: Path) -> None:
    """Gives a model the weights of another one of its shape."""
    with _named("training.init_from"):
        begun = load_checkpoint(folder).model
    set_weights(model, weights(begun), place=f"training.init_from: {folder}")


def make_loss(recipe: TranslationRecipe, tokenizer: Tokenizer) -> TranslationLoss:
    """What a recipe asks to be lowered."""
    training = recipe.training
    taught = training.distillation.weight if training.distillation else 0.0
    criterion = Criterion(training.label_smoothing, training.regulariser, taught)
    return TranslationLoss(criterion, len(tokenizer.specials), _teacher(recipe, tokenizer))


def _teacher(recipe: TranslationRecipe, tokenizer: Tokenizer) -> Translator | None:
    if not recipe.training.distillation:
        return None
    folder = Path(recipe.training.distillation.teacher)
    with _named(TEACHER):
        checkpoint = load_checkpoint(folder)
    teacher, its_tokenizer = checkpoint.model, checkpoint.tokenizer
    if not isinstance(teacher, Translator):
        raise ModelError(f"{TEACHER}: {folder} holds no model that translates; name another folder")
    place = f"{TEACHER}: {folder}"
    if its_tokenizer.fingerprint != tokenizer.fingerprint:
        raise ModelError(f"{place} has another tokenizer than the run; bring the old one back, or start anew")
    if teacher.config.max_length < recipe.model.max_length:
        raise ModelError(
            f"{place} takes {teacher.config.max_length} tokens, this model {recipe.model.max_length}; lower "
            "model.max_length"
        )
    if recipe.batches.kind == "packed" and not teacher.config.packs:
        raise ModelError(f"{place} needs a row for each sentence; set batches.kind to 'padded'")
    return teacher.requires_grad_(False).to(find_device(recipe.training.device))


@contextmanager
def _named(setting: str) -> Iterator[None]:
    """What is wrong with a model is said with the setting that names it."""
    try:
        yield
    except (ModelError, SettingsError) as error:
        raise ModelError(f"{setting}: {error}") from None


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_shown(inner)}" for name, inner in value.items()) + "}"
    return f"'{value}'" if isinstance(value, str) else str(value)
