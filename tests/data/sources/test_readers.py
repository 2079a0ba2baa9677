"""A row in READERS is all that a new file type needs."""

import subprocess
import sys

from clearhead.data.pair import Pair
from clearhead.data.sources import READERS, Reader
from clearhead.data.sources.corpus import languages_in, read_pairs
from clearhead.data.sources.documents import files, read_documents
from clearhead.data.sources.plain_text import TextChunk


def test_a_new_row_reads_pairs_documents_and_languages(tmp_path, monkeypatch):
    reader = Reader(
        pairs=lambda path, languages, columns: iter([Pair(*path.read_text().split("="))]),
        documents=lambda path, field: iter([TextChunk(path.read_text().upper(), last=True)]),
        languages=lambda path: ("en", "fr"),
    )
    monkeypatch.setitem(READERS, ".eq", reader)
    (tmp_path / "a.eq").write_text("yes=oui")
    assert list(read_pairs(tmp_path / "a.eq", ("en", "fr"))) == [Pair("yes", "oui")]
    assert files(tmp_path) == [tmp_path / "a.eq"]
    assert [chunk.text for chunk in read_documents([tmp_path])] == ["YES=OUI"]
    assert languages_in(tmp_path / "a.eq") == ("en", "fr")


def test_pyarrow_is_imported_only_for_parquet():
    program = "import sys, clearhead.data.sources; print('pyarrow' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
