"""A corpus alone decides what is trained, and the choices are said."""

from pathlib import Path

import pytest
import torch

from clearhead.checkpoint import load_checkpoint
from clearhead.errors import DataError, SettingsError, TextError
from clearhead.models import TranslatorConfig
from clearhead.tasks.language.sizing import fit_text
from clearhead.tasks.translation.sizing import SIZES, estimate_seconds, fit, guess_languages
from clearhead.tasks.zoo import BUILT_IN


def write(path, count: int):
    path.write_text("".join(f"sentence number {number}\tSatz Nummer {number}\n" for number in range(count)))
    return path


@pytest.mark.parametrize(
    ("count", "vocabulary", "width", "steps", "held_out"),
    [
        (20, 1000, 128, 200, 1),
        (1_000, 1000, 128, 500, 50),
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


def test_the_choices_are_said(tmp_path):
    said = fit([str(write(tmp_path / "a.en-de.tsv", 1_000))], None).choices()
    assert said == [
        "corpus: 1,000 pairs read, 1,000 kept",
        "languages: en to de",
        "vocabulary: 1,000 subwords, shared",
        "model: width 128, hidden 256, 4 + 4 layers, 4 heads, dropout 0.3",
        "run: 500 steps of about 1,000 tokens (100 epochs), validated every 50, "
        "stopped when 5 validations bring nothing",
    ]


def test_changes_come_after_the_choices(tmp_path):
    path = str(write(tmp_path / "a.en-de.tsv", 1_000))
    chosen = fit([path], None)
    fitted = fit([path], None, ["model.width=64", "batches.tokens=2000"])
    assert fitted.recipe.model.width == 64
    assert fitted.recipe.tokenizer == chosen.recipe.tokenizer
    # The same number of steps, of twice the tokens.
    assert fitted.epochs == pytest.approx(2 * chosen.epochs, rel=0.5)
    assert "500 steps of about 2,000 tokens (250 epochs)" in fitted.choices()[-1]
    with pytest.raises(SettingsError, match=r"^model\.widht: unknown setting \(did you mean width\?\)$"):
        fit([path], None, ["model.widht=64"])


@pytest.mark.parametrize("preset", ["tiny", "base"])
def test_a_preset_that_is_named_is_the_model(tmp_path, preset):
    path = write(tmp_path / "a.en-de.tsv", 200)
    named = fit([path], None, [f"model.preset={preset}", "model.dropout=0.2"]).recipe.model
    assert named == TranslatorConfig.model_validate({"preset": preset, "dropout": 0.2})


@pytest.mark.parametrize("group", ["model", "training", "data"])
def test_a_value_where_a_group_of_settings_belongs_is_refused_by_name(tmp_path, group):
    path = write(tmp_path / "a.en-de.tsv", 200)
    with pytest.raises(SettingsError, match=f"^{group}: 3 is a value, but this is a group of settings"):
        fit([path], None, [f"{group}=3"])


def test_a_run_that_begins_with_a_model_takes_its_shape_and_tokenizer(tmp_path):
    path = write(tmp_path / "a.en-de.tsv", 200)
    fitted = fit([path], None, ["training.init_from=en-de", "model.dropout=0.2"])
    begun = load_checkpoint(BUILT_IN["en-de-fr"])
    assert fitted.recipe.model == begun.model.config.model_copy(update={"dropout": 0.2})
    assert fitted.recipe.tokenizer == begun.tokenizer.config
    assert "model: width 256, hidden 1024, 6 + 3 layers, 4 heads, dropout 0.2" in fitted.choices()


@pytest.mark.parametrize(
    ("place", "languages"),
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
def test_the_languages_are_read_from_the_name(place, languages):
    assert guess_languages(place) == languages


@pytest.mark.parametrize("place", ["mine.tsv", "sen-det.tsv", ("a.txt", "b.txt"), "xx-yy.tsv", "open.tsv"])
def test_a_file_that_does_not_tell_them_wants_them_said(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [place] if isinstance(place, str) else place:
        Path(name).write_text("yes\tja\n")
    with pytest.raises(SettingsError, match="neither name nor content tells the languages; say --from en"):
        guess_languages(place)


def test_what_a_file_says_tells_the_languages_where_its_name_does_not(tmp_path):
    (tmp_path / "mine.tsv").write_text("de\ten\nja\tyes\n")
    assert guess_languages(tmp_path / "mine.tsv") == ("de", "en")


def test_said_languages_go_before_those_of_the_name(tmp_path):
    fitted = fit([str(write(tmp_path / "a.en-de.tsv", 30))], ("fr", "nl"))
    assert fitted.recipe.data.languages == ("fr", "nl")


def test_an_unknown_language_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(TextError, match=r"language 'german' is unknown; did you mean de \(German\)\?"):
        fit([str(tmp_path / "missing.tsv")], ("en", "german"))


def test_a_corpus_too_small_is_refused_with_its_count(tmp_path):
    path = write(tmp_path / "a.en-de.tsv", 19)
    with pytest.raises(
        DataError, match=r"a\.en-de\.tsv: 19 pairs read, 19 kept; a translator needs at least 20"
    ):
        fit([str(path)], None)


def test_aligned_files_are_kept_as_two(tmp_path):
    for language in ("en", "de"):
        (tmp_path / f"a.{language}").write_text("".join(f"{language} {number}\n" for number in range(30)))
    place = (str(tmp_path / "a.en"), str(tmp_path / "a.de"))
    assert fit([place], None).recipe.data.corpora[0].train == (place,)


def test_the_estimate_grows_with_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("clearhead.tasks.translation.sizing._products_per_second", lambda device, width: 1e9)
    small, large = (
        estimate_seconds(fit([str(write(tmp_path / f"{count}.en-de.tsv", count))], None), torch.device("cpu"))
        for count in (1_000, 50_001)
    )
    assert 0 < small < large


def test_the_speed_of_this_machine_is_measured_in_a_moment(tmp_path):
    fitted = fit([str(write(tmp_path / "a.en-de.tsv", 30))], None)
    assert estimate_seconds(fitted, torch.device("cpu")) > 0


def test_the_corpus_is_read_as_the_data_settings_say(tmp_path):
    path = tmp_path / "a.en-de.tsv"
    many = "many words " * 10
    path.write_text("".join(f"{n}\t{many}{n}\tWort {many}{n}\n" for n in range(40)))
    # Numbers and sentences are too unequal to be pairs.
    with pytest.raises(DataError, match="0 kept; dropped: 40 unequal lengths"):
        fit([str(path)], None)
    fitted = fit([str(path)], None, ["data.columns=[1, 2]"])
    assert fitted.recipe.data.corpora[0].columns == (1, 2)
    assert fitted.tally.kept == 40


def test_several_files_are_one_corpus(tmp_path):
    paths = [str(write(tmp_path / "a.en-de.tsv", 30)), str(write(tmp_path / "b.en-de.tsv", 50))]
    fitted = fit(paths, None)
    assert fitted.recipe.data.corpora[0].train == tuple(paths)
    assert fitted.tally.read == 80


@pytest.mark.parametrize("steps", ["0", "-3", "many"])
def test_steps_that_cannot_be_taken_are_refused_by_name(tmp_path, steps):
    pairs, text = write(tmp_path / "a.en-de.tsv", 1_000), tmp_path / "a.txt"
    text.write_text("some words\n" * 50)
    with pytest.raises(SettingsError, match=r"^training\.steps: "):
        fit([str(pairs)], None, [f"training.steps={steps}"])
    with pytest.raises(SettingsError, match=r"^training\.steps: "):
        fit_text([str(text)], [f"training.steps={steps}"])


def test_a_shorter_run_warms_up_within_it(tmp_path):
    fitted = fit([str(write(tmp_path / "a.en-de.tsv", 1_000))], None, ["training.steps=60"])
    assert fitted.recipe.training.steps == 60
    assert fitted.recipe.training.schedule.warmup == 6
