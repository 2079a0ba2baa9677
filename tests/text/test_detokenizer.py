"""Streamed parts add up to the text, and no part of a stop string slips out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.text.detokenizer import StreamDetokenizer
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

TEXTS = ["to be or not to be, that is the question", "naïve café — 北京 🙂🙂", "a b  c\n\nd"]
KINDS = {
    kind: Tokenizer.train(TEXTS, TokenizerConfig(kind=kind, vocabulary=300, normalize=False))
    for kind in ("bytes", "character", "bpe")
} | {
    f"{kind} with bytes": Tokenizer.train(["to be"], TokenizerConfig(kind=kind, vocabulary=600))
    for kind in ("character", "bpe", "unigram")
}


def streamed(tokenizer: Tokenizer, prompt: str, ids: list[int], stops: tuple[str, ...] = ()) -> list[str]:
    detokenizer = StreamDetokenizer(tokenizer, tokenizer.encode(prompt), stops)
    parts = []
    for number in ids:
        parts.append(detokenizer.add(number))
        if detokenizer.stop is not None:
            break
    parts.append(detokenizer.rest())
    assert "".join(parts) == detokenizer.text
    return parts


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(st.sampled_from(TEXTS), st.integers(0, 40))
def test_a_text_streamed_id_by_id_is_the_text(kind, text, cut):
    tokenizer, prompt = KINDS[kind], text[:cut]
    before, ids = tokenizer.encode(prompt), tokenizer.encode(text[cut:])
    parts = streamed(tokenizer, prompt, ids)
    assert tokenizer.decode(before) + "".join(parts) == tokenizer.decode(before + ids)
    assert not any("\ufffd" in part for part in parts)


def test_an_incomplete_character_is_held_back():
    tokenizer = Tokenizer.train(["ab"], TokenizerConfig(kind="bytes", vocabulary=300))
    ids = tokenizer.encode("a🙂b")
    assert len(ids) == 6
    assert streamed(tokenizer, "ab", ids) == ["a", "", "", "", "🙂", "b", ""]
    assert streamed(tokenizer, "ab", ids[:3])[-1] == "\ufffd"


@pytest.mark.parametrize("kind", ["character with bytes", "bpe with bytes", "unigram with bytes"])
def test_no_part_shows_half_a_character_that_is_spelled_in_bytes(kind: str):
    tokenizer = KINDS[kind]
    ids = tokenizer.encode("to 北京北京🙂🙂 be")
    assert "".join(streamed(tokenizer, "", ids)) == "to 北京北京🙂🙂 be"
    assert set("北京🙂") <= set(streamed(tokenizer, "", ids))
    broken = [number for number in ids if number != tokenizer.id("<0xE5>")]
    assert tokenizer.decode(broken) == "to ��京��京🙂🙂 be"
    assert "".join(streamed(tokenizer, "", broken)) == "to ��京��京🙂🙂 be"


@settings(max_examples=150)
@given(st.text("abc", max_size=12), st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=2))
def test_a_text_ends_before_the_first_stop_string(text, stops):
    tokenizer = Tokenizer.train(["abc"], TokenizerConfig(kind="character", normalize=False))
    parts = streamed(tokenizer, "", tokenizer.encode(text), tuple(stops))
    # The first complete stop string ends the text.
    ends = [text.index(stop) + len(stop) for stop in stops if stop in text]
    expected = text
    if ends:
        shown = text[: min(ends)]
        expected = shown[: min(shown.index(stop) for stop in stops if stop in shown)]
    assert "".join(parts) == expected
