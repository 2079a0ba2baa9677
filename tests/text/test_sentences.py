"""Sentence splitting in English, German and French."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.sentences import gaps, sentence_spans, split_sentences

ENGLISH = [
    "Dr. Smith met Mrs. Jones at 5 p.m. in the park. | They talked.",
    "It costs 3.50 dollars. | That is cheap.",
    "See https://example.com/a.b?c=d. | Then call me.",
    "J. R. R. Tolkien wrote it. | J. K. Rowling did not.",
    "He left at 6 p.m. | She stayed.",
    "We saw apples, pears, etc. | The rest was gone.",
    "We saw apples, pears, etc. in the garden.",
    '"Stop!" he said. | "Why?" she said.',
    'He said, "I am tired." | Then he slept.',
    "Well... maybe not. | But why?",
    "I wonder… | Perhaps he knows.",
    "What?! | No way!",
    "So do I. | He does not.",
    "The U.S. government agreed. | I did not.",
    "She lives in the U.S. | He lives in Berlin.",
    "See No. 5 and Fig. 3 on p. 12. | Vol. II is lost.",
    "Born on Jan. 5 in St. Louis. | Died on Sept. 9.",
    "Use e.g. Python or i.e. Java. | Both work.",
    "Version 1.2.3 is out. | Download it.",
    "1. Open the door.",
    "(This is a note.) | This is not.",
    "Great! \ue010 | Next one.",
    "**Important.** | Read this.",
    "We hired Smith Inc. last year. | It was Acme Corp. again.",
    "He ate vitamin C. | It helped.",
    "The year was 1984. | Winston was tired.",
    "Call ext. 12 or tel. 555. | Ask for max. 5.",
]
GERMAN = [
    "Am 3. Oktober ist Feiertag. | Alle haben frei.",
    "Im 19. Jahrhundert lebte er hier. | Dann zog er um.",
    "Er ist 12. | Sie ist 13.",
    "Dr. Müller kommt um 5 Uhr, z. B. am Montag. | Er ist nett.",
    "Wir kaufen Obst, z.B. Äpfel. | Das ist gut.",
    "Äpfel, Birnen usw. | Das reicht.",
    "„Komm her!“, sagte er. | „Warum?“, fragte sie.",
    "Das kostet 3,50 Euro. | Das ist billig.",
    "Siehe Abb. 3 und S. 12. | Dort steht es.",
    "Das war 1984. | Winston war müde.",
    "Prof. Dr. Schmidt ist da. | Hr. Maier nicht.",
    "Der 2. Weltkrieg war lang. | Viele starben.",
    "Ich weiß nicht … | Vielleicht doch.",
    "Wir wohnen in der Hauptstr. 12 am Mo. 9 Uhr, max. 5 Leute. | Er auch.",
]
FRENCH = [
    "M. Dupont et Mme. Durand sont là. | Ils parlent.",
    "« Viens ici ! » | Il est parti.",
    "« Pourquoi ? » demanda-t-elle. | Il se tut.",
    "Voir p. 12 et fig. 3. | C'est clair.",
    "Il a vécu au Ier s. av. J.-C. | On le sait.",
    "Ça coûte 3,50 euros. | C'est peu.",
    "Tél. 01 ou 02. | Il y a max. 10 chaises.",
    "Il y a des pommes, des poires, etc. | Le reste manque.",
    "C'est vrai… | Mais pourquoi ?",
    "Cf. art. 5 du code. | Il est clair.",
]
CASES = [("en", one) for one in ENGLISH] + [("de", one) for one in GERMAN] + [("fr", one) for one in FRENCH]


@pytest.mark.parametrize(("language", "marked"), CASES)
def test_sentences_end_where_people_end_them(language, marked):
    expected = marked.split(" | ")
    assert split_sentences(" ".join(expected), language) == expected


def test_scripts_without_capitals_split_at_their_own_marks():
    assert split_sentences("今日は晴れ。明日は雨！", "ja") == ["今日は晴れ。", "明日は雨！"]
    assert split_sentences("كيف حالك؟ أنا بخير.", "ar") == ["كيف حالك؟", "أنا بخير."]


@given(st.text(alphabet="aB1.!?…\"'»« \n)(*_。", max_size=80))
def test_spans_and_gaps_give_the_text_back(text):
    spans = sentence_spans(text, "en")
    between = gaps(text, spans)
    assert all(not gap.strip() for gap in between)
    sentences = [text[start:end] for start, end in spans]
    joined = "".join(gap + sentence for gap, sentence in zip(between, [*sentences, ""], strict=True))
    assert joined == text


@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, "A. " * 300_000, "." * 1_000_000, "» " * 300_000, "?" + " " * 500_000]
)
def test_time_grows_linearly(text):
    started = time.perf_counter()
    sentence_spans(text, "en")
    assert time.perf_counter() - started < 5
