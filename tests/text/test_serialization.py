"""A saved tokenizer is the same tokenizer; a broken file is named and never half loaded."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import models

from clearhead.errors import ModelError
from clearhead.text.tokenizer import Tokenizer

from .conftest import SENTENCES, tokenizer_of


def test_a_saved_tokenizer_is_the_same_when_loaded(tokenizer: Tokenizer, tmp_path: Path):
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.to_json() == tokenizer.to_json()
    assert loaded.fingerprint == tokenizer.fingerprint
    assert (loaded.config, loaded.special_tokens, loaded.size) == (
        tokenizer.config,
        tokenizer.special_tokens,
        tokenizer.size,
    )
    assert loaded.encode_batch(SENTENCES) == tokenizer.encode_batch(SENTENCES)


def test_different_tokenizers_have_different_fingerprints(of_kind: Callable[[str], Tokenizer]):
    kinds = ["bpe", "unigram", "word", "whitespace", "character", "bytes"]
    assert len({of_kind(kind).fingerprint for kind in kinds}) == len(kinds)


def test_saving_leaves_nothing_else_behind(of_kind: Callable[[str], Tokenizer], tmp_path: Path):
    of_kind("bpe").save(tmp_path / "tokenizer.json")
    of_kind("bpe").save(tmp_path / "tokenizer.json")
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


def test_an_older_file_survives_a_failed_save(
    of_kind: Callable[[str], Tokenizer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "tokenizer.json"
    of_kind("bpe").save(path)

    def full(self: Path, text: str, encoding: str) -> int:
        self.write_bytes(text.encode(encoding)[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        of_kind("word").save(path)
    monkeypatch.undo()
    assert Tokenizer.load(path).fingerprint == of_kind("bpe").fingerprint
    assert [found.name for found in tmp_path.iterdir()] == ["tokenizer.json"]


def test_a_truncated_file_is_named(of_kind: Callable[[str], Tokenizer], tmp_path: Path):
    path = tmp_path / "tokenizer.json"
    path.write_text(of_kind("bpe").to_json()[:500], encoding="utf-8")
    with pytest.raises(
        ModelError, match=r"tokenizer\.json: cut short or not JSON \(.*\); copy the file again"
    ):
        Tokenizer.load(path)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(
        ModelError, match=r"tokenizer\.json: no such file; name the folder of a trained model"
    ):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_folder_is_not_a_tokenizer(tmp_path: Path):
    with pytest.raises(ModelError, match="cannot be read: Is a directory"):
        Tokenizer.load(tmp_path)


def test_a_file_that_is_not_text_is_named(tmp_path: Path):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(b"\x89PNG\xff")
    with pytest.raises(ModelError, match=r"tokenizer\.json: not UTF-8 text \(byte 0\); copy the file again"):
        Tokenizer.load(path)


@pytest.mark.parametrize("text", ["[1, 2]", "3", '{"vocab": {}}', "null"])
def test_other_json_is_rejected(text: str):
    with pytest.raises(ModelError, match="tokenizer: not a clearhead tokenizer; use the one that was saved"):
        Tokenizer.from_json(text)


def test_a_tokenizer_of_another_program_is_rejected():
    other = tokenizers.Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[])).to_str()
    with pytest.raises(ModelError, match="not a clearhead tokenizer"):
        Tokenizer.from_json(other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda it: it["clearhead"].update(format=2), "path: format 2 is not 1; use a newer clearhead"),
        (
            lambda it: it["clearhead"].update(specials=["<pad>"]),
            "path: special tokens are not <pad> <unk> <s> </s>",
        ),
        (
            lambda it: it["clearhead"].update(specials=None),
            "path: special tokens are not <pad> <unk> <s> </s>",
        ),
        (
            lambda it: it["clearhead"]["specials"].append("<2fr>"),
            "path: special token '<2fr>' does not have id 6; copy the file again",
        ),
        (
            lambda it: it["clearhead"]["settings"].update(colour="red"),
            "path: settings of another clearhead version: colour: unknown setting",
        ),
        (lambda it: it["clearhead"].pop("settings"), "path: settings of another clearhead version"),
        (lambda it: it.pop("tokenizer"), "path: the tokenizer itself is missing; copy the file again"),
        (lambda it: it["tokenizer"].pop("model"), "path: the tokenizer in it is broken"),
        (
            lambda it: it["tokenizer"]["model"]["merges"].append(["no", "such"]),
            "path: the tokenizer in it is broken",
        ),
    ],
)
def test_every_problem_of_a_file_has_a_message(change: Callable[[dict], object], message: str):
    content = json.loads(tokenizer_of("bpe").to_json())
    change(content)
    with pytest.raises(ModelError) as error:
        Tokenizer.from_json(json.dumps(content), path="path")
    assert str(error.value).startswith(message)


def test_a_file_cannot_make_special_tokens_out_of_text(of_kind: Callable[[str], Tokenizer]):
    content = json.loads(of_kind("bpe").to_json())
    content["tokenizer"]["added_tokens"] = [
        {
            "id": 3,
            "content": "</s>",
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
    ]
    assert Tokenizer.from_json(json.dumps(content)).encode("</s>") == of_kind("bpe").encode("</s>")


def paths(content: object, path: tuple = ()) -> list[tuple]:
    """The paths of all parts of a JSON value; of long lists and objects, only the first few."""
    items = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    return [path, *(deeper for key, value in list(items)[:8] for deeper in paths(value, (*path, key)))]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "whitespace", "character", "bytes"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_file_with_any_change_loads_or_is_rejected(kind: str, data: st.DataObject):
    content = json.loads(tokenizer_of(kind).to_json())
    *parents, last = data.draw(st.sampled_from(paths(content)[1:]))
    inner = content
    for key in parents:
        inner = inner[key]
    inner[last] = data.draw(
        st.sampled_from([None, -1, 0, 3, 1.5, "", "x", "<pad>", [], [1], {}, {"a": 1}, True])
    )
    try:
        tokenizer = Tokenizer.from_json(json.dumps(content))
    except ModelError:
        return
    assert isinstance(tokenizer.decode(tokenizer.encode("a b")), str)
