"""The story of a training run: text in, a model's folder out, and nothing lost on the way."""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
import torch

from clearhead.checkpoint import CARD, SETTINGS, TOKENIZER, WEIGHTS, save_weights
from clearhead.config import changed, parse_settings, read_toml, settings_toml
from clearhead.data.batching import Batches, Encode
from clearhead.data.cleaning import Tally
from clearhead.data.corpus import Pair
from clearhead.data.store import PairStore, Side
from clearhead.errors import SettingsError, TrainingError
from clearhead.models import Translator
from clearhead.tasks.card import model_card
from clearhead.tasks.events import Begun, Event, Finished, Note, Saved, Validation
from clearhead.tasks.preparation import Corpus, learn_tokenizer, store
from clearhead.tasks.recipe import TranslationRecipe
from clearhead.tasks.records import Records, draw_curves, naming, read_metrics
from clearhead.tasks.validator import Validator, translation_loss
from clearhead.text.tokenizer import UNKNOWN, Tokenizer
from clearhead.training import Feed, Interrupt, StateFolder, Trainer, average_weights
from clearhead.writing import temporary_name, write_text

STATES = "training"
# What a resumed run may change: how long and how often, not what is learned.
CHANGEABLE = ("average", "keep_best", "keep_last", "patience", "report_every", "save_every", "steps")


def train(recipe: TranslationRecipe, out: Path) -> Iterator[Event]:
    """Trains a translator into a new folder; the events tell how it goes."""
    with _states(recipe, out) as states:
        if states.steps() or (out / WEIGHTS).exists():
            raise TrainingError(
                f"{out}: holds a run already; go on with it (--resume), or choose another folder"
            )
        _write(out / SETTINGS, settings_toml(recipe))
        (out / TOKENIZER).unlink(missing_ok=True)
        yield from _run(recipe, out, states)


def resume(out: Path, changes: Sequence[str] = ()) -> Iterator[Event]:
    """Goes on with the run in a folder as if it had never stopped; a change is 'training.steps=9'."""
    if not (out / SETTINGS).exists():
        raise TrainingError(f"{out}: no run to resume here, {SETTINGS} is missing")
    recipe = _resumed(out, changes)
    with _states(recipe, out) as states:
        _write(out / SETTINGS, settings_toml(recipe))
        yield from _run(recipe, out, states)


def _resumed(out: Path, changes: Sequence[str]) -> TranslationRecipe:
    for change in changes:
        group, _, name = change.partition("=")[0].strip().partition(".")
        if group != "training" or name.partition(".")[0] not in CHANGEABLE:
            allowed = ", ".join(f"training.{setting}" for setting in CHANGEABLE)
            raise SettingsError(f"--set {change}: a resumed run keeps its settings but for {allowed}")
    saved = read_toml(out / SETTINGS)
    return parse_settings(TranslationRecipe, changed(saved, changes), place=str(out / SETTINGS))


def _states(recipe: TranslationRecipe, out: Path) -> StateFolder:
    config, average = recipe.training, recipe.training.average
    return StateFolder(
        out / STATES,
        keep_last=config.keep_last,
        keep_best=max(config.keep_best, average.count if average and average.of == "best" else 1),
        # Room for two saved out of turn beside those that will be averaged; see Run._forget.
        keep_weights=average.count + 2 if average and average.of == "last" else 0,
        better="higher" if config.stop_on == "bleu" else "lower",
    )


def _run(recipe: TranslationRecipe, out: Path, states: StateFolder) -> Iterator[Event]:
    """Prepares the data, then trains; what an earlier try has prepared is not made again."""
    for leftover in out.glob(temporary_name(Path("*")).name):
        leftover.unlink()  # half-written when an earlier try was killed
    corpus = Corpus(recipe.data, recipe.training.seed)
    if not (out / TOKENIZER).exists():
        yield Note("learning the tokenizer …")
        learned = learn_tokenizer(corpus, recipe)
        with naming(out / TOKENIZER):
            learned.save(out / TOKENIZER)
    tokenizer = Tokenizer.load(out / TOKENIZER)
    yield Note(f"tokenizer: {tokenizer.size:,} tokens ({recipe.tokenizer.kind}), shared by both languages")

    yield Note("reading, cleaning and tokenising the pairs …")
    pairs = store(corpus, "train", tokenizer, recipe)
    yield Note(f"pairs to train on: {len(pairs):,} ({_tally(pairs)})")
    held_out = list(corpus.pairs("validation"))
    _write(out / "validation.tsv", _tsv(held_out))
    _write(out / "test.tsv", _tsv(corpus.pairs("test")))

    torch.manual_seed(recipe.training.seed)
    model = Translator(recipe.model, tokenizer.size)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    yield Note(f"model: {parameters:,} parameters")
    validator = Validator(held_out, tokenizer, recipe) if held_out else None
    encode = _with_dropout(pairs, tokenizer, recipe) if recipe.tokenizer.dropout else None
    batches = Batches(pairs, recipe.batches, recipe.training.seed, encode=encode)
    run = Run(recipe, model, batches, validator, states)
    finished = yield from run.events(out)
    if not finished.interrupted:
        save_weights(run.final_weights(), out / WEIGHTS)
        _write(out / CARD, model_card(recipe, parameters, finished.step, _scores(out)))
        draw_curves(out)
    yield finished


@dataclass
class Standing:
    """The best validation so far, and how many have passed since."""

    best: float | None = None
    waited: int = 0

    def improved(self, score: float, higher_is_better: bool) -> bool:
        """Whether a new score is the best; remembers it."""
        better = self.best is None or (score > self.best if higher_is_better else score < self.best)
        self.best, self.waited = (score, 0) if better else (self.best, self.waited + 1)
        return better


class Run:
    """The training loop and the occasions in it: report, validate, save, publish, stop."""

    def __init__(
        self,
        recipe: TranslationRecipe,
        model: Translator,
        batches: Batches,
        validator: Validator | None,
        states: StateFolder,
    ):
        self.config, self.model, self.validator, self.states = recipe.training, model, validator, states
        loss = partial(translation_loss, smoothing=recipe.training.smoothing)
        self.trainer = Trainer(model, cast(Any, loss), recipe.training, recipe.model.width)
        self.epoch = batches.epoch
        self.feed = Feed(batches.epoch)
        self.files = batches.store.meta["content"]["files"]
        self.standing = Standing()
        self.out_of_turn: list[int] = []

    def events(self, out: Path) -> Generator[Event, None, Finished]:
        saved = self.states.latest()
        if saved:
            self._load(saved)
            yield Note(f"resumed after step {self.trainer.step:,}")
        yield Begun(self.trainer.step, self.config.steps)
        records = Records(out, self.trainer.step)
        try:
            with Interrupt() as interrupt:
                reason = yield from self._loop(out, records, interrupt)
        finally:
            records.close()
        return Finished(out, self.trainer.step, interrupt.requested, reason)

    def final_weights(self) -> dict[str, torch.Tensor]:
        """What is published at the end: the average that was asked for, else the best, else the last."""
        average = self.config.average
        if average:
            best = average.of == "best"
            states = self.states
            return average_weights(
                states.best_weights(average.count) if best else states.weights()[-average.count :]
            )
        best = self.states.best_weights(1)
        return average_weights(best) if best else self.trainer.weights()

    def _loop(self, out: Path, records: Records, interrupt: Interrupt) -> Generator[Event, None, str]:
        config = self.config
        for report in self._steps():
            step = report.step
            last = step == config.steps
            if step % config.report_every == 0 or last:
                records.add(step, "train", asdict(report))
            yield report
            validation = self._validate(step) if step % config.validate_every == 0 or last else None
            if validation:
                records.add(step, "validation", asdict(validation))
                yield validation
            in_turn = bool(validation) or step % config.save_every == 0 or last
            if in_turn or interrupt.requested:
                self._save(validation, in_turn)
                yield Saved(step)
            if validation and validation.best:
                save_weights(self.trainer.weights(), out / WEIGHTS)
            if interrupt.requested:
                return "interrupted"
        return "all steps are done" if self.trainer.step >= config.steps else "no improvement any more"

    def _steps(self) -> Iterator[Any]:
        """Reports for as long as there are steps and patience left."""
        reports = self.trainer.steps(self.feed)
        while not self.config.patience or self.standing.waited < self.config.patience:
            report = next(reports, None)
            if report is None:
                return
            yield report

    def _validate(self, step: int) -> Validation | None:
        if self.validator is None:
            return None
        began = perf_counter()
        average = self.trainer.average
        self.model.eval()
        with average.swapped() if average else nullcontext():
            loss = self.validator.loss(self.model, self.trainer.autocast())
            bleu = self.validator.bleu(self.model)
        score = self._score(loss, bleu)
        best = self.standing.improved(score, higher_is_better=self.config.stop_on == "bleu")
        return Validation(step, loss, bleu, best, perf_counter() - began)

    def _score(self, loss: float, bleu: float | None) -> float:
        """What the run is judged by; settings see to it that BLEU is measured where it is asked for."""
        return bleu if self.config.stop_on == "bleu" and bleu is not None else loss

    def _save(self, validation: Validation | None, in_turn: bool) -> None:
        if not in_turn:
            self.out_of_turn.append(self.trainer.step)
        standing = {name: value for name, value in asdict(self.standing).items() if value is not None}
        place = {"feed": self.feed.position, "standing": standing, "out_of_turn": self.out_of_turn}
        state = self.trainer.state() | place | {"files": self.files}
        self.states.save(state, self._score(validation.loss, validation.bleu) if validation else None)
        self._forget()

    def _load(self, state: dict[str, Any]) -> None:
        if state["files"] != self.files:
            raise TrainingError(
                "data: the files have changed since the run began; bring the old ones back, or start anew "
                "in another folder"
            )
        self.trainer.load_state(state)
        self.feed = Feed(self.epoch, **state["feed"])
        self.standing = Standing(**state["standing"])
        self.out_of_turn = state["out_of_turn"]
        self._forget()

    def _forget(self) -> None:
        """Removes what Ctrl-C saved between two turns, once there is a later state.

        An average would take it in, and so be another than that of an undisturbed run.
        """
        for step in [step for step in self.out_of_turn if step != self.trainer.step]:
            for kind in ("state", "weights"):
                (self.states.folder / f"{kind}-{step:08}.safetensors").unlink(missing_ok=True)
            self.out_of_turn.remove(step)


def _with_dropout(pairs: PairStore, tokenizer: Tokenizer, recipe: TranslationRecipe) -> Encode:
    """Words split anew in each epoch (BPE dropout; Provilkov et al. 2020)."""
    probability, seed = recipe.tokenizer.dropout, recipe.training.seed
    longest = recipe.model.longest - 2

    def encode(epoch: int, rows: np.ndarray) -> tuple[Side, Side]:
        splitting = tokenizer.with_dropout(probability, seed, epoch)

        def again(ids: np.ndarray) -> list[int]:
            known = ids.tolist()
            # An unknown character has no text to split again; a text must not outgrow the model.
            split = known if UNKNOWN in known else splitting.encode(tokenizer.decode(known))
            return split if 0 < len(split) <= longest else known

        source, target = ([again(side[row]) for row in rows] for side in (pairs.source, pairs.target))
        return Side.of(source), Side.of(target)

    return encode


def _tally(pairs: PairStore) -> Tally:
    """How the pairs came through the cleaning, held-out ones among them."""
    counts = pairs.meta["tally"]
    return Tally(counts["kept"], Counter(counts["dropped"]))


def _scores(out: Path) -> list[str]:
    """The best validation in words."""
    measured = [line for line in read_metrics(out) if line["kind"] == "validation"]
    if not measured:
        return []
    best = min(measured, key=lambda line: line["loss"])
    words = [f"loss per token {best['loss']:.3f} (step {best['step']:,})"]
    if any("bleu" in line for line in measured):
        top = max(measured, key=lambda line: line.get("bleu", 0.0))
        words.append(f"BLEU {top['bleu']:.1f} (step {top['step']:,})")
    return words


def _tsv(pairs: Iterable[Pair]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def _write(path: Path, text: str) -> None:
    with naming(path):
        write_text(path, text)
