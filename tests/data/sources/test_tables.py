"""Every format gives the same pairs, and every problem of a file has a one-line message."""

import gzip
import json
import lzma
from pathlib import Path

import pyarrow
import pytest
import zstandard
from pyarrow import parquet

from clearhead.data.sources.corpus import Pair, corpus_hash, read_pairs, reader_name
from clearhead.data.sources.streams import lines
from clearhead.errors import DataError

LANGUAGES = ("en", "de")
ICONV = "(iconv -f UTF-16 -t UTF-8 OLD > NEW)"
PAIRS = [Pair("Hello.", "Hallo."), Pair('He said "no".', "Er sagte: nein, danke."), Pair("Über 2 €", "日本")]


def tsv(pairs=PAIRS) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def csv(pairs=PAIRS) -> str:
    return "".join(",".join('"' + side.replace('"', '""') + '"' for side in pair) + "\n" for pair in pairs)


def tmx(pairs=PAIRS) -> str:
    units = "".join(
        f'<tu><tuv xml:lang="en-US"><seg>{s}</seg></tuv><tuv xml:lang="DE"><seg>{t}</seg></tuv></tu>'
        for s, t in pairs
    )
    return f'<?xml version="1.0"?><tmx version="1.4"><body>{units}</body></tmx>'


def jsonl(names=("source", "target")) -> str:
    return "".join(json.dumps(dict(zip(names, pair, strict=True))) + "\n" for pair in PAIRS)


def array(names=("source", "target")) -> str:
    return json.dumps([dict(zip(names, pair, strict=True)) for pair in PAIRS], indent=1)


def po(pairs=PAIRS) -> str:
    header = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n'
    return header + "".join(f"\nmsgid {quoted(s)}\nmsgstr {quoted(t)}\n" for s, t in pairs)


def quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def xliff(pairs=PAIRS) -> str:
    units = "".join(
        f'<trans-unit id="{n}"><source>{s}</source><target>{t}</target></trans-unit>'
        for n, (s, t) in enumerate(pairs)
    )
    file = f'<file source-language="en-GB" target-language="de"><body>{units}</body></file>'
    return f'<?xml version="1.0"?><xliff version="1.2">{file}</xliff>'


def xliff_2(pairs=PAIRS) -> str:
    units = "".join(
        f'<unit id="u{n}"><segment><source>{s}</source><target>{t}</target></segment></unit>'
        for n, (s, t) in enumerate(pairs)
    )
    return f'<?xml version="1.0"?><xliff version="2.0" srcLang="en" trgLang="de"><file>{units}</file></xliff>'


TEXTS = {
    ".tsv": tsv(),
    ".txt": tsv(),
    ".csv": csv(),
    ".tmx": tmx(),
    ".jsonl": jsonl(),
    ".ndjson": array(),
    ".json": array(),
    ".po": po(),
    ".xlf": xliff(),
    ".xliff": xliff_2(),
}
COMPRESSORS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def problem(*arguments, **more) -> str:
    with pytest.raises(DataError) as caught:
        list(read_pairs(*arguments, **more))
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("compressor", COMPRESSORS)
@pytest.mark.parametrize("kind", TEXTS)
def test_every_format_gives_the_same_pairs_compressed_or_not(tmp_path, kind, compressor):
    path = written(tmp_path / f"pairs{kind}{compressor}", COMPRESSORS[compressor](TEXTS[kind].encode()))
    assert list(read_pairs(path, LANGUAGES)) == PAIRS


@pytest.mark.parametrize("kind", TEXTS)
def test_a_byte_order_mark_and_carriage_returns_change_nothing(tmp_path, kind):
    text = "\ufeff" + TEXTS[kind].replace("\n", "\r\n")
    assert list(read_pairs(written(tmp_path / f"pairs{kind}", text), LANGUAGES)) == PAIRS


def test_parquet_gives_the_same_pairs_from_columns_and_from_structs(tmp_path):
    columns = {"id": [1, 2, 3], "source": [p.source for p in PAIRS], "target": [p.target for p in PAIRS]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "flat.parquet")
    nested = {"translation": [{"en": p.source, "de": p.target} for p in PAIRS]}
    parquet.write_table(pyarrow.table(nested), tmp_path / "nested.parquet")
    assert list(read_pairs(tmp_path / "flat.parquet", LANGUAGES)) == PAIRS
    assert list(read_pairs(tmp_path / "nested.parquet", LANGUAGES)) == PAIRS
    assert list(read_pairs(tmp_path / "nested.parquet", ("de", "en"))) == [Pair(t, s) for s, t in PAIRS]


def test_missing_values_are_empty(tmp_path):
    expected = [Pair("a", "b"), Pair("", "c")]
    parquet.write_table(pyarrow.table({"en": ["a", None], "de": ["b", "c"]}), tmp_path / "x.parquet")
    assert list(read_pairs(tmp_path / "x.parquet", LANGUAGES)) == expected
    path = written(tmp_path / "x.jsonl", '{"en": "a", "de": "b"}\n{"en": null, "de": "c"}\n')
    assert list(read_pairs(path, LANGUAGES)) == expected
    nested = [{"en": "a", "de": "b"}, None]
    parquet.write_table(pyarrow.table({"translation": nested}), tmp_path / "y.parquet")
    assert list(read_pairs(tmp_path / "y.parquet", LANGUAGES)) == [Pair("a", "b"), Pair("", "")]


def test_dictionary_encoded_parquet_columns_are_text(tmp_path):
    column = pyarrow.array(["a", "b", "a"]).dictionary_encode()
    parquet.write_table(pyarrow.table({"en": column, "de": ["x", "y", "z"]}), tmp_path / "x.parquet")
    assert [pair.source for pair in read_pairs(tmp_path / "x.parquet", LANGUAGES)] == ["a", "b", "a"]


def test_aligned_files_may_have_any_suffix(tmp_path):
    source = written(tmp_path / "x.en", "".join(p.source + "\n" for p in PAIRS))
    target = written(tmp_path / "x.de.gz", gzip.compress("\n".join(p.target for p in PAIRS).encode()))
    assert list(read_pairs((source, target), LANGUAGES)) == PAIRS


def test_quotes_have_no_meaning_in_a_tsv(tmp_path):
    path = written(tmp_path / "x.tsv", '"Stop\t"Halt"\n')
    assert list(read_pairs(path, LANGUAGES)) == [Pair('"Stop', '"Halt"')]


def test_a_quoted_csv_field_may_hold_commas_and_line_ends(tmp_path):
    path = written(tmp_path / "x.csv", 'de,en\n"a, ""b""\nc",d\n')
    assert list(read_pairs(path, LANGUAGES)) == [Pair("d", 'a, "b"\nc')]


def test_columns_are_selected_by_index_name_or_convention(tmp_path):
    path = written(tmp_path / "x.tsv", "id\tgerman\tenglish\n1\tja\tyes\n")
    assert list(read_pairs(path, LANGUAGES, ("english", "german"))) == [Pair("yes", "ja")]
    assert list(read_pairs(path, LANGUAGES, (2, 1))) == [Pair("yes", "ja")]
    path = written(tmp_path / "y.tsv", "target\tsource\nja\tyes\n")
    assert list(read_pairs(path, LANGUAGES)) == [Pair("yes", "ja")]
    path = written(tmp_path / "z.jsonl", '{"translation": {"en": "yes", "de": "ja"}, "n": 1}\n')
    assert list(read_pairs(path, LANGUAGES)) == [Pair("yes", "ja")]
    assert list(read_pairs(path, LANGUAGES, ("translation.de", "translation.en"))) == [Pair("ja", "yes")]


def test_blank_lines_of_a_table_are_skipped(tmp_path):
    assert list(read_pairs(written(tmp_path / "x.tsv", "\na\tb\n\n"), LANGUAGES)) == [Pair("a", "b")]


def test_lines_keep_blank_ones_and_drop_line_ends(tmp_path):
    assert list(lines(written(tmp_path / "x.txt.gz", gzip.compress(b"a\r\n\r\nb")))) == ["a", "", "b"]


def test_reading_is_a_stream(tmp_path):
    path = written(tmp_path / "x.tsv", b"a\tb\n" * 300_000 + b"\xff\n")
    assert next(read_pairs(path, LANGUAGES)) == Pair("a", "b")


def test_the_hash_of_a_corpus_depends_on_its_content(tmp_path):
    first, second = written(tmp_path / "x.tsv", "a\tb\n"), written(tmp_path / "y.tsv", "a\tb\n")
    assert corpus_hash(first) == corpus_hash(second)
    assert corpus_hash(first) != corpus_hash(written(tmp_path / "z.tsv", "a\tc\n"))
    assert corpus_hash((first, second)) != corpus_hash(first)


def test_a_reader_is_named_by_the_suffixes(tmp_path):
    names = ["x.tsv", "x.csv", "x.tsv.gz", "x.tsv.XZ", "x.2014.jsonl"]
    assert [reader_name(tmp_path / name) for name in names] == [
        ".tsv",
        ".csv",
        ".tsv.gz",
        ".tsv.xz",
        ".jsonl",
    ]
    assert reader_name("tatoeba-en-de") == "shipped"
    compressed, plain = tmp_path / "x.en.gz", tmp_path / "x.de"
    assert reader_name((compressed, plain)) != reader_name((plain, compressed)) != reader_name((plain, plain))


def test_a_missing_file_an_empty_one_and_a_folder_are_named(tmp_path):
    assert problem(tmp_path / "no.tsv", LANGUAGES) == f"{tmp_path}/no.tsv: no such file"
    assert problem(tmp_path, LANGUAGES) == f"{tmp_path}: is a folder; name a file in it"
    assert problem((tmp_path, tmp_path), LANGUAGES) == f"{tmp_path}: is a folder; name a file in it"
    for kind in (".tsv", ".csv", ".jsonl", ".json", ".tmx", ".xlf", ".po", ".tsv.gz"):
        path = written(tmp_path / f"x{kind}", gzip.compress(b"") if kind.endswith(".gz") else b"")
        assert problem(path, LANGUAGES) == f"{path}: is empty; name another file"


def test_unequal_line_counts_are_both_reported(tmp_path):
    three, five = written(tmp_path / "a.en", "x\n" * 3), written(tmp_path / "a.de", "y\n" * 5)
    assert f"{three} has 3 lines but {five} has 5;" in problem((three, five), LANGUAGES)
    assert f"{five} has 5 lines but {three} has 3;" in problem((five, three), LANGUAGES)


def test_bytes_that_are_not_text_are_reported_with_their_line(tmp_path):
    path = written(tmp_path / "x.tsv", b"a\tb\nc\t\xe4\n")
    assert (
        problem(path, LANGUAGES)
        == f"{path}, line 2: not UTF-8 (byte 0xe4 at offset 6); save the file as UTF-8"
    )
    path = written(tmp_path / "y.tsv", b"a\tb\nc\0\td\n")
    assert f"{path}, line 2: contains NUL bytes" in problem(path, LANGUAGES)
    path = written(tmp_path / "z.tsv", "a\tb\n".encode("utf-16"))
    assert problem(path, LANGUAGES) == f"{path}: is UTF-16; save the file as UTF-8 {ICONV}"


def test_too_few_columns_are_reported_with_their_line(tmp_path):
    path = written(tmp_path / "x.tsv", "a\tb\nc d\n")
    assert problem(path, LANGUAGES) == f"{path}, line 2: 1 column where 2 are needed; separate them by tabs"
    path = written(tmp_path / "x.csv", 'a,b\n"c\nd",e\nf\n')
    assert problem(path, LANGUAGES) == f"{path}, line 4: 1 column where 2 are needed; separate them by commas"


def test_unbalanced_quotes_are_reported_with_their_line(tmp_path):
    path = written(tmp_path / "x.csv", 'a,b\n"c,d\n')
    assert f"{path}, line 2: not valid CSV" in problem(path, LANGUAGES)


def test_a_missing_column_is_reported_with_the_existing_ones(tmp_path):
    path = written(tmp_path / "x.tsv", "german\tenglish\nja\tyes\n")
    assert problem(path, LANGUAGES, ("english", "french")) == (
        f"{path}, line 1: no column 'french'; it has german, english"
    )
    path = written(tmp_path / "x.jsonl", '{"source": "a", "target": "b"}\n{"source": "a", "goal": "b"}\n')
    assert problem(path, LANGUAGES) == f"{path}, line 2: no field 'target'; it has source, goal"
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table({"a": ["x"], "n": [1]}), path)
    assert problem(path, LANGUAGES, ("a", "b")) == f"{path}: no column 'b'; it has a, n"
    assert problem(path, LANGUAGES, ("a", "n")) == f"{path}: column 'n' holds int64, not text"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"n": ', "not valid JSON (Expecting value); fix or remove the line"),
        ('{"n": ' + "1" * 5000 + "}", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1]", "expected a JSON object, got list"),
        ('{"source": 3, "target": "b"}', "field 'source' is 3, not text"),
    ],
)
def test_invalid_json_is_reported_with_its_line(tmp_path, line, reason):
    path = written(tmp_path / "x.jsonl", '{"source": "a", "target": "b"}\n' + line)
    assert f"{path}, line 2: {reason}" in problem(path, LANGUAGES)


@pytest.mark.parametrize("compressor", [".gz", ".xz", ".zst"])
def test_a_truncated_or_uncompressed_file_is_rejected(tmp_path, compressor):
    text = "".join(f"{number * 7919 % 10007}\t{number * 104729 % 10009}\n" for number in range(20_000))
    compressed = COMPRESSORS[compressor](text.encode())
    path = written(tmp_path / f"x.tsv{compressor}", compressed[: len(compressed) // 2])
    assert f"{path}: cut short or not a {compressor} file" in problem(path, LANGUAGES)
    path = written(tmp_path / f"y.tsv{compressor}", b"a\tb\n")
    assert f"{path}: cut short or not a {compressor} file" in problem(path, LANGUAGES)


def test_several_zstandard_frames_are_one_file(tmp_path):
    frames = zstandard.compress(b"a\tb\n") + zstandard.compress(b"c\td\n")
    assert len(list(read_pairs(written(tmp_path / "x.tsv.zst", frames), LANGUAGES))) == 2


def test_a_file_that_is_not_parquet_is_rejected(tmp_path):
    path = written(tmp_path / "x.parquet", "a\tb\n")
    assert f"{path}: cut short or not a Parquet file" in problem(path, LANGUAGES)
    assert problem(tmp_path / "no.parquet", LANGUAGES) == f"{tmp_path}/no.parquet: no such file"


def test_an_unknown_suffix_lists_the_known_ones(tmp_path):
    message = problem(written(tmp_path / "x.doc", "a"), LANGUAGES)
    assert f"{tmp_path}/x.doc: unknown suffix '.doc'; use one of .tsv, .txt, .csv, .jsonl" in message
    assert message.endswith("or give two aligned files")
