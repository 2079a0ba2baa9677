"""clearhead tune: fine-tuning from the command line."""

import json
import re
import shutil
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import clearhead
from clearhead.config import read_toml
from clearhead.data.datasets import SHIPPED
from clearhead.errors import SettingsError
from clearhead.tasks.events import Compared, Note
from clearhead.tasks.export import export_int8
from clearhead.tasks.recipe import parse_recipe
from clearhead.tasks.run import resume, train
from clearhead.tasks.translation.sizing import fit, guess_languages
from clearhead.tasks.zoo import describe
from clearhead.text.tokenizer import Tokenizer
from clearhead.training import Report

SHORT = ("--set", "training.steps=12", "--set", "training.validate_every=6", "--set", "training.save_every=6")


@pytest.fixture(scope="session")
def turned_pairs(numbers, tmp_path_factory) -> Path:
    """Pairs of a domain that the number model does not know: the digits come in reverse order."""
    path = tmp_path_factory.mktemp("turned") / "turned.en-de.tsv"
    path.write_text("".join(f"{source}\t{target[::-1]}\n" for source, target in numbers(300)))
    return path


@pytest.fixture(scope="session")
def tuned_model(number_model, turned_pairs, tmp_path_factory) -> Path:
    """The number model, fine-tuned for a while on digits in reverse order."""
    out = tmp_path_factory.mktemp("tuned") / "child"
    fast = ["training.schedule.learning_rate=0.01", "model.dropout=0.0", "training.steps=150"]
    changes = [f'training.init_from="{number_model}"', *fast]
    for _ in train(fit([str(turned_pairs)], None, changes).recipe, out):
        pass
    return out


def test_a_table_compares_both_models_on_both_test_sets(call, number_model, turned_pairs, tmp_path):
    out = tmp_path / "child"
    done = call("tune", number_model, "--pairs", turned_pairs, "--out", out, "--json", *SHORT)
    assert done.code == 0, done.err
    records = [json.loads(line) for line in done.lines]
    (table,) = [record for record in records if "compared" in record]
    new, old = table["compared"]
    assert (new["test"], old["test"]) == ("new", "old")
    assert old["before"] > 90
    assert new["before"] < 50
    assert records[-1] == {"folder": str(out), "step": 12}
    head = next(line for line in done.err.splitlines() if line.startswith("test set"))
    assert head.split() == ["test", "set", "metric", "before", "after"]
    assert f"{old['before']:.1f}" in done.err
    card = (out / "README.md").read_text()
    assert f"| old, en-de | BLEU | {old['before']:.1f} | {old['after']:.1f} |" in card
    # The same numbers as those of `evaluate`.
    scores = json.loads(call("evaluate", out, "--json").out)
    assert scores["bleu"] == pytest.approx(new["after"])
    scores = json.loads(call("evaluate", out, "--pairs", number_model / "test.tsv", "--json").out)
    assert scores["bleu"] == pytest.approx(old["after"])


def test_fine_tuning_learns_the_new_pairs(tuned_model, number_model, turned_pairs):
    source, target = turned_pairs.read_text().splitlines()[0].split("\t")
    assert str(clearhead.load(number_model).translate(source)) == target[::-1]
    assert str(clearhead.load(tuned_model).translate(source)) == target


def test_the_card_names_the_parents_with_their_data_and_licences(tuned_model, turned_pairs, tmp_path):
    card = (tuned_model / "README.md").read_text()
    assert "This model was fine-tuned from **model** (" in card
    assert "model was trained on:\n\n- numbers.en-de.tsv" in card
    assert card.index("- turned.en-de.tsv") < card.index("## Parent") < card.index("## Scores")
    # The next generation names both, and its own parent first; the licence of shipped data flows down.
    settings = (tuned_model / "config.toml").read_text().replace("numbers.en-de.tsv", "tatoeba-en-de")
    parent = Path(shutil.copytree(tuned_model, tmp_path / "parent"))
    (parent / "config.toml").write_text(settings)
    out = tmp_path / "grandchild"
    changes = [f'training.init_from="{parent}"', "training.steps=3"]
    for _ in train(fit([str(turned_pairs)], None, changes).recipe, out):
        pass
    card = (out / "README.md").read_text()
    lines = [line for line in card.splitlines() if "fine-tuned from" in line]
    assert [line.split("**")[1] for line in lines] == ["parent", "model"]
    assert "CC-BY 2.0 FR" in card
    found = describe(out)
    assert found
    assert found.licence == SHIPPED["tatoeba-en-de"].licence
    assert found.tested == {"en-de": pytest.approx(100, abs=100)}


def test_an_int8_card_names_only_files_that_are_there(tuned_model, multilingual_model, tmp_path):
    for folder in (tuned_model, multilingual_model):
        out = tmp_path / folder.name
        export_int8(folder, out)
        card = (out / "README.md").read_text()
        named = re.findall(r"`([\w.-]+\.(?:tsv|jsonl|toml|png|safetensors|json))`", card)
        assert "config.toml" in named
        assert [name for name in named if not (out / name).exists()] == []
        assert "clearhead evaluate THIS-FOLDER\n" not in card, "it has no test pairs"
        assert "clearhead translate" in card
    assert "Before and after fine-tuning" in (tmp_path / tuned_model.name / "README.md").read_text()


def test_a_resumed_run_ends_like_an_uninterrupted_one_and_compares_too(number_model, turned_pairs, tmp_path):
    changes = [f'training.init_from="{number_model}"', "training.steps=8", "training.save_every=3"]
    recipe = fit([str(turned_pairs)], None, changes).recipe
    straight = list(train(recipe, tmp_path / "straight"))
    for event in train(recipe, tmp_path / "stopped"):
        if isinstance(event, Report) and event.step == 5:
            signal.raise_signal(signal.SIGINT)
        assert not isinstance(event, Compared)
    resumed = list(resume(tmp_path / "stopped"))
    both = [[one.record() for one in run if isinstance(one, Compared)] for run in (straight, resumed)]
    assert both[0] == both[1]
    assert len(both[0]) == 1
    weights = [load_file(tmp_path / run / "model.safetensors") for run in ("straight", "stopped")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_share_of_the_initial_weights_stays_in_the_final_ones(number_model, turned_pairs, tmp_path):
    found = {}
    for share in (0.0, 0.25):
        changes = [f'training.init_from="{number_model}"', "training.steps=6", f"training.init_share={share}"]
        for event in train(fit([str(turned_pairs)], None, changes).recipe, tmp_path / str(share)):
            if share and isinstance(event, Report) and event.step == 4:
                signal.raise_signal(signal.SIGINT)
        if share:
            list(resume(tmp_path / str(share)))
        found[share] = load_file(tmp_path / str(share) / "model.safetensors")
    parent = load_file(number_model / "model.safetensors")
    for name, tensor in parent.items():
        torch.testing.assert_close(found[0.25][name], 0.75 * found[0.0][name] + 0.25 * tensor)
    assert any(not torch.equal(found[0.25][name], found[0.0][name]) for name in parent)


def test_tune_resumes_from_the_command_line(call, error_of, number_model, turned_pairs, tmp_path):
    out = tmp_path / "run"
    recipe = fit(
        [str(turned_pairs)], None, [f'training.init_from="{number_model}"', "training.steps=6"]
    ).recipe
    for event in train(recipe, out):
        if isinstance(event, Report) and event.step == 3:
            signal.raise_signal(signal.SIGINT)
    assert "omit" in error_of("tune", number_model, "--resume", "--out", out)
    done = call("tune", "--resume", "--out", out)
    assert done.code == 0, done.err
    assert "resumed after step 3" in done.err
    assert "before" in done.err
    assert read_toml(out / "config.toml")["training"]["steps"] == 6


def test_a_language_model_is_tuned_on_text(call, tmp_path):
    text = tmp_path / "more.txt"
    text.write_text("to be or not to be\n" * 300)
    parent = call("train", "--text", text, "--out", tmp_path / "parent", *SHORT)
    assert parent.code == 0, parent.err
    other = tmp_path / "other.txt"
    other.write_text("not to be\n" * 500)
    out = tmp_path / "child"
    done = call("tune", tmp_path / "parent", "--text", other, "--out", out, "--json", *SHORT)
    assert done.code == 0, done.err
    (table,) = [record for line in done.lines if "compared" in (record := json.loads(line))]
    new, old = table["compared"]
    assert new["metric"] == old["metric"] == "bits_per_byte"
    assert new["after"] < new["before"]


def test_pairs_of_the_parent_are_mixed_in_by_default_if_they_are_there(
    call, error_of, number_model, turned_pairs, tmp_path
):
    done = call("tune", number_model, "--pairs", turned_pairs, "--out", tmp_path / "mixed", *SHORT)
    assert done.code == 0, done.err
    mixed, without = read_toml(tmp_path / "mixed" / "config.toml")["data"]["corpora"][1], tmp_path / "without"
    assert Path(mixed["train"][0]).name == "numbers.en-de.tsv"
    assert 0 < mixed["sample"] < 1
    card = (tmp_path / "mixed" / "README.md").read_text()
    assert card.index("- numbers.en-de.tsv") < card.index("## Parent")
    options = ("tune", number_model, "--pairs", turned_pairs, "--mix", 0, "--out", without)
    assert call(*options, *SHORT).code == 0
    assert "corpora" not in read_toml(without / "config.toml")["data"]
    parent = Path(shutil.copytree(number_model, tmp_path / "parent"))
    settings = (parent / "config.toml").read_text()
    (parent / "config.toml").write_text(settings.replace("numbers.en-de.tsv", "gone.en-de.tsv"))
    options = ("tune", parent, "--pairs", turned_pairs, "--out", tmp_path / "gone")
    assert "data.mix: the training data of parent is gone" in error_of(*options, "--mix", 0.3)
    assert "data.mix: 1.5 should be less than 1" in error_of(*options, "--mix", 1.5)
    done = call(*options, *SHORT)
    assert done.code == 0, done.err
    (line,) = [line for line in done.err.splitlines() if line.startswith("without pairs of the parent: ")]
    assert "gone.en-de.tsv" in line


@pytest.fixture(scope="module")
def letters_model(numbers, tmp_path_factory) -> Path:
    """A translator for two target languages whose tokenizer knows few letters and no bytes."""
    folder = tmp_path_factory.mktemp("letters")
    for code in ("de", "fr"):
        rows = "".join(f"{source}\t{code} {target}\n" for source, target in numbers(200))
        (folder / f"{code}.tsv").write_text(rows)
    shape = {"width": 16, "ffn_width": 32, "encoder_layers": 1, "decoder_layers": 1, "max_length": 128}
    corpora = [
        {"source": "en", "target": code, "train": [str(folder / f"{code}.tsv")]} for code in ("de", "fr")
    ]
    recipe = parse_recipe(
        {
            "data": {"corpora": corpora, "hold_out": {"validation": 10, "test": 10}},
            "tokenizer": {"kind": "bpe", "vocabulary": 80, "byte_fallback": False},
            "model": {**shape, "attention": {"heads": 2}},
            "training": {"steps": 4, "device": "cpu"},
            "validation": {"sentences": 0},
        }
    )
    for _ in train(recipe, folder / "model"):
        pass
    return folder / "model"


def test_the_vocabulary_gets_new_letters_and_languages(call, letters_model, numbers, tmp_path):
    pairs = tmp_path / "new.en-cs.tsv"
    pairs.write_text("".join(f"{source} ☃\tčeši {target}\n" for source, target in numbers(100)))
    out = tmp_path / "child"
    done = call("tune", letters_model, "--pairs", pairs, "--out", out, "--json", *SHORT)
    assert done.code == 0, done.err
    assert "vocabulary extended by" in done.err
    old, new = (Tokenizer.load(folder / Tokenizer.FILE) for folder in (letters_model, out))
    assert new.special_id("<2cs>") is not None
    assert new.decode(new.encode("češi 3 1")) == "češi 3 1"
    assert new.encode("three one") == old.encode("three one")
    child = clearhead.load(out)
    assert [str(direction) for direction in child.directions] == ["en-cs"]
    assert child.tag("cs") == [new.special_id("<2cs>")]
    (table,) = [record for line in done.lines if "compared" in (record := json.loads(line))]
    assert [(row["test"], row["variant"], row["before"]) for row in table["compared"]] == [
        ("new", "en-cs", None)
    ]


def test_a_language_model_gets_new_letters(call, gpt_model, tmp_path):
    text = tmp_path / "new.txt"
    text.write_text("so žít či nežít\n" * 40)
    done = call("tune", gpt_model, "--text", text, "--out", tmp_path / "child", *SHORT)
    assert done.code == 0, done.err
    tokenizer = Tokenizer.load(tmp_path / "child" / Tokenizer.FILE)
    assert tokenizer.decode(tokenizer.encode("žít 字")) == "žít 字"


def test_a_resumed_run_does_not_need_the_extended_parent(letters_model, numbers, tmp_path):
    pairs = tmp_path / "new.en-fr.tsv"
    pairs.write_text("".join(f"{source}\tčeši {target}\n" for source, target in numbers(100)))
    parent = Path(shutil.copytree(letters_model, tmp_path / "parent"))
    changes = [f'training.init_from="{parent}"', "data.mix=0.0", "training.steps=6", "training.save_every=2"]
    recipe = fit([str(pairs)], None, changes).recipe
    list(train(recipe, tmp_path / "straight"))
    for event in train(recipe, tmp_path / "stopped"):
        if isinstance(event, Report) and event.step == 3:
            signal.raise_signal(signal.SIGINT)
    shutil.rmtree(parent)
    notes = [event.text for event in resume(tmp_path / "stopped") if isinstance(event, Note)]
    assert any(note.startswith("no comparison with the parent: ") for note in notes)
    weights = [load_file(tmp_path / run / "model.safetensors") for run in ("straight", "stopped")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_pairs_that_name_no_languages_have_those_of_the_model(number_model, turned_pairs, tmp_path):
    pairs = tmp_path / "mine.tsv"
    shutil.copy(turned_pairs, pairs)
    data = fit([str(pairs)], None, [f'training.init_from="{number_model}"']).recipe.data
    assert data.corpora[0].languages == ("en", "de")
    assert guess_languages(pairs, "fr-en") == ("fr", "en")
    with pytest.raises(SettingsError, match="add --from en --to de"):
        guess_languages(pairs, "en-de-fr")  # has four directions


def test_a_model_for_one_language_refuses_another(error_of, number_model, turned_pairs, tmp_path):
    pairs = tmp_path / "new.en-cs.tsv"
    shutil.copy(turned_pairs, pairs)
    error = error_of("tune", number_model, "--pairs", pairs, "--out", tmp_path / "out")
    assert re.search(r"model translates into de only, not cs; start from .* en-de-fr, or train a new", error)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("GPT", ["--pairs", "PAIRS"], r"--pairs: .* continues text; fine-tune it with --text FILE"),
        ("NUMBERS", ["--text", "PAIRS"], r"--text: .* translates; fine-tune it with --pairs FILE"),
        ("NUMBERS", [], r"tune: .* translates; fine-tune it with --pairs FILE"),
        ("NUMBERS", ["--pairs", "PAIRS", "--text", "PAIRS"], r"--pairs and --text: .* with --pairs FILE"),
        ("nowhere", ["--pairs", "PAIRS"], r"nowhere: no such model folder; built-in models are"),
        ("EMPTY", ["--pairs", "PAIRS"], r"no trained model here, model.safetensors is missing"),
        ("NUMBERS", ["--pairs", "NONE"], r"empty.en-de.tsv: .*"),
        ("NUMBERS", ["--pairs", "TEN"], r"ten.en-de.tsv: 10 pairs read, 10 kept; .* at least 20 pairs"),
        ("NUMBERS", ["--pairs", "PAIRS", "--set", "model.width=8"], r"init_from: .* model.width 32, this"),
    ],
)
def test_unusable_parents_and_files_are_one_line(
    model, options, message, error_of, number_model, gpt_model, turned_pairs, tmp_path
):
    none, ten, empty = tmp_path / "empty.en-de.tsv", tmp_path / "ten.en-de.tsv", tmp_path / "empty"
    none.touch()
    ten.write_text("".join(turned_pairs.read_text().splitlines(keepends=True)[:10]))
    empty.mkdir()
    shutil.copy(number_model / "config.toml", empty)
    names = {"GPT": gpt_model, "NUMBERS": number_model, "EMPTY": empty}
    files = {"PAIRS": turned_pairs, "NONE": none, "TEN": ten}
    out = tmp_path / "out"
    error = error_of("tune", names.get(model, model), *(files.get(o, o) for o in options), "--out", out)
    assert re.search(message, error)
    assert not out.exists()


def test_the_folder_of_the_model_itself_is_refused(error_of, copied, turned_pairs):
    error = error_of("tune", copied, "--pairs", turned_pairs, "--out", copied)
    assert error.endswith("is the folder of the model itself; choose another folder")
    assert "--out: is missing" in error_of("tune", copied, "--pairs", turned_pairs)
    assert "MODEL: is missing" in error_of("tune", "--pairs", turned_pairs, "--out", copied / "x")
