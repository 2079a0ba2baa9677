"""A recipe is sized to its corpus, and the choices are listed."""

import re
from pathlib import Path

import pytest
import torch

from clearhead.checkpoint import load_checkpoint
from clearhead.data.batching.buckets import PaddedBatches
from clearhead.data.store import PairStore
from clearhead.errors import DataError, SettingsError, TextError
from clearhead.models import MODELS, TranslatorConfig
from clearhead.tasks.language.sizing import fit_text
from clearhead.tasks.sizing import estimate_seconds, matrix_weights
from clearhead.tasks.translation import tuning_time
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.translation.sizing import SIZES, fit, guess_languages
from clearhead.tasks.zoo import BUILT_IN
from clearhead.training import TimeBudget
from clearhead.training.schedule import learning_rate_at


def write(path, count: int):
    path.write_text("".join(f"sentence number {number}\tSatz Nummer {number}\n" for number in range(count)))
    return path


@pytest.mark.parametrize(
    ("count", "vocabulary", "width", "steps", "held_out"),
    [
        (20, 1250, 128, 200, 1),
        (1_000, 1250, 128, 500, 50),
        (5_001, 4000, 128, 240, 250),
        (50_001, 8000, 256, 1260, 1000),
    ],
)
def test_a_larger_corpus_gets_a_larger_model(count, vocabulary, width, steps, held_out, tmp_path):
    fitted = fit([str(write(tmp_path / "a.en-de.tsv", count))], None)
    recipe = fitted.recipe
    assert (recipe.tokenizer.vocabulary, recipe.model.width) == (vocabulary, width)
    assert recipe.data.hold_out.validation == recipe.data.hold_out.test == held_out
    assert recipe.training.steps == steps
    assert recipe.training.validate_every < steps
    assert recipe.training.patience


def test_the_sizes_grow_and_cover_every_corpus():
    pairs = [size.pairs for size in SIZES]
    assert pairs == sorted(pairs)
    assert pairs[-1] == float("inf")
    assert [size.vocabulary for size in SIZES] == sorted(size.vocabulary for size in SIZES)


def test_the_choices_are_listed(tmp_path):
    choices = fit([str(write(tmp_path / "a.en-de.tsv", 1_000))], None).choices()
    assert choices == [
        "corpus: 1,000 pairs read, 1,000 kept",
        "languages: en to de",
        "vocabulary: 1,250 subwords, shared",
        "model: width 128, ffn_width 256, 4 + 4 layers, 4 heads, dropout 0.3",
        "run: 500 steps of about 1,000 tokens (100 epochs), validated every 50, "
        "stopped after 5 validations without improvement",
    ]


def test_few_pairs_are_warned_of(tmp_path):
    path = write(tmp_path / "a.en-de.tsv", 4_999)
    assert fit([path], None).warning == (
        "4,999 pairs: too few to learn to translate from, expect a poor translator; add pairs, tens of "
        "thousands if possible, or fine-tune a trained model (clearhead tune)"
    )
    assert not fit([path], None, ["training.init_from=en-de"]).warning
    assert not fit([write(path, 5_000)], None).warning


def test_a_budget_too_short_for_the_smallest_model_is_warned_of(tmp_path, monkeypatch):
    """The time that the warning names is enough."""
    monkeypatch.setattr("clearhead.tasks.sizing.seconds_per_step", lambda *_: 0.2)
    path = write(tmp_path / "a.en-de.tsv", 20_000)
    budget = TimeBudget(1, clock=lambda: 0.0)
    warning = fit([path], None, budget=budget).warning
    found = re.fullmatch(
        r"--minutes 1: too short for a model of any size on this machine, expect a poor translator; "
        r"pass at least (\d+), or fine-tune a trained model \(clearhead tune\)",
        warning,
    )
    assert found
    enough = TimeBudget(float(found[1]), clock=lambda: 0.0)
    assert not fit([path], None, budget=enough).warning
    shorter = TimeBudget(float(found[1]) - 1, clock=lambda: 0.0)
    assert fit([path], None, budget=shorter).warning


def test_changes_take_precedence_over_the_choices(tmp_path):
    path = str(write(tmp_path / "a.en-de.tsv", 1_000))
    chosen = fit([path], None)
    fitted = fit([path], None, ["model.width=64", "batches.tokens=2000"])
    assert fitted.recipe.model.width == 64
    assert fitted.recipe.tokenizer == chosen.recipe.tokenizer
    # Fewer steps of more tokens.
    assert fitted.epochs == chosen.epochs
    assert "200 steps of about 2,000 tokens (100 epochs)" in fitted.choices()[-1]
    with pytest.raises(SettingsError, match=r"^model\.widht: unknown setting \(did you mean width\?\)$"):
        fit([path], None, ["model.widht=64"])


@pytest.mark.parametrize("preset", ["tiny", "base"])
def test_a_requested_preset_replaces_the_sized_model(tmp_path, preset):
    path = write(tmp_path / "a.en-de.tsv", 200)
    named = fit([path], None, [f"model.preset={preset}", "model.dropout=0.2"]).recipe.model
    assert named == TranslatorConfig.model_validate({"preset": preset, "dropout": 0.2})


@pytest.mark.parametrize("group", ["model", "training", "data"])
def test_a_value_where_a_group_of_settings_belongs_is_refused_by_name(tmp_path, group):
    path = write(tmp_path / "a.en-de.tsv", 200)
    with pytest.raises(SettingsError, match=f"^{group}: 3 is a value, but this is a group of settings"):
        fit([path], None, [f"{group}=3"])


def test_a_run_that_starts_from_a_model_has_its_architecture_and_tokenizer(tmp_path):
    path = write(tmp_path / "a.en-de.tsv", 200)
    fitted = fit([path], None, ["training.init_from=en-de", "model.dropout=0.2"])
    start = load_checkpoint(BUILT_IN["en-de-fr"])
    assert fitted.recipe.model == start.model.config.model_copy(update={"dropout": 0.2})
    assert fitted.recipe.tokenizer == start.processor.config
    assert f"model: {start.model.config.summary}, dropout 0.2" in fitted.choices()


@pytest.mark.parametrize(
    ("path", "languages"),
    [
        ("news.en-de.tsv", ("en", "de")),
        ("/data/de-en/fr_en.tmx.gz", ("fr", "en")),
        ("my-file.en-fr.csv", ("en", "fr")),
        ("EN.gsw-de.tsv", ("gsw", "de")),
        ("tatoeba-en-fr", ("en", "fr")),
        (("train.en", "train.de"), ("en", "de")),
        (("a/train.cs.gz", "b/train.uk.zst"), ("cs", "uk")),
    ],
)
def test_the_languages_are_read_from_the_file_name(path, languages):
    assert guess_languages(path) == languages


@pytest.mark.parametrize("path", ["mine.tsv", "sen-det.tsv", ("a.txt", "b.txt"), "xx-yy.tsv", "open.tsv"])
def test_unknown_languages_must_be_named(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [path] if isinstance(path, str) else path:
        Path(name).write_text("yes\tja\n")
    with pytest.raises(SettingsError, match="the languages are in neither the file name nor the content"):
        guess_languages(path)


def test_the_languages_are_read_from_the_header_if_not_in_the_name(tmp_path):
    (tmp_path / "mine.tsv").write_text("de\ten\nja\tyes\n")
    assert guess_languages(tmp_path / "mine.tsv") == ("de", "en")


def test_given_languages_take_precedence_over_the_file_name(tmp_path):
    fitted = fit([str(write(tmp_path / "a.en-de.tsv", 30))], ("fr", "nl"))
    assert fitted.recipe.data.languages == ("fr", "nl")


def test_an_unknown_language_is_refused_before_files_are_read(tmp_path):
    with pytest.raises(TextError, match=r"language 'german' is unknown; did you mean de \(German\)\?"):
        fit([str(tmp_path / "missing.tsv")], ("en", "german"))


def test_a_corpus_that_is_too_small_is_refused_with_its_count(tmp_path):
    path = write(tmp_path / "a.en-de.tsv", 19)
    with pytest.raises(
        DataError, match=r"a\.en-de\.tsv: 19 pairs read, 19 kept; a translator needs at least 20"
    ):
        fit([str(path)], None)


def test_aligned_files_stay_two_files(tmp_path):
    for language in ("en", "de"):
        (tmp_path / f"a.{language}").write_text("".join(f"{language} {number}\n" for number in range(30)))
    path = (str(tmp_path / "a.en"), str(tmp_path / "a.de"))
    assert fit([path], None).recipe.data.corpora[0].train == (path,)


def test_the_estimate_grows_with_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("clearhead.tasks.sizing.flops_per_second", lambda device, width: 1e9)
    cpu = torch.device("cpu")
    small, large = (
        estimate_seconds(fit([str(write(tmp_path / f"{count}.en-de.tsv", count))], None).recipe, cpu)
        for count in (1_000, 50_001)
    )
    assert 0 < small < large


def test_the_estimate_measures_the_speed_of_this_machine(tmp_path):
    fitted = fit([str(write(tmp_path / "a.en-de.tsv", 30))], None)
    assert estimate_seconds(fitted.recipe, torch.device("cpu")) > 0


def test_the_corpus_is_read_with_the_changed_data_settings(tmp_path):
    path = tmp_path / "a.en-de.tsv"
    many = "many words " * 10
    path.write_text("".join(f"{n}\t{many}{n}\tWort {many}{n}\n" for n in range(40)))
    with pytest.raises(DataError, match="first two of 3 columns are not both sentences: 0, many"):
        fit([str(path)], None)
    fitted = fit([str(path)], None, ["data.columns=[1, 2]"])
    assert fitted.recipe.data.corpora[0].columns == (1, 2)
    assert fitted.tally.kept == 40


def test_several_files_form_one_corpus(tmp_path):
    paths = [str(write(tmp_path / "a.en-de.tsv", 30)), str(write(tmp_path / "b.en-de.tsv", 50))]
    fitted = fit(paths, None)
    assert fitted.recipe.data.corpora[0].train == tuple(paths)
    assert fitted.tally.read == 80


@pytest.mark.parametrize("steps", ["0", "-3", "many"])
def test_an_invalid_number_of_steps_is_refused_by_name(tmp_path, steps):
    pairs, text = write(tmp_path / "a.en-de.tsv", 1_000), tmp_path / "a.txt"
    text.write_text("some words\n" * 50)
    with pytest.raises(SettingsError, match=r"^training\.steps: "):
        fit([str(pairs)], None, [f"training.steps={steps}"])
    with pytest.raises(SettingsError, match=r"^training\.steps: "):
        fit_text([str(text)], [f"training.steps={steps}"])


def test_warm_up_is_shortened_with_the_run(tmp_path):
    fitted = fit([str(write(tmp_path / "a.en-de.tsv", 1_000))], None, ["training.steps=60"])
    assert fitted.recipe.training.steps == 60
    assert fitted.recipe.training.schedule.warmup == 6


def test_dropout_follows_the_number_of_epochs(tmp_path):
    path = str(write(tmp_path / "a.en-de.tsv", 6_000))
    usual = fit([path], None)
    short = fit([path], None, [f"training.steps={usual.recipe.training.steps // 10}"])
    half = fit([path], None, [f"training.steps={usual.recipe.training.steps // 2}"])
    assert (usual.epochs, short.epochs) == (40, 4)
    assert usual.recipe.model.dropout == 0.3
    assert short.recipe.model.dropout == 0.1
    assert 0.1 < half.recipe.model.dropout < 0.3
    # Larger batches make the same steps more epochs.
    larger = [f"training.steps={short.recipe.training.steps}", "batches.tokens=32768"]
    assert fit([path], None, larger).recipe.model.dropout > 0.1


def test_a_shortened_run_decays_to_zero(tmp_path):
    path = str(write(tmp_path / "a.en-de.tsv", 6_000))
    run = fit([path], None, ["training.steps=60"]).recipe.training
    assert learning_rate_at(run.schedule, 60, 60) == 0
    assert run.patience == 0


class Machine:
    """A machine of a speed in operations per second, as seen by the sizing."""

    def __init__(self, monkeypatch, speed: float):
        self.measured: list[int] = []
        self.speed = speed
        monkeypatch.setattr("clearhead.tasks.sizing.seconds_per_step", self.seconds_per_step)

    def seconds_per_step(self, recipe, loss, batch, clock) -> float:
        self.measured.append(recipe.model.width)
        assert batch.tokens <= recipe.batches.tokens
        return 6 * matrix_weights(recipe) * recipe.batches.tokens / self.speed


def within(paths, minutes: float, changes=()):
    budget = TimeBudget(minutes, lambda: 0.0)
    return fit(paths, None, changes, budget=budget), budget


def test_a_faster_machine_gets_a_larger_model_and_more_epochs(tmp_path, monkeypatch):
    path = str(write(tmp_path / "a.en-de.tsv", 30_000))
    found = []
    for speed in (2e9, 1e11, 2e12):
        machine = Machine(monkeypatch, speed)
        fitted, budget = within([path], 1)
        assert machine.measured[0] == 64
        assert fitted.recipe.training.steps <= budget.max_steps
        found.append((fitted.recipe.model.width, round(fitted.epochs), fitted.recipe.model.dropout))
    (slow, few, low), (_, more, higher), (fast, most, usual) = found
    assert (slow, fast) == (64, 128)
    assert few < more < most == 40
    assert 0.1 == low < higher < usual == 0.3


def test_a_run_of_a_million_minutes_ends_when_the_data_is_learned(tmp_path, monkeypatch):
    Machine(monkeypatch, 1e11)
    fitted, budget = within([str(write(tmp_path / "a.en-de.tsv", 1_000))], 1_000_000)
    assert fitted.recipe.training.steps == budget.max_steps
    assert fitted.seconds(torch.device("cpu")) < 3600


def test_changes_take_precedence_over_the_time_budget(tmp_path, monkeypatch):
    Machine(monkeypatch, 1e11)
    changes = ["model.width=32", "model.dropout=0.5", "training.validate_every=7", "training.steps=33"]
    recipe = within([str(write(tmp_path / "a.en-de.tsv", 1_000))], 1, changes)[0].recipe
    assert (recipe.model.width, recipe.model.dropout) == (32, 0.5)
    assert (recipe.training.validate_every, recipe.training.steps) == (7, 33)


@pytest.mark.parametrize("changes", [["model.kind=seq2seq"], ["model.preset=tiny"], []])
def test_the_speed_of_a_model_is_measured_by_training_it(changes, tmp_path):
    budget = TimeBudget(1)
    fitted = fit([str(write(tmp_path / "a.en-de.tsv", 100))], None, changes, budget=budget)
    assert fitted.seconds(torch.device("cpu")) > 0
    assert 0 < fitted.recipe.training.steps <= budget.max_steps


def test_the_speed_of_a_run_of_two_steps_is_measured_too(tmp_path):
    fitted = fit(
        [write(tmp_path / "a.en-fr.tsv", 100)], None, ["training.init_from=en-fr", "training.steps=2"]
    )
    assert fitted.seconds(torch.device("cpu")) > 0


def test_the_time_of_fine_tuning_is_that_of_its_steps_and_its_table(tmp_path, monkeypatch):
    """By a clock on which a step takes 2 s, and a character of a translation 1 ms."""
    now, characters = [0.0], []

    def step(recipe, loss, batch, clock):
        assert loss(MODELS[recipe.model.kind](recipe.model, recipe.tokenizer.vocabulary), batch).isfinite()
        return 2.0

    def translate(self, texts, to=None, **options):
        characters.append(sum(map(len, texts)))
        now[0] += 0.001 * characters[-1]

    monkeypatch.setattr(tuning_time, "seconds_per_step", step)
    monkeypatch.setattr(TranslationModel, "translate", translate)
    fitted = fit([write(tmp_path / "a.en-fr.tsv", 200)], None, ["training.init_from=en-fr"])
    recipe, source = fitted.recipe, "sentence number 10"
    assert recipe.data.hold_out.test == 10
    old = [line.split("\t")[0] for line in (BUILT_IN["en-de-fr"] / "test.en-fr.tsv").read_text().splitlines()]
    table = 2 * 0.001 * (10 * len(source) + sum(map(len, old)))
    seconds = tuning_time.tuning_seconds(
        recipe, 200, fitted.tokens, fitted.sources, torch.device("cpu"), lambda: now[0]
    )
    assert seconds == pytest.approx(2.0 * recipe.training.steps + table, rel=0.01)


def test_few_pairs_do_not_fill_the_batches_of_fine_tuning(tmp_path):
    """The expected size of a batch is the mean of what training does."""
    fitted = fit([write(tmp_path / "a.en-fr.tsv", 300)], None, ["training.init_from=en-fr", "data.mix=0"])
    length = fitted.tokens // 300
    store = PairStore.of([[5] * (length - 1)] * 300, [[5] * (length - 1)] * 300)
    batches = PaddedBatches(store, fitted.recipe.batches, seed=1)
    sizes = [len(rows) * length for epoch in range(50) for rows in batches.plan(epoch)]
    assert tuning_time.mean_batch(fitted.recipe, 300 * length) == pytest.approx(
        sum(sizes) / len(sizes), rel=0.2
    )
