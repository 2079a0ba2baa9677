"""The story of a training run: text in, a model's folder out, and nothing lost on the way."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch

from clearhead.checkpoint import CARD, SETTINGS, TOKENIZER, WEIGHTS, save_weights
from clearhead.config import changed, parse_settings, read_toml, settings_toml
from clearhead.data.corpus import Pair, check_files
from clearhead.data.splitting import Splitting
from clearhead.data.store import PairStore
from clearhead.errors import SettingsError, TrainingError
from clearhead.models import Translator
from clearhead.tasks.card import model_card
from clearhead.tasks.directions import Direction, file_name
from clearhead.tasks.events import Event, Note
from clearhead.tasks.inheritance import begin_with, inherited_tokenizer, inheriting, make_loss
from clearhead.tasks.loop import CHANGEABLE, Lessons, Run
from clearhead.tasks.preparation import Corpus, learn_tokenizer, store, tally
from clearhead.tasks.recipe import TranslationRecipe
from clearhead.tasks.records import add_final, draw_curves, naming
from clearhead.tasks.validator import Validator
from clearhead.text.tokenizer import Tokenizer
from clearhead.training import (
    Ranks,
    StateFolder,
    joined,
)
from clearhead.training.devices import on_gpu
from clearhead.writing import temporary_name, write_text

STATES = "training"


def train(recipe: TranslationRecipe, out: Path) -> Iterator[Event]:
    """Trains a translator into a new folder; the events tell how it goes.

    Under torchrun all its processes train together: rank 0 does what is done once, and every rank tells of
    the same events.
    """
    anchored = recipe.model_copy(update={"data": recipe.data.anchored()})
    recipe = inheriting(anchored.settled(on_gpu(recipe.training.device)))
    with (
        joined(recipe.training.device) as ranks,
        StateFolder.of(out / STATES, recipe.training, ranks) as states,
    ):
        ranks.share(ranks.together(recipe.training.accumulate))
        ranks.first(lambda: _begin(recipe, out, states))
        yield from _run(recipe, out, states, ranks)


def resume(out: Path, changes: Sequence[str] = ()) -> Iterator[Event]:
    """Goes on with the run in a folder as if it had never stopped; a change is 'training.steps=9'."""
    if not (out / SETTINGS).exists():
        raise TrainingError(f"{out}: no run to resume here, {SETTINGS} is missing")
    if (out / WEIGHTS).exists() and not StateFolder(out / STATES).steps():
        raise TrainingError(
            f"{out}: holds a model, but no state of a run to resume; train on from its weights in another "
            f"folder: --set training.begin={out}"
        )
    recipe = _resumed(out, changes)
    with (
        joined(recipe.training.device) as ranks,
        StateFolder.of(out / STATES, recipe.training, ranks) as states,
    ):
        ranks.first(lambda: _write(out / SETTINGS, settings_toml(recipe)))
        yield from _run(recipe, out, states, ranks)


def _begin(recipe: TranslationRecipe, out: Path, states: StateFolder) -> None:
    if states.steps() or (out / WEIGHTS).exists():
        raise TrainingError(f"{out}: holds a run already; go on with it (--resume), or choose another folder")
    _write(out / SETTINGS, settings_toml(recipe))
    (out / TOKENIZER).unlink(missing_ok=True)


def _resumed(out: Path, changes: Sequence[str]) -> TranslationRecipe:
    for change in changes:
        group, _, name = change.partition("=")[0].strip().partition(".")
        if group != "training" or name.partition(".")[0] not in CHANGEABLE:
            allowed = ", ".join(f"training.{setting}" for setting in CHANGEABLE)
            raise SettingsError(f"--set {change}: a resumed run keeps its settings but for {allowed}")
    saved = read_toml(out / SETTINGS)
    return parse_settings(TranslationRecipe, changed(saved, changes), place=str(out / SETTINGS))


def _run(recipe: TranslationRecipe, out: Path, states: StateFolder, ranks: Ranks) -> Iterator[Event]:
    """Prepares the data, then trains; what an earlier try has prepared is not made again."""
    corpus = Corpus(recipe.data, recipe.training.seed)
    check_files(recipe.data.places)
    example = next(corpus.examples())
    yield Note(f"for example: {example.source} -> {example.target}")
    if ranks.first(lambda: _tidied(out)):
        inherited = inherited_tokenizer(recipe.training)
        yield Note("taking over a tokenizer …" if inherited else "learning the tokenizer …")
        ranks.first(lambda: _keep(inherited or learn_tokenizer(corpus, recipe), out / TOKENIZER))
    tokenizer = Tokenizer.load(out / TOKENIZER)
    shared = "both" if len(recipe.data.languages) == 2 else f"all {len(recipe.data.languages)}"
    yield Note(
        f"tokenizer: {tokenizer.size:,} tokens ({recipe.tokenizer.kind}), shared by {shared} languages"
    )

    yield Note("reading, cleaning and tokenising the pairs …")
    # Rank 0 makes what the others then find; on another machine, one of those there makes it again.
    ranks.first(lambda: len(store(corpus, "train", tokenizer, recipe)))
    pairs = store(corpus, "train", tokenizer, recipe)
    ways = f" in {len(recipe.data.directions)} directions" if len(recipe.data.directions) > 1 else ""
    yield Note(f"pairs to train on: {len(pairs):,}{ways} ({tally(pairs)})")
    held_out = ranks.first(lambda: _hold_out(corpus, recipe, out))

    torch.manual_seed(recipe.training.seed)
    model = Translator(recipe.model, tokenizer.size)
    if recipe.training.begin and not states.steps():
        begin_with(model, Path(recipe.training.begin))
    yield Note(f"model: {_size(model):,} parameters")
    validator = Validator(held_out, tokenizer, recipe) if any(held_out.values()) else None
    encode = _splitting(pairs, tokenizer, recipe) if recipe.tokenizer.dropout else None
    loss = make_loss(recipe, tokenizer)
    run = Run(recipe, model, loss, Lessons(pairs, recipe, encode, ranks), validator, states)
    if recipe.training.compile == "on":
        yield Note("the first step compiles the model, which can take a minute …")
    finished = yield from run.events(out)
    if not finished.interrupted:
        final = run.final_weights()
        ranks.first(lambda: _publish(run, final, recipe, out))
    yield finished


def _tidied(out: Path) -> bool:
    """Removes what was half-written when an earlier try was killed; whether the tokenizer is missing."""
    for leftover in out.glob(temporary_name(Path("*")).name):
        leftover.unlink()
    return not (out / TOKENIZER).exists()


def _keep(tokenizer: Tokenizer, path: Path) -> None:
    with naming(path):
        tokenizer.save(path)


def _hold_out(corpus: Corpus, recipe: TranslationRecipe, out: Path) -> dict[Direction, list[Pair]]:
    """The pairs for validation; these and those for a test are written to the folder."""
    held_out = corpus.by_direction("validation")
    for part, kept in (("validation", held_out), ("test", corpus.by_direction("test"))):
        for direction, some in kept.items():
            _write(out / file_name(part, direction, recipe.data.directions), _tsv(some))
    return held_out


def _publish(run: "Run", final: dict[str, torch.Tensor], recipe: TranslationRecipe, out: Path) -> None:
    """The finished model, its scores, its card and its curves."""
    save_weights(final, out / WEIGHTS)
    model, step = run.trainer.parallel.showing(final), run.trainer.step
    scores = run.validator.measure(model, run.trainer.autocast()) if run.validator else {}
    add_final(out, step, scores)
    _write(out / CARD, model_card(recipe, _size(model), step, scores))
    draw_curves(out)


def _size(model: Translator) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _splitting(pairs: PairStore, tokenizer: Tokenizer, recipe: TranslationRecipe) -> Splitting:
    dropout, seed = recipe.tokenizer.dropout, recipe.training.seed
    return Splitting(pairs, tokenizer, dropout, seed, recipe.model.most_words)


def _tsv(pairs: Iterable[Pair]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def _write(path: Path, text: str) -> None:
    with naming(path):
        write_text(path, text)
