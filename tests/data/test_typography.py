"""Typography of languages, pairs whose punctuation disagrees, and variants as people type."""

import pytest

from clearhead.data.cleaning import CleaningConfig, Tally, clean, matched
from clearhead.data.pair import Pair
from clearhead.data.typography import is_mismatched, typeset, variant


@pytest.mark.parametrize(
    ("language", "text", "typeset_text"),
    [
        ("fr", "J’ai faim.", "J'ai faim."),
        ("fr", "Où vas-tu?", "Où vas-tu ?"),
        ("fr", "Où vas-tu ?", "Où vas-tu ?"),
        ("fr", "Quoi?!", "Quoi ?!"),
        ("fr", "Quoi?? Non; oui:", "Quoi ?? Non ; oui :"),
        ("fr", "(?) ?", "(?) ?"),
        ("fr", "Il est 12:30.", "Il est 12:30."),
        ("fr", "https://example.org/a?b", "https://example.org/a?b"),
        ("fr", 'Il dit: "Viens!"', "Il dit : « Viens ! »"),
        ("fr", "«Viens!» dit-il.", "« Viens ! » dit-il."),
        ("de", 'Er sagte: "Ja."', "Er sagte: „Ja.“"),
        ("de", "„Ja?‟ — „Nein.‟", "„Ja?“ — „Nein.“"),
        ("de", "Er ist 1,80 m groß?", "Er ist 1,80 m groß?"),
        ("en", "“Yes,” he said.", '"Yes," he said.'),
        ("en", 'A 5" nail.', 'A 5" nail.'),
        ("cs", "„Ano,“ řekl.", "„Ano,“ řekl."),
    ],
)
def test_a_text_gets_the_quotes_and_spacing_of_its_language(language: str, text: str, typeset_text: str):
    assert typeset(text, language) == typeset_text
    assert typeset(typeset_text, language) == typeset_text


@pytest.mark.parametrize(
    ("source", "target", "mismatched"),
    [
        ("Who is it?", "Wer ist es?", False),
        ("Go away.", "Geh weg!", False),
        ('"Who?" he said.', "„Wer?“, sagte er.", False),
        ("Dear Anna,", "Liebe Anna,", False),
        ("Why?", "Warum.", True),
        ("Please come.", "Kommst du bitte?", True),
        ("I read your book.", "Ich lese dein Buch", True),
        ("We are alone.", "Wir sind allein(e).", True),
    ],
)
def test_pairs_are_mismatched_if_one_side_is_a_question_or_lacks_a_mark(
    source: str, target: str, mismatched: bool
):
    assert is_mismatched(Pair(source, target)) is mismatched


def test_mismatched_pairs_are_dropped_and_counted():
    tally = Tally()
    pairs = [Pair("Why?", "Warum."), Pair("Why?", "Warum?")]
    assert list(matched(clean(pairs, CleaningConfig(), tally), tally)) == [Pair("Why?", "Warum?")]
    assert (tally.kept, tally.dropped) == (1, {"mismatched punctuation": 1})


def test_a_share_of_the_pairs_has_a_variant_that_only_the_pair_decides():
    pairs = [
        Pair(f"I don't see {number} Cats.", f"Ich sehe {number} Katzen nicht.") for number in range(2000)
    ]
    assert not any(variant(pair, 0.0) for pair in pairs)
    few, some = ([variant(pair, share) for pair in pairs] for share in (0.1, 0.5))
    assert 150 <= sum(map(bool, few)) <= 250
    assert 900 <= sum(map(bool, some)) <= 1100
    assert all(more == less for less, more in zip(few, some, strict=True) if less)


def test_variants_keep_the_targets_words_and_case():
    number, seen = 7, set()
    for start in ("A", "B", "C", "D", "E", "F", "G", "H"):
        found = variant(Pair(f"{start} don't, {number}.", f"{start} nicht, {number}."), 1.0)
        assert found
        assert found.target.rstrip(".") == f"{start} nicht, {number}"
        assert found.source.endswith(".") == found.target.endswith(".")
        seen.add(found.source.removeprefix(start).removeprefix(start.lower()))
    assert len(seen) > 1


def test_questions_keep_their_mark():
    pairs = [Pair(f"Is it {number}?", f"Ist es {number}?") for number in range(50)]
    found = [one for pair in pairs if (one := variant(pair, 1.0))]
    assert found
    assert all(one.source.endswith("?") and one.target.endswith("?") for one in found)
