"""What a tokenizer cannot spell is counted, with examples."""

from clearhead.text.spelling import Unspelled
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

from .conftest import SENTENCES, tokenizer_of

TEXTS = ["Dva muži", "Der Hund ist im Garten.", "Hund 🙂", "two  spaces\n"]


def old_tokenizer() -> Tokenizer:
    return Tokenizer.train(SENTENCES, TokenizerConfig(vocabulary=600, byte_fallback=False))


def test_a_warning_has_a_count_and_examples():
    found = Unspelled.of(old_tokenizer(), TEXTS)
    assert (found.texts, found.lost) == (4, 2)
    assert found.examples == {"muži": "mui", "🙂": ""}
    message = 'the tokenizer of en-fr cannot spell 2 of 4 lines: "muži" becomes "mui", "🙂" is lost'
    assert found.warning("en-fr") == message


def test_counts_are_exact_whatever_the_number_of_texts():
    found = Unspelled.of(old_tokenizer(), TEXTS * 1000)
    assert (found.texts, found.lost, len(found.examples)) == (4000, 2000, 2)
    assert (found.warning("m") or "").startswith("the tokenizer of m cannot spell 2,000 of 4,000 lines")


def test_there_are_few_examples():
    found = Unspelled.of(old_tokenizer(), ["žába", "Žofie šla", "říjen čaj"])
    assert len(found.examples) == 3


def test_a_tokenizer_with_bytes_spells_everything():
    for kind in ("bpe", "unigram", "character", "bytes"):
        assert Unspelled.of(tokenizer_of(kind), TEXTS).warning("m") is None
