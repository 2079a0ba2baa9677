"""A header is never a pair, its columns are found or named, and every dialect of CSV reads the same."""

import csv
import io
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import apply_overrides
from clearhead.data.pair import Pair
from clearhead.data.sources.columns import ColumnsError, language_of, named_languages
from clearhead.data.sources.corpus import languages_in, read_pairs
from clearhead.data.sources.headers import detect_header
from clearhead.data.sources.tables import guess_delimiter
from clearhead.errors import DataError

LANGUAGES = ("en", "de")
SENTENCES = [
    ("A man sleeps, alone.", "Ein Mann schläft, allein."),
    ('She said "no" twice.', "Sie sagte zweimal: nein."),
    ("It is late; go home.", "Es ist spät; geh nach Hause."),
    ("Two dogs run.", "Zwei Hunde rennen."),
    ("Where are you?", "Wo bist du?"),
    ("I am here.", "Ich bin hier."),
]
PAIRS = [Pair(*sides) for sides in SENTENCES]


def table(path: Path, header: tuple[str, ...], rows, **dialect) -> Path:
    stream = io.StringIO()
    writer = csv.writer(stream, **{"lineterminator": "\n", **dialect})
    writer.writerows([header, *rows] if header else rows)
    path.write_bytes(stream.getvalue().encode())
    return path


def numbered(*sides) -> list[tuple[str, ...]]:
    return [(str(number), *row) for number, row in enumerate(sides or SENTENCES, start=1)]


def problem(path: Path, languages=LANGUAGES) -> str:
    with pytest.raises(DataError) as caught:
        list(read_pairs(path, languages))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def columns_named_in(message: str) -> tuple:
    """The columns in the option that a message names, as the command line parses it."""
    option = message[message.index("--set ") :].split(", or if")[0]
    _, change = shlex.split(option)
    return tuple(apply_overrides({"data": {}}, [change])["data"]["columns"])


def test_an_unknown_header_is_refused_with_the_option_that_reads_it(tmp_path):
    path = table(tmp_path / "x.csv", ("id", "caption_a", "caption_b"), numbered())
    message = problem(path)
    assert message.startswith(f"{path}, line 1: which columns hold source and target is unclear; it has id, ")
    assert message.endswith("""name the columns: --set data.columns='["caption_a", "caption_b"]'""")
    assert list(read_pairs(path, LANGUAGES, columns_named_in(message))) == PAIRS


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
@pytest.mark.parametrize(
    "header",
    [("caption_a", "caption_b"), ("left", "right"), ("Text A", "Text B"), ("en", "fr"), ("english", "latin")],
)
def test_a_header_of_two_unknown_columns_is_no_pair(tmp_path, suffix, header):
    delimiter = {} if suffix == ".csv" else {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None}
    path = table(tmp_path / f"x{suffix}", header, SENTENCES, **delimiter)
    requested = columns_named_in(problem(path))
    assert requested == header
    assert list(read_pairs(path, LANGUAGES, requested)) == PAIRS


def test_a_row_of_single_words_may_be_a_pair_and_the_message_says_how(tmp_path):
    path = table(tmp_path / "x.tsv", ("Hi", "Hallo"), SENTENCES[3:] * 2, delimiter="\t")
    message = problem(path)
    assert message.endswith("or if this line is a pair: --set data.columns='[0, 1]'")
    assert next(read_pairs(path, LANGUAGES, (0, 1))) == Pair("Hi", "Hallo")


@pytest.mark.parametrize(
    "header",
    [
        ("EN", "DE"),
        ("English", "german"),
        ("source", "target"),
        ("Source", "Target"),
        ("src", "tgt"),
        ("source_text", "target_text"),
        ("en_US", "de_AT"),
        ("en-GB", "de-DE"),
        ("caption_en", "caption_de"),
        ("English text", "German text"),
        ("original", "translation"),
        ("prompt", "completion"),
        ("input", "output"),
    ],
)
def test_known_names_are_found_in_any_order_among_other_columns(tmp_path, header):
    path = table(tmp_path / "x.csv", ("id", *header), numbered())
    assert list(read_pairs(path, LANGUAGES)) == PAIRS
    swapped = [(target, number, source) for number, (source, target) in enumerate(SENTENCES)]
    path = table(tmp_path / "y.csv", (header[1], "n", header[0]), swapped)
    assert list(read_pairs(path, LANGUAGES)) == PAIRS


def test_a_known_header_is_no_pair_for_numbered_columns(tmp_path):
    for header in (("id", "en", "de"), ("id", "caption_a", "caption_b")):
        path = table(tmp_path / "x.csv", header, numbered())
        assert list(read_pairs(path, LANGUAGES, (1, 2))) == PAIRS


def test_an_index_column_without_a_name_is_skipped(tmp_path):
    assert list(read_pairs(table(tmp_path / "x.csv", ("", "en", "de"), numbered()), LANGUAGES)) == PAIRS
    assert columns_named_in(problem(table(tmp_path / "y.csv", ("", "a", "b"), numbered()))) == ("a", "b")


def test_further_columns_without_a_header_are_left_out(tmp_path):
    rows = [(*row, "CC-BY 2.0, by someone") for row in SENTENCES]
    path = table(tmp_path / "x.tsv", (), rows, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None)
    assert list(read_pairs(path, LANGUAGES)) == PAIRS


@pytest.mark.parametrize(
    ("row", "columns"),
    [(lambda n, s, t: (str(n), s, str(7 * n), t), (1, 3)), (lambda n, s, t: ("en", s, "de", t), (1, 3))],
)
def test_numbers_and_codes_are_not_taken_for_sentences(tmp_path, row, columns):
    rows = [row(number, *sides) for number, sides in enumerate(SENTENCES)]
    message = problem(table(tmp_path / "x.csv", (), rows))
    assert "the first two of 4 columns are not both sentences" in message
    assert columns_named_in(message) == columns
    assert list(read_pairs(tmp_path / "x.csv", LANGUAGES, columns)) == PAIRS


def test_a_dictionary_of_single_words_needs_no_header(tmp_path):
    words = [("dog", "Hund"), ("cat", "Katze"), ("house", "Haus"), ("tree", "Baum")] * 4
    path = table(tmp_path / "x.tsv", (), words, delimiter="\t")
    assert list(read_pairs(path, LANGUAGES)) == [Pair(*row) for row in words]


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_a_first_pair_of_single_words_is_one_above_phrases(tmp_path, suffix):
    words = [("dog", "Hund"), *((f"red {word}", f"das rote {word}") for word in ("car", "ice", "bed") * 4)]
    path = table(tmp_path / f"x{suffix}", (), words, delimiter="\t" if suffix == ".tsv" else ",")
    assert list(read_pairs(path, LANGUAGES)) == [Pair(*row) for row in words]


@pytest.mark.parametrize("header", [("Text", "Translation"), ("Deck", "answer"), ("first", "Latin")])
def test_a_usual_name_above_phrases_is_not_taken_for_a_pair(tmp_path, header):
    path = table(tmp_path / "x.csv", header, [("red car", "das rote Auto")] * 12)
    assert columns_named_in(problem(path)) == header


def test_a_first_pair_whose_words_are_in_the_sentences_below_is_one(tmp_path):
    sentences = [("I have a dog.", "Ich habe einen Hund."), *SENTENCES[3:] * 3]
    path = table(tmp_path / "x.csv", ("Dog", "Hund"), sentences)
    assert next(read_pairs(path, LANGUAGES)) == Pair("Dog", "Hund")
    path = table(tmp_path / "y.csv", ("dog", "Katze"), sentences)
    assert columns_named_in(problem(path)) == ("dog", "Katze")


def test_one_column_is_too_few(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("Hello there\nGood bye\n")
    assert problem(path) == f"{path}, line 1: 1 column where 2 are needed; separate them by commas"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", [(), ("source", "target")])
def test_the_delimiter_of_a_csv_is_recognised(tmp_path, delimiter, header):
    path = table(tmp_path / "x.csv", header, SENTENCES, delimiter=delimiter)
    assert list(read_pairs(path, LANGUAGES)) == PAIRS
    assert (
        list(read_pairs(table(tmp_path / "y.csv", header, SENTENCES, delimiter=delimiter), LANGUAGES))
        == PAIRS
    )


def test_commas_in_every_sentence_do_not_hide_the_semicolons(tmp_path):
    assert guess_delimiter(["Yes, I do.;Ja, doch.", "No, never.;Nein, nie."]) == ";"
    assert guess_delimiter(["a, b", "c, d"]) == ","
    assert guess_delimiter(['"a;b","c;d"', '"e;f","g;h"']) == ","


def test_the_first_line_may_name_the_delimiter_as_excel_does(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes("\ufeffsep=;\r\nen;de\r\nyes, a;ja, b\r\nno;nein;\r\n".encode())
    assert list(read_pairs(path, LANGUAGES)) == [Pair("yes, a", "ja, b"), Pair("no", "nein")]
    path.write_text("sep=;\nen;de\nyes\n")
    assert problem(path).startswith(f"{path}, line 3: 1 column where")


def test_the_languages_of_a_semicolon_csv_are_found(tmp_path):
    path = table(tmp_path / "x.csv", ("id", "caption_en", "caption_de"), numbered(), delimiter=";")
    assert languages_in(path) == ("en", "de")


def test_an_id_is_not_indonesian_beside_two_languages():
    assert named_languages(["id", "en", "cs"]) == ("en", "cs")
    assert named_languages(["id", "en"]) == ("id", "en")
    assert [language_of(name) for name in ("caption_a", "pt_BR", "the German", "text")] == [
        None,
        "pt",
        None,
        None,
    ]


def test_a_column_of_numbers_or_an_underscore_proves_a_header():
    assert detect_header(("stars", "words"), [("5", "good film")]) == "header"
    assert detect_header(("a_1", "b_1"), [("good film", "guter Film")]) == "header"
    assert detect_header(("5", "words"), [("5", "good film")]) == "data"
    assert detect_header(("same", "same"), [("1", "x")]) == "data"


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=20)


@given(
    pairs=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]),
    lineterminator=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_pairs_written_in_any_dialect_are_read_back(
    tmp_path_factory, pairs, delimiter, quoting, lineterminator, mark
):
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    dialect = {"delimiter": delimiter, "quoting": quoting, "lineterminator": lineterminator}
    table(path, ("source", "target"), pairs, **dialect)
    path.write_bytes(mark.encode() + path.read_bytes())
    assert [tuple(pair) for pair in read_pairs(path, LANGUAGES)] == pairs


@given(
    pairs=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
)
def test_quoted_pairs_are_read_back_without_a_header(tmp_path_factory, pairs, delimiter):
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    table(path, (), pairs, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    try:
        assert [tuple(pair) for pair in read_pairs(path, LANGUAGES)] == pairs
    except ColumnsError:
        assert [tuple(pair) for pair in read_pairs(path, LANGUAGES, (0, 1))] in (pairs, pairs[1:])
