"""Labelled files of every kind are read; unusable ones get one clear line."""

import json
import re
import shlex
from pathlib import Path

import pytest

from clearhead.config import apply_overrides
from clearhead.data.sources.examples import read_examples
from clearhead.errors import DataError
from clearhead.tasks.classification.data import LabelledTexts, shorten
from clearhead.tasks.classification.evaluate import evaluate, held_out_texts
from clearhead.tasks.classification.recipe import LabelledConfig

from .conftest import recipe, reviews, write

ROWS = [("neg", "a dull, dull film"), ("pos", 'a "fine" one')]


def read(*paths: Path, **settings) -> LabelledTexts:
    return LabelledTexts.read(LabelledConfig(train=tuple(map(str, paths)), **settings), seed=1)


def test_labels_and_texts_are_found_in_every_kind_of_file(tmp_path: Path):
    import pyarrow
    from pyarrow import parquet

    files = {
        "named.tsv": "id\ttext\tlabel\n" + "".join(f"7\t{text}\t{label}\n" for label, text in ROWS),
        "plain.tsv": "".join(f"{label}\t{text}\n" for label, text in ROWS),
        "imdb.tsv": "".join(f"{label}\t12\t3\t{text}\n" for label, text in ROWS),
        "quoted.csv": 'Sentiment,Review\nneg,"a dull, dull film"\npos,"a ""fine"" one"\n',
        "records.jsonl": "".join(json.dumps({"label": label, "text": text}) + "\n" for label, text in ROWS),
        "stsa.train": "".join(f"{label} {text}\n" for label, text in ROWS),
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    columns = {"label": [label for label, _ in ROWS], "text": [text for _, text in ROWS]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "columns.parquet")
    for name in [*files, "columns.parquet"]:
        assert list(read_examples(tmp_path / name)) == ROWS, name


@pytest.mark.parametrize("labels", [("-1", "2", "10"), ("--1", "--10", "--2")])
def test_labels_that_are_numbers_are_in_their_order(labels: tuple[str, ...], tmp_path: Path):
    file = write(tmp_path / "x.tsv", [(labels[n % 3], f"text {n}") for n in range(30)])
    assert read(file).labels == labels


def test_numbers_are_labels_too(tmp_path: Path):
    import pyarrow
    from pyarrow import parquet

    (tmp_path / "a.jsonl").write_text('{"label": 1, "text": "x"}\n{"label": false, "text": "y"}\n')
    parquet.write_table(pyarrow.table({"label": [1, 0], "text": ["x", "y"]}), tmp_path / "a.parquet")
    assert [one.label for one in read_examples(tmp_path / "a.jsonl")] == ["1", "false"]
    assert [one.label for one in read_examples(tmp_path / "a.parquet")] == ["1", "0"]
    rows = [(str(number), f"text {number} {copy}") for number in (10, 9, -1) for copy in range(4)]
    assert read(write(tmp_path / "n.tsv", rows)).labels == ("-1", "9", "10")


def test_the_columns_can_be_set_by_number_or_name(tmp_path: Path):
    path = tmp_path / "x.tsv"
    path.write_text("stars\tcomment\n5\tfine\n")
    assert list(read_examples(path, ("stars", "comment"))) == [("5", "fine")]
    path.write_text("fine\t5\n")
    assert list(read_examples(path, (1, 0))) == [("5", "fine")]


def test_a_latin_1_file_needs_its_encoding(tmp_path: Path):
    path = tmp_path / "questions.all"
    path.write_bytes("1 Wo ist Köln ?\n".encode("latin-1"))
    with pytest.raises(
        DataError,
        match=r"line 1: not UTF-8 \(byte 0xf6 at offset 10\); .*, or name the encoding .* data.encoding=lat",
    ):
        read(path)
    assert list(read_examples(path, encoding="latin-1")) == [("1", "Wo ist Köln ?")]


@pytest.mark.parametrize("columns", [None, (0, 1)])
def test_a_header_that_is_read_as_a_text_is_recognised(columns, tmp_path: Path):
    rows = [(str(n % 2), f"a text {n}") for n in range(30)]
    file = write(tmp_path / "x.tsv", rows, header="My Stars!\tWhat they wrote\n")
    option = """--set data.columns='["My Stars!", "What they wrote"]'"""
    with pytest.raises(
        DataError, match=f"if it is a header, name its columns: {re.escape(option)}; else add"
    ):
        read(file, columns=columns)
    with pytest.raises(
        DataError, match=r"no column 2 \(numbered from 0\); it has My Stars!, What they wrote;"
    ):
        read(file, columns=(1, 2))
    [changed] = apply_overrides({}, shlex.split(option)[1:]).values()
    assert read(file, **changed).labels == ("0", "1")


HEADERS = ["My Stars!\tWhat they wrote\n", "stars\twords\n", "my_stars\tcomment_text\n"]


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_is_no_class_beside_validation_files(header, tmp_path: Path):
    rows = [(str(n % 2), f"a text {n}") for n in range(30)]
    file = write(tmp_path / "x.tsv", rows, header=header)
    held_out = (str(write(tmp_path / "y.tsv", rows, header=header)),)
    names = tuple(header.strip().split("\t"))
    with pytest.raises(DataError) as caught:
        read(file, validation=held_out)
    assert f"--set data.columns='{json.dumps(names)}'" in str(caught.value).replace(", or without", "', ")
    texts = read(file, validation=held_out, columns=names)
    assert texts.labels == ("0", "1")
    assert len(texts.train) == len(texts.validation) == 30


@pytest.mark.parametrize("header", HEADERS[1:])
def test_a_recognised_header_is_no_text_for_numbered_columns(header, tmp_path: Path):
    rows = [(str(n % 2), f"a text {n}") for n in range(30)]
    file = write(tmp_path / "x.tsv", rows, header=header)
    assert list(read_examples(file, (0, 1))) == rows
    assert list(read_examples(write(tmp_path / "y.tsv", rows), (0, 1))) == rows


def test_the_suggested_columns_are_those_of_label_and_text(tmp_path: Path):
    rows = [(str(n), f"a text of some words {n}\t{'good' if n % 2 else 'bad'}") for n in range(30)]
    file = write(tmp_path / "x.tsv", rows, header="number\treview_text\tmy_opinion\n")
    with pytest.raises(DataError, match=re.escape("""data.columns='["my_opinion", "review_text"]'""")):
        read(file)
    assert read(file, columns=("my_opinion", "review_text")).labels == ("bad", "good")


def test_a_semicolon_csv_holds_labelled_texts(tmp_path: Path):
    (tmp_path / "x.csv").write_text("label;text\npos;good, fine\nneg;bad, not fine\n")
    assert list(read_examples(tmp_path / "x.csv")) == [("pos", "good, fine"), ("neg", "bad, not fine")]


@pytest.mark.parametrize("header", ["label\ttext\n", "my_stars\tcomment_text\n", "stars\twords\n"])
def test_a_model_of_numbered_columns_meets_a_header(header, tmp_path: Path):
    (tmp_path / "config.toml").write_text('[data]\ntrain = ["x"]\ncolumns = [0, 1]\n')
    rows = [("pos" if n % 2 else "neg", f"a film {n}") for n in range(10)]
    assert held_out_texts(str(write(tmp_path / "x.tsv", rows, header)), tmp_path)[0] == rows
    assert held_out_texts(str(write(tmp_path / "y.tsv", rows)), tmp_path)[0] == rows


def test_a_header_with_usual_names_decides_over_the_numbers_of_the_recipe(tmp_path: Path):
    (tmp_path / "config.toml").write_text('[data]\ntrain = ["x"]\ncolumns = [0, 1]\n')
    rows = [("a film", "pos"), ("a bad film", "neg")]
    found, _, _ = held_out_texts(str(write(tmp_path / "x.tsv", rows, "text\tlabel\n")), tmp_path)
    assert found == [("pos", "a film"), ("neg", "a bad film")]


def test_an_odd_header_of_a_test_file_is_named_with_its_option(tmp_path: Path):
    (tmp_path / "config.toml").write_text('[data]\ntrain = ["x"]\ncolumns = [0, 1]\n')
    rows = [("pos", "a film"), ("neg", "a bad film")]
    file = str(write(tmp_path / "x.tsv", rows, "My Stars!\tWhat they wrote\n"))
    with pytest.raises(DataError, match=re.escape("(evaluate: --columns 'My Stars!,What they wrote')")):
        evaluate(lambda texts: None, ("neg", "pos"), tmp_path, file)  # pyright: ignore
    assert held_out_texts(file, tmp_path, ("My Stars!", "What they wrote"))[0] == rows


def test_the_split_is_stratified_and_keeps_equal_texts_together(tmp_path: Path):
    rows = reviews(200) * 2
    texts = read(write(tmp_path / "x.tsv", rows))
    held_out = {example.text for example in texts.validation}
    assert not held_out & {example.text for example in texts.train}
    assert {example.label for example in texts.validation} == {"neg", "pos"}
    assert 20 <= len(texts.validation) <= 60
    again = read(write(tmp_path / "y.tsv", rows))
    assert again.validation == texts.validation


def test_blank_texts_are_left_out_and_counted(tmp_path: Path):
    texts = read(write(tmp_path / "x.tsv", [*reviews(40), ("pos", "  "), ("", "good")]))
    assert (texts.blank, len(texts.train) + len(texts.validation)) == (2, 40)


def test_a_long_text_keeps_its_beginning_and_more_of_its_end():
    assert shorten([4, 5, 6], 3) == [4, 5, 6]
    assert shorten(list(range(10, 30)), 8) == [10, 11, 24, 25, 26, 27, 28, 29]


BAD = {
    "one class": (
        [("pos", f"text {n}") for n in range(9)],
        r"all 9 texts have the label 'pos'; a classifier needs two",
    ),
    "free text": (
        [(f"the film {n} was", "good") for n in range(30)],
        r"30 different labels in 30 texts, such as 'the film 0 was', .* are not labels; name the columns",
    ),
    "single text": (
        [*((f"{n % 2}", f"text {n}") for n in range(9)), ("new", "x")],
        r"label 'new' has one text only, so none is left to train on after validation; add more, remove",
    ),
    "copies": (
        [("neg", "the same")] * 20 + [("pos", f"text {n}") for n in range(9)],
        r"label 'neg' has one text only \(20 copies count once\)",
    ),
    "few": (
        [("pos", "good"), ("neg", "bad"), ("neg", "dull")],
        r"3 texts with 2 labels, 'pos', 'neg', are too few; add texts until each label has 2 or more",
    ),
    "no text": ([("pos", " "), ("neg", "")], r"no text with a label; name another file, or data\.columns"),
}


@pytest.mark.parametrize("name", BAD)
def test_texts_that_cannot_be_classified_get_one_clear_line(name: str, tmp_path: Path):
    rows, message = BAD[name]
    with pytest.raises(DataError, match=message) as caught:
        read(write(tmp_path / "x.tsv", rows))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("x.tsv", "", "x.tsv: is empty"),
        ("x.tsv", "\n\n", "x.tsv: is empty"),
        (
            "x.tsv",
            "only one column\n",
            "line 1: only one column; separate label and text by tabs",
        ),
        ("x.csv", "label;text\npos;good, fine\n", "line 1: no column 'stars'; it has label, text"),
        (
            "x.csv",
            "My Stars!,What they wrote\n5,good\n",
            "line 1: no column 'stars'; it has My Stars!, What they wrote; name those of label and text: for "
            """example --set data.columns='["My Stars!", "What they wrote"]', or without a header --set""",
        ),
        ("x.csv", "stars,comment\n", "no text with a label"),
        ("x.jsonl", '{"stars": 1, "comment": "x"}\n', "no column 'label'; it has stars, comment"),
        ("x.tsv", "label\ttext\npos\n", "line 2: 1 column where 2 are needed; separate them by tabs"),
        (
            "x.tsv",
            "label\ttext\npos\tgood\t\npos\tgood\tfilm\n",
            "line 3: 3 columns, but line 1 has 2; remove the tabs in fields",
        ),
        ("x.tsv", "pos\tfine\npos\tgood\tfilm\n", "line 2: 3 columns, but line 1 has 2"),
        ("x.csv", "stars,comment\n5,good, no\n", "line 2: 3 columns, but line 1 has 2; quote fields with"),
        ("x.all", "word\n", "no text with a label"),
    ],
)
def test_files_without_labelled_texts_get_one_clear_line(
    tmp_path: Path, file: str, content: str, message: str
):
    (tmp_path / file).write_text(content)
    columns = ("stars", "comment") if file == "x.csv" else None
    with pytest.raises(DataError) as caught:
        read(tmp_path / file, columns=columns)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_copied_text_with_two_labels_cannot_lose_a_class(tmp_path: Path):
    many = write(tmp_path / "x.tsv", [(label, f"{label} {n}") for n in range(20) for label in "ac"])
    held_out = [one.text for one in read(many).validation if one.label == "a"]
    rows = [("a", f"a {n}") for n in range(20)] + [("b", text) for text in held_out]
    with pytest.raises(
        DataError, match="label 'b' has no text left to train on after validation, because other"
    ):
        read(write(tmp_path / "y.tsv", rows))


def test_labels_of_validation_and_test_must_be_known(labelled: Path, tmp_path: Path):
    odd = write(tmp_path / "odd.tsv", [("maybe", "a film"), ("pos", "good")])
    with pytest.raises(
        DataError, match=r"odd\.tsv: label 'maybe' is not in the training data, which has 'neg', 'pos'"
    ):
        read(labelled / "train.tsv", validation=(str(odd),))
    (tmp_path / "config.toml").write_text('[data]\ntrain = ["x"]\n')
    with pytest.raises(DataError, match=r"label 'maybe' is not in the training data"):
        evaluate(lambda texts: None, ("neg", "pos"), tmp_path, str(odd))  # pyright: ignore


def test_a_class_without_a_test_text_is_noted(tmp_path: Path):
    import torch

    (tmp_path / "config.toml").write_text('[data]\ntrain = ["x"]\n')
    test = write(tmp_path / "test.tsv", [("pos", "good film"), ("pos", "fine film"), ("pos", " ")])
    found = evaluate(
        lambda texts: torch.tensor([[0.0, 1.0, 0.5]]).repeat(len(texts), 1),
        ("neg", "pos", "so"),
        tmp_path,
        str(test),
    )
    assert found.record["accuracy"] == 1
    assert found.record["macro_f1"] == 1
    assert [note for note in found.notes if "label 'neg' has no text" in note and "leaves it out" in note]
    json.loads(json.dumps(dict(found.record)), parse_constant=pytest.fail)  # NaN is no JSON
    assert found.record["context"] is None
    assert found.notes[0] == "left out 1 text without words or without a label"


def test_a_class_that_is_predicted_without_a_test_text_counts_in_macro_f1(tmp_path: Path):
    import torch

    (tmp_path / "config.toml").write_text('[data]\ntrain = ["x"]\n')
    test = write(tmp_path / "test.tsv", [("pos", "good film"), ("pos", "bad film")])

    def logits(texts):
        return torch.tensor([[float("bad" in text), 0.5] for text in texts])

    found = evaluate(logits, ("neg", "pos"), tmp_path, str(test))
    assert found.record["macro_f1"] == pytest.approx((0 + 2 / 3) / 2)
    assert found.notes == (
        f"label 'neg' has no text in {test}; macro-F1 counts it as 0, because it is predicted",
    )


def test_a_test_file_may_have_other_columns_than_the_training_files(tmp_path: Path):
    (tmp_path / "config.toml").write_text('[data]\ntrain = ["x"]\ncolumns = ["stars", "comment"]\n')
    rows = [("pos", "good film"), ("neg", "bad film")]
    for header in ("stars\tcomment\n", "Label\ttext\n"):
        assert held_out_texts(str(write(tmp_path / "x.tsv", rows, header)), tmp_path)[0] == rows
    with pytest.raises(DataError) as caught:
        held_out_texts(str(write(tmp_path / "y.tsv", rows, "a\tb\n")), tmp_path)
    assert str(caught.value).endswith(
        "y.tsv, line 1: no column 'stars'; it has a, b; name those of label and text: --columns a,b"
    )


def test_an_imported_classifier_is_measured_on_a_file(tmp_path: Path):
    (tmp_path / "config.toml").write_text('kind = "classification"\n')
    rows = [("pos", "good film"), ("neg", "bad film")]
    assert held_out_texts(str(write(tmp_path / "x.tsv", rows, "label\ttext\n")), tmp_path)[0] == rows


def test_without_test_files_the_held_out_texts_are_measured(tmp_path: Path):
    (tmp_path / "config.toml").write_text('[data]\ntrain = ["x"]\n')
    with pytest.raises(DataError, match="this folder has no held-out texts; name a file with --labels"):
        evaluate(lambda texts: None, ("a", "b"), tmp_path)  # pyright: ignore


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer": {"kind": "word"}}, r"model.kind 'bag' takes no \[tokenizer\]; leave it out"),
        ({"training": {"steps": 60, "patience": 2}}, "training.steps, training.patience: a bag is fitted at"),
        ({"data": {"train": []}}, "data.train: is empty; name a file"),
        ({"data": {"train": ["x"], "encoding": "utf8000"}}, "'utf8000' is not an encoding"),
        ({"data": {"train": ["x"], "encoding": "base64"}}, "'base64' is not an encoding"),
        ({"data": {"train": ["x"], "encoding": "utf-16"}}, "'utf-16' is not an encoding that extends ASCII"),
        ({"model": {"kind": "forest"}}, "'forest' is not one of bag, bilstm, encoder"),
    ],
)
def test_wrong_settings_are_reported_by_name(labelled: Path, changes, message: str):
    from clearhead.errors import SettingsError
    from clearhead.tasks.recipe import parse_recipe

    values = recipe(labelled, "bag").model_dump(mode="json", exclude_none=True) | changes
    with pytest.raises(SettingsError, match=message):
        parse_recipe(values)


def test_a_bag_takes_the_settings_that_its_own_run_saved(labelled: Path):
    """All settings are saved, with defaults and with what was resolved for the machine."""
    from clearhead.tasks.recipe import parse_recipe

    saved = recipe(labelled, "bag", training={"seed": 7}).resolved(on_gpu=False)
    assert parse_recipe(saved.model_dump(mode="json", exclude_none=True)) == saved
