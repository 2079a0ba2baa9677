"""What a user can get wrong costs a line that names place, value and way out, and nothing else."""

import errno
import gzip
import os
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

BOMB = """<?xml version="1.0"?>
<!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<tmx><body><tu><tuv xml:lang="en"><seg>&b;</seg></tuv>
<tuv xml:lang="de"><seg>&b;</seg></tuv></tu></body></tmx>
"""
TEN_MISTAKES = """
kind = "poem"
colour = "red"
[data]
source = "english"
target = "de"
[tokenizer]
kind = "bpx"
[model]
widht = 64
attention = { score = "cos" }
[batches]
tokens = "many"
[training]
steps = 0
schedule = { kind = "cosine", peak = -1.0 }
"""


def short(recipe) -> list[str]:
    """The arguments that train a recipe for a moment."""
    return ["train", str(recipe), "--set", "training.steps=2"]


# Files of text


FILES = {
    "missing.en-de.tsv": (None, "no such file"),
    "empty.en-de.tsv": (b"", "is empty"),
    "blank.en-de.tsv": (b"\n\n", "is empty"),
    "binary.en-de.tsv": (
        b"\x00\x01\x02\n",
        "line 1: holds NUL bytes, so it is no UTF-8 text; convert it first",
    ),
    "latin.en-de.tsv": (b"a\tb\ncaf\xe9\td\n", "line 2: not UTF-8 (byte 0xe9); save the file as UTF-8"),
    "one.en-de.tsv": (b"a\tb\nc\n", "line 2: 1 columns where 2 are needed; separate them by tabs"),
    "bomb.en-de.tmx": (BOMB.encode(), "line 2: uses XML entities or declarations of its own"),
    "cut.en-de.tmx": (b"<tmx><body><tu>", "line 1: not well-formed TMX (no element found)"),
    "cut.en-de.tsv.gz": (gzip.compress(b"a\tb\n" * 99)[:-9], "cut short or not a .gz file"),
    "not.en-de.jsonl": (b"{}\n", "line 1: no field 'source'; it has none"),
    "odd.en-de.docx": (b"PK", "unknown ending '.docx'; use .tsv, .txt, .csv, .jsonl, .parquet or .tmx"),
    "few.en-de.tsv": (b"a\tb\n", "1 pairs read, 1 kept; a translator needs at least 20 pairs"),
    "not.en-de.parquet": (b"PAR1", "not a Parquet file, or cut short"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_of_pairs_is_named_with_its_line(name, refused, tmp_path):
    content, message = FILES[name]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    said = refused("train", "--pairs", path, "--out", tmp_path / "out")
    assert said.startswith(str(path))
    assert message in said
    assert not (tmp_path / "out").exists()


def test_a_bad_file_in_a_recipe_is_named_the_same_way(refused, tmp_path, number_recipe):
    recipe = number_recipe(tmp_path)
    for name in (
        "missing.en-de.tsv",
        "empty.en-de.tsv",
        "binary.en-de.tsv",
        "latin.en-de.tsv",
        "bomb.en-de.tmx",
    ):
        content, message = FILES[name]
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        said = refused("train", recipe, "--out", tmp_path / "out", "--set", f'data.train=["{path}"]')
        assert said.startswith(str(path))
        assert message in said


def test_aligned_files_of_unequal_length_are_counted(refused, tmp_path):
    (tmp_path / "a.en").write_text("one\n" * 30)
    (tmp_path / "a.de").write_text("eins\n" * 29)
    said = refused("train", "--pairs", f"{tmp_path}/a.en,{tmp_path}/a.de", "--out", tmp_path / "out")
    assert f"{tmp_path}/a.en has 30 lines but {tmp_path}/a.de has 29" in said
    assert "need the same number" in said


def test_more_than_two_aligned_files_are_refused(refused, tmp_path):
    said = refused("train", "--pairs", "a.en,a.de,a.fr", "--out", tmp_path)
    assert said == "--pairs a.en,a.de,a.fr: give one file, or two aligned ones as SOURCE,TARGET"


def test_a_file_that_does_not_tell_the_languages_wants_them(refused, tmp_path):
    (tmp_path / "mine.tsv").write_text("yes\tja\n")
    said = refused("train", "--pairs", tmp_path / "mine.tsv", "--out", tmp_path / "out")
    assert said == f"{tmp_path}/mine.tsv: neither name nor content tells the languages; say --from en --to de"


def test_evaluate_names_a_bad_file_too(refused, tmp_path, number_model):
    (tmp_path / "latin.tsv").write_bytes(b"a\tb\ncaf\xe9\td\n")
    said = refused("evaluate", number_model, "--pairs", tmp_path / "latin.tsv")
    assert said.startswith(f"{tmp_path}/latin.tsv, line 2: not UTF-8")


def test_a_test_set_of_empty_pairs_is_refused(refused, tmp_path, number_model):
    (tmp_path / "empty.tsv").write_text("\tb\na\t\n")
    assert "nothing to score" in refused("evaluate", number_model, "--pairs", tmp_path / "empty.tsv")


def test_evaluate_without_test_pairs_asks_for_some(refused, copied):
    (copied / "test.tsv").unlink()
    assert "no test pairs are kept beside this model; name a file with --pairs" in refused("evaluate", copied)


def test_translations_to_compare_with_must_be_as_many(refused, tmp_path, number_model):
    (tmp_path / "theirs.txt").write_text("1 2\n3 4\n")
    said = refused("evaluate", number_model, "--against", tmp_path / "theirs.txt")
    assert said == f"{tmp_path}/theirs.txt: 2 lines for 40 test pairs; give one translation each"
    assert "no such model folder" in refused("evaluate", number_model, "--against", tmp_path / "nothing")


def test_an_export_to_an_unknown_form_or_onto_something_is_refused(refused, number_model, tmp_path):
    assert refused("export", number_model, "--to", "gguf", "--out", tmp_path / "x") == (
        "--to gguf: is not one of int8, huggingface"
    )
    said = refused("export", number_model, "--to", "int8", "--out", number_model)
    assert said == f"{number_model}: is there already and not empty; choose another place"
    said = refused("export", "shakespeare", "--to", "huggingface", "--out", tmp_path / "x")
    assert said.endswith("a model trained with --set model.activation=swiglu can go there")
    said = refused("export", tmp_path / "nowhere", "--to", "int8", "--out", tmp_path / "x")
    assert said.startswith(f"{tmp_path}/nowhere: no such model folder; built-in models are")


def test_a_rival_for_other_languages_is_refused(refused, number_model, copied):
    settings = copied / "config.toml"
    settings.write_text(settings.read_text().replace('target = "de"', 'target = "fr"'))
    said = refused("evaluate", number_model, "--against", copied)
    assert said.startswith(f"{copied}: translates en-fr, not en-de")


# Recipes and options


def test_ten_mistakes_in_a_recipe_are_ten_lines(call, tmp_path):
    recipe = tmp_path / "wrong.toml"
    recipe.write_text(TEN_MISTAKES)
    ended = call("train", recipe, "--out", tmp_path / "out")
    said = ended.err.splitlines()
    assert ended.code == 2
    assert [line.removeprefix(f"clearhead: {recipe}: ").partition(":")[0] for line in said] == [
        "kind",
        "data.source",
        "data.train",
        "tokenizer.kind",
        "model.attention.score",
        "model.widht",
        "batches.tokens",
        "training.steps",
        "training.schedule.peak",
        "colour",
    ]
    assert "unknown setting (did you mean width?)" in ended.err
    assert "language 'english' is unknown; did you mean en (English)?" in ended.err
    assert "'cos' is not one of dot, scaled, general, additive, cosine, location" in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"[data\n", "not valid TOML"),
        (b"\xff\xfe", "not UTF-8 text (byte 0); save it as UTF-8"),
        (b"", "data: is missing"),
    ],
)
def test_a_recipe_that_cannot_be_read_is_named(content, message, refused, tmp_path):
    recipe = tmp_path / "recipe.toml"
    if content is not None:
        recipe.write_bytes(content)
    said = refused("train", recipe, "--out", tmp_path / "out")
    assert said.startswith(f"{recipe}: ")
    assert message in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nonsense", "--set nonsense: write it as name=value, for example model.width=256"),
        ("model.width=wide", "model.width: 'wide' is not a whole number"),
        ("model.width=33", "33"),
        ("model.widht=32", "model.widht: unknown setting (did you mean width?)"),
        ("data.source.x=1", "--set data.source.x=1: source is a value, not a group of settings"),
        ("training.stop_on=chrf", "training.stop_on: 'chrf' is not one of loss, bleu"),
    ],
)
def test_a_wrong_change_is_refused(change, message, refused, tmp_path, number_recipe):
    said = refused("train", number_recipe(tmp_path), "--out", tmp_path / "out", "--set", change)
    assert message in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "--out: name a folder for the model, for example --out runs/mine"),
        (
            ["train", "--out", "x"],
            "train: give either a recipe or --pairs FILE or --text FILE (see clearhead train --help)",
        ),
        (["train", "r.toml", "--pairs", "p.tsv", "--out", "x"], "give either a recipe or --pairs FILE"),
        (["train", "r.toml", "--resume", "--out", "x"], "--resume: goes on with the recipe saved in --out"),
        (
            ["train", "--pairs", "p.tsv", "--from", "en", "--out", "x"],
            "--from and --to: give both, or neither",
        ),
        (["train", "r.toml", "--to", "de", "--out", "x"], "--from and --to: go with --pairs"),
        (["train", "--pairs", "p", "--from", "en", "--to", "xx", "--out", "x"], "language 'xx' is unknown"),
        (["trian"], "No such command 'trian'. Did you mean 'train'? (see clearhead --help)"),
        (["translate", "--beam", "wide"], "Invalid value for '--beam'"),
        (["evaluate"], "Missing argument 'M'. (see clearhead evaluate --help)"),
        (["data", "get", "wmt99"], "wmt99: no such data set; there are tatoeba-en-de, tatoeba-en-fr"),
    ],
)
def test_a_command_that_does_not_hang_together_is_refused(arguments, message, refused):
    assert message in refused(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam", "0"], "beam: 0 should be at least 1"),
        (["--nbest", "6"], "nbest: 6 should be from 1 to the beam, 5"),
        (["--nbest", "0"], "nbest: 0 should be from 1 to the beam, 5"),
        (["--nbest", "2", "--top-k", "3"], "nbest: 2 goes with a beam; draw with several seeds instead"),
        (["--beam", "4", "--top-k", "3"], "beam: 4 goes with a search, but drawing was asked for"),
        (["--alpha", "1", "--top-k", "3"], "alpha: 1.0 goes with a search, but drawing was asked for"),
        (["--alpha", "-1"], "alpha: -1.0 should be from 0 to 10 (0 leaves lengths alone)"),
        (["--alpha", "nan"], "alpha: nan should be from 0 to 10"),
        (["--alpha", "inf"], "alpha: inf should be from 0 to 10"),
        (
            ["--temperature", "0"],
            "temperature: 0.0 should be finite and at least 1e-06; greedy search is its",
        ),
        (["--temperature", "inf"], "temperature: inf should be finite and at least 1e-06"),
        (["--top-k", "0"], "top_k: 0 should be at least 1"),
        (["--top-p", "0"], "top_p: 0.0 should be greater than 0 and at most 1"),
        (["--min-p", "2"], "min_p: 2.0 should be from 0 to 1"),
        (["--repetition", "0"], "repetition: 0.0 should be from 0.01 to 100 (1 changes nothing)"),
        (["--repetition", "nan"], "repetition: nan should be from 0.01 to 100 (1 changes nothing)"),
        (["--no-repeat", "-1"], "no_repeat: -1 should be at least 0 (0 forbids nothing)"),
        (["--prefix", "1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7"], "leave nothing of longest"),
        (["--to", "fr"], "--to fr: this model translates en-de only"),
        (["--to", "german"], "--to german: this model translates en-de only (did you mean de?)"),
        (["--device", "tpu"], "--device tpu: is not one of auto, cpu, cuda"),
        (["--seed", str(1 << 70), "--top-k", "3"], "should be from 0 to 4611686018427387904"),
        (["--seed", "3"], "--seed 3: goes with --temperature, --top-k, --top-p or --min-p"),
        (["--at-once", "0"], "--at-once"),
    ],
)
def test_a_wish_that_cannot_be_granted_is_refused(options, message, refused, number_model):
    assert message in refused("translate", "--model", number_model, "one two", *options)
    # Whether a prefix fits depends on the text; all else is wrong whatever the text.
    if "--prefix" not in options:
        assert message in refused("translate", "--model", number_model, " ", *options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named_as_it_was_asked_for(refused, number_model):
    for command in (["translate", "one", "--model"], ["evaluate"]):
        said = refused(*command, number_model, "--device", "cuda")
        assert said == "--device: 'cuda', but torch finds no GPU here; use 'auto' or 'cpu'"


# Texts


def test_a_text_too_long_is_named_and_all_others_are_translated(call, number_model):
    texts = ["one two", "", "three four", "five " * 16, "six"]
    for arguments, stdin in ((texts, b""), ([], "\n".join(texts).encode())):
        for at_once in (1, 2, 512):
            ended = call("translate", "--model", number_model, "--at-once", at_once, *arguments, stdin=stdin)
            assert ended.code == 2
            assert ended.lines == ["1 2", "", "3 4", "", "6"]
            message = "text 4 ('five five five five five five five five…'): 16 tokens, and the model takes 15"
            rest = "split it; 1 such left blank, all others are translated"
            assert ended.err == f"clearhead: {message}: {rest}\n"


def test_a_text_too_long_that_has_several_lines_is_named_in_one(call, number_model):
    ended = call("translate", "--model", number_model, "one\n" * 16)
    assert ended.code == 2
    assert "('one one one" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_standard_input_that_is_not_utf8_is_named_by_line(call, number_model):
    ended = call("translate", "--model", number_model, stdin=b"one two\n\nthr\xffee\nfour\n")
    assert ended.code == 2
    assert ended.lines == ["1 2", ""]
    message = "standard input, line 3: not UTF-8 (byte 0xff); the lines before it are translated"
    assert ended.err == f"clearhead: {message}\n"


def test_an_argument_that_is_not_utf8_is_named(call, number_model):
    ended = call("translate", "--model", number_model, "one two", os.fsdecode(b"thr\xffee"), "--json")
    assert ended.code == 2
    assert len(ended.lines) == 1
    assert ended.err == "clearhead: text 2: not UTF-8; the texts before it are translated\n"


# Models


def test_a_package_without_a_model_says_how_to_get_one(refused, unboxed):
    for arguments in (["translate", "x"], ["translate", "x", "--to", "fr"], ["evaluate", "en-fr"]):
        assert refused(*arguments).endswith(
            ": no such model folder, and this package has no model in it; "
            "train one: clearhead train recipes/quickstart.toml --out runs/quickstart"
        )


def test_a_package_without_a_language_model_asks_for_one(refused, boxed):
    assert refused("generate", "x") == (
        "--model: this package has no language model in it; name a trained one's folder, or train one: "
        "clearhead train --text FILE --out runs/mine"
    )


def test_what_the_built_in_model_cannot_do_is_answered_with_what_it_can(refused, boxed):
    offered = "en-de, de-en, en-fr, fr-en"
    assert refused("translate", "x", "--model", "de-fr") == (
        f"de-fr: no such model folder; built-in models are {offered}"
    )
    assert refused("translate", "x", "--to", "es") == f"--to es: this model translates {offered} only"
    said = refused("translate", "x", "--model", "en-de", "--to", "fr")
    assert said == "--to fr: this model translates en-de only"
    assert refused("evaluate", "box", "--to", "en", "--pairs", "x").startswith("--from: name a language; ")
    assert "no test pairs are kept beside this model" in refused("evaluate", "en-de")


def test_a_folder_without_a_model_is_named(refused, tmp_path):
    for command in (["translate", "x", "--model"], ["evaluate"]):
        said = refused(*command, tmp_path / "nowhere")
        assert said.startswith(f"{tmp_path}/nowhere: no such model folder")
        assert refused(*command, tmp_path) == f"{tmp_path}: no trained model here, config.toml is missing"
        assert refused(*command, "") == "the model's name is empty; give a folder or a built-in name"
    assert refused("models", tmp_path / "nowhere").startswith(f"{tmp_path}/nowhere: no such folder")


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_a_file_cut_short_is_named(name, share, refused, copied):
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content[: int(share * len(content))])
    said = refused("translate", "--model", copied, "one")
    assert said.startswith(f"{copied / name}: cut short or not")
    assert "again" in said


def test_weights_and_tokenizers_of_other_models_are_told_apart(refused, copied, number_model):
    # Of the same size, so that only its content tells.
    tokenizer = copied / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"seven"', '"sieben"'))
    said = refused("translate", "--model", copied, "one")
    assert said.startswith(
        f"{copied}/tokenizer.json: not the tokenizer that model.safetensors was trained with"
    )

    shutil.copy(number_model / "tokenizer.json", copied)
    weights = load_file(copied / "model.safetensors")
    changed = dict(weights)
    changed["readout_weight"] = weights["readout_weight"][:-1].clone()
    save_file(changed, copied / "model.safetensors")
    said = refused("translate", "--model", copied, "one")
    assert "readout_weight is 23 x 32, config.toml and tokenizer.json ask for 24 x 32" in said

    del changed["readout_weight"]
    save_file(changed, copied / "model.safetensors")
    assert "model.safetensors: has no readout_weight; it belongs to another" in refused("evaluate", copied)


def test_damaged_settings_of_a_model_are_named(refused, call, copied):
    settings = copied / "config.toml"
    whole = settings.read_text()
    for old, new, message in (
        ("width = 32", "width = 0", "model.width"),
        ("beam = 5", "beam = 0", "search.beam"),
        ("[model]", "[model", "not valid TOML"),
    ):
        settings.write_text(whole.replace(old, new))
        said = refused("translate", "--model", copied, "one")
        assert said.startswith(f"{settings}: ")
        assert message in said
    assert call("models", copied.parent).code == 0


# Runs


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_may_not_be_written_is_named(refused, tmp_path, number_recipe):
    recipe = number_recipe(tmp_path)
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "Permission denied" in refused(*short(recipe), "--out", tmp_path / "closed")


def test_a_place_where_no_folder_can_be_is_named(refused, tmp_path, number_recipe):
    recipe = number_recipe(tmp_path)
    for out in (recipe, recipe / "below", "/proc/nothing", "/dev/null"):
        said = refused(*short(recipe), "--out", out)
        assert said.startswith(str(out))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "training").write_text("a file in the way")
    assert str(tmp_path / "out" / "training") in refused(*short(recipe), "--out", tmp_path / "out")
    assert (tmp_path / "out" / "training").read_text() == "a file in the way"


def test_a_full_disk_is_named_and_the_run_can_go_on(refused, call, tmp_path, number_recipe, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    recipe, out = number_recipe(tmp_path), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("clearhead.training.tensors.save_file", full)
        said = refused(*short(recipe), "--out", out)
    message = "cannot save step 2: No space left on device; there is no earlier state; make room and resume"
    assert said == f"{out}/training: {message}"
    with monkeypatch.context() as patch:
        patch.setattr("clearhead.checkpoint.save_file", full)
        said = refused("train", "--resume", "--out", out)
    assert (
        said
        == f"{out}/model.safetensors: could not be written (No space left on device); make room and try again"
    )
    assert call("train", "--resume", "--out", out).code == 0
    assert call("translate", "--model", out, "one").code == 0


def test_a_folder_with_a_run_is_not_trained_into(refused, copied, number_recipe, tmp_path):
    before = (copied / "model.safetensors").read_bytes()
    said = refused(*short(number_recipe(tmp_path)), "--out", copied)
    assert said == f"{copied}: holds a run already; go on with it (--resume), or choose another folder"
    assert (copied / "model.safetensors").read_bytes() == before


def test_a_run_that_is_not_there_cannot_be_resumed(refused, tmp_path):
    assert "no run to resume here" in refused("train", "--resume", "--out", tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_resumed_run_keeps_its_settings(refused, copied):
    said = refused("train", "--resume", "--out", copied, "--set", "model.width=64")
    assert said.startswith("--set model.width=64: a resumed run keeps its settings but for training.average,")


def test_a_run_whose_states_are_all_broken_says_so(refused, copied):
    for path in copied.glob("training/*.safetensors"):
        path.write_bytes(b"broken")
    said = refused("train", "--resume", "--out", copied)
    assert re.search(r"none of \d saved states is whole; start the run anew", said)
    assert (copied / "model.safetensors").exists()


def test_an_output_that_cannot_be_written_is_found_before_the_work(refused, number_model, tmp_path):
    said = refused("evaluate", number_model, "--out", tmp_path / "no" / "folder")
    assert said.startswith(f"{tmp_path}/no/folder: No such file or directory")
