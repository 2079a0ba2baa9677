"""Data as people have it, from the command line; the option that an error names then works."""

import csv
import json
import shlex

import pytest

TINY = ["--set", "training.steps=2", "--set", "model.width=16", "--set", "model.attention.heads=2"]
TINY_PAIRS = [*TINY, "--set", "validation.sentences=0", "--set", "model.max_length=20"]
PAIRS = [(f"A man sees {number} dogs.", f"Ein Mann sieht {number} Hunde.") for number in range(60)]


def written(path, rows, **dialect):
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, **dialect).writerows(rows)
    return path


def option_in(error: str, name: str) -> list[str]:
    """The option of this name in an error, as the shell would pass it."""
    return shlex.split(error[error.index(name) :])[:2]


def test_the_option_in_the_error_for_an_unknown_header_trains(call, error_of, tmp_path):
    rows = [("id", "caption_a", "caption_b"), *((str(n), *pair) for n, pair in enumerate(PAIRS))]
    path = written(tmp_path / "captions.csv", rows, delimiter=";")
    command = ["train", "--pairs", path, "--from", "en", "--to", "de", "--out", tmp_path / "out", *TINY_PAIRS]
    error = error_of(*command)
    assert error.startswith(
        f"{path}, line 1: which columns hold source and target is unclear; it has id, capt"
    )
    option = option_in(error, "--set")
    assert option == ["--set", 'data.columns=["caption_a", "caption_b"]']
    result = call(*command, *option)
    assert result.code == 0, result.err
    assert "corpus: 60 pairs read, 60 kept" in result.err


def test_the_option_in_the_error_of_evaluate_works(call, error_of, tmp_path, number_model):
    rows = [("id", "caption_a", "caption_b"), *((str(n), "one two", "eins zwei") for n in range(5))]
    path = written(tmp_path / "test.csv", rows)
    error = error_of("evaluate", number_model, "--pairs", path)
    option = option_in(error, "--columns")
    assert option == ["--columns", "caption_a,caption_b"]
    result = call("evaluate", number_model, "--pairs", path, *option, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["sentences"] == 5


@pytest.mark.parametrize("columns", ["a", "a,b,c", ",b"])
def test_evaluate_needs_two_columns(error_of, number_model, columns):
    error = error_of("evaluate", number_model, "--pairs", "x.tsv", "--columns", columns)
    assert error == f"--columns {columns}: name two, for example --columns source,target"


def test_columns_need_a_file(error_of, number_model):
    assert "needs --pairs FILE" in error_of("evaluate", number_model, "--columns", "a,b")


def test_a_template_on_the_command_line_has_line_ends(call, tmp_path):
    path = tmp_path / "q.jsonl"
    records = [{"prompt": f"What is {n} and {n}?", "answer": f"It is {2 * n}."} for n in range(60)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    template = r"data.template=Q: {prompt}\nA: {answer}"
    result = call("train", "--text", path, "--set", template, "--out", tmp_path / "out", *TINY)
    assert result.code == 0, result.err
    assert "for example: Q: What is 0 and 0?↵A:" in result.err


CHAT = [
    {"messages": [{"role": "user", "content": f"Say {n}."}, {"role": "assistant", "content": f"It is {n}."}]}
    for n in range(80)
]
ALPACA = [{"instruction": "Double it.", "input": str(n), "output": f"It is {2 * n}."} for n in range(80)]


@pytest.mark.parametrize(
    ("name", "records", "template"),
    [
        ("chat.jsonl", CHAT, "User: {prompt}\\nAssistant: {answer}"),
        ("alpaca.json", ALPACA, "### Instruction:\\n{prompt}\\n\\n### Response:\\n{answer}"),
    ],
)
def test_a_language_model_learns_the_answers_of_chats_and_instructions(
    call, tmp_path, name, records, template
):
    path = tmp_path / name
    lines = "".join(json.dumps(record) + "\n" for record in records)
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps(records))
    result = call("train", "--text", path, "--out", tmp_path / "out", *TINY)
    assert result.code == 0, result.err
    assert f"prompts with answers: set into '{template}'; only the answers are learned" in result.err
    assert "prompts with answers to train on: 72" in result.err
    result = call("evaluate", tmp_path / "out", "--text", path, "--json")
    assert result.code == 0, result.err
    answers = [
        record["output"] if "output" in record else record["messages"][1]["content"] for record in records
    ]
    assert json.loads(result.out)["bytes"] == sum(map(len, answers))


def test_the_template_in_the_error_of_a_recipe_works(call, error_of, tmp_path):
    path, recipe = tmp_path / "chat.jsonl", tmp_path / "recipe.toml"
    path.write_text("".join(json.dumps(record) + "\n" for record in CHAT))
    small = "[model]\nwidth = 16\nlayers = 1\nattention = {heads = 2}\n[training]\nsteps = 2\n"
    recipe.write_text(
        f'kind = "language"\ndata = {{train = ["{path}"]}}\nbatches = {{tokens = 512}}\n{small}'
    )
    error = error_of("train", recipe, "--out", tmp_path / "out")
    assert "name it (train: --set data.field=messages.content, evaluate: --field messages.content)" in error
    option = option_in(error[error.index("language model") :].rstrip(")"), "--set")
    assert option == ["--set", "data.template=User: {prompt}\\nAssistant: {answer}"]
    result = call("train", recipe, "--out", tmp_path / "out", *option)
    assert result.code == 0, result.err


def test_subtitles_and_catalogues_train_a_translator(call, tmp_path):
    for side, language in enumerate(("en", "de")):
        times = [f"00:{n:02}:00,000 --> 00:{n:02}:02,000" for n in range(len(PAIRS))]
        cues = (f"1\n{time}\n{pair[side]}\n" for time, pair in zip(times, PAIRS, strict=True))
        (tmp_path / f"film.{language}.srt").write_text("\n".join(cues))
    entries = "".join(f'msgid "{source}!"\nmsgstr "{target}!"\n\n' for source, target in PAIRS)
    (tmp_path / "x.po").write_text('msgid ""\nmsgstr ""\n"Language: de\\n"\n\n' + entries)
    files = ["--pairs", f"{tmp_path}/film.en.srt,{tmp_path}/film.de.srt", "--pairs", tmp_path / "x.po"]
    result = call("train", *files, "--out", tmp_path / "out", *TINY_PAIRS)
    assert result.code == 0, result.err
    assert "corpus: 120 pairs read, 120 kept" in result.err
    assert "languages: en to de" in result.err
    result = call("evaluate", tmp_path / "out", "--pairs", tmp_path / "x.po", "--beam", 1, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["sentences"] == 60


BAD = {
    "no.xlf": (
        b"<xliff version='2.0' srcLang='en' trgLang='de'><file><unit id='1'><segment><source>a</source>"
        b"</segment></unit></file></xliff>",
        "has 1 unit, but no translations; name a file with targets",
    ),
    "no.po": (
        b'msgid "a"\nmsgstr ""\n',
        "has no translations (1 untranslated); name a file with translations",
    ),
    "one.srt": (b"1\n00:00:01,000 --> 00:00:02,000\nHi\n", "holds one language; name two files"),
    "mixed.tsv": (b"caf\xc3\xa9\tb\ncaf\xe9\td\n", "line 2: not UTF-8 (byte 0xe9 at offset 11)"),
    "wide.tsv": ("a\tb\n".encode("utf-16"), "is UTF-16; save the file as UTF-8"),
    "long.tsv": (b"x" * (50 << 20), "line 1: longer than 16 MB; put each sentence on its own line"),
    "long.jsonl": (b'{"en": "' + b"x" * (50 << 20) + b'"}', "line 1: longer than 16 MB"),
    "fields.json": (b'[{"a": "x", "b": "y", "id": "z"}]', """data.columns='["a", "b"]'"""),
    "cut.json": (b'[{"en": "x", "de": "y"}', "the array of records has no end; is the file cut short?"),
    "none.json": (b"[]", "is empty; name another file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_get_one_line_with_the_way_out(error_of, tmp_path, name):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    error = error_of(
        "train", "--pairs", tmp_path / name, "--from", "en", "--to", "de", "--out", tmp_path / "out"
    )
    assert error.startswith(str(tmp_path / name))
    assert message in error
    assert len(error) < 400


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero"])
def test_a_device_is_no_file_of_pairs(error_of, tmp_path, path):
    command = ["train", "--from", "en", "--to", "de", "--out", tmp_path / "out", "--pairs"]
    assert error_of(*command, path).startswith(f"{path}: a pipe or a device can be read only once")
    assert error_of(*command, tmp_path) == f"{tmp_path}: is a folder; name a file in it"
