"""The languages that a file itself names need not be given."""

import gzip
from pathlib import Path

import pytest

from clearhead.data.sources.corpus import languages_in

TMX = """<tmx><body><tu>
<tuv xml:lang="fr-CA"><seg>a</seg></tuv><tuv xml:lang="EN"><seg>b</seg></tuv>
</tu></body></tmx>"""


@pytest.mark.parametrize(
    ("name", "content", "languages"),
    [
        ("a.tsv", "de\ten\nja\tyes\n", ("de", "en")),
        ("a.csv", '"English","German"\nyes,ja\n', ("en", "de")),
        ("a.jsonl", '{"fr": "oui", "en": "yes"}\n', ("fr", "en")),
        ("a.jsonl", '{"translation": {"fr": "oui", "en": "yes"}}\n', ("fr", "en")),
        ("a.tmx", TMX, ("fr", "en")),
        ("a.tsv", "yes\tja\n", None),
        ("a.tsv", "id\ten\tde\tfr\n", None),
        ("a.jsonl", "no JSON\n", None),
    ],
)
def test_the_languages_that_a_file_names_are_found(tmp_path: Path, name, content, languages):
    (tmp_path / name).write_text(content)
    with gzip.open(tmp_path / f"{name}.gz", "wt") as compressed:
        compressed.write(content)
    assert languages_in(tmp_path / name) == languages
    assert languages_in(tmp_path / f"{name}.gz") == languages
