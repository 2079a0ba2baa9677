"""The Python examples of the documentation run, one after the other, as a reader would run them."""

import re
from pathlib import Path

import pytest

from clearhead.layers.scores import SCORES
from clearhead.models import MODELS
from clearhead.tasks import TASKS

ROOT = Path(__file__).parents[1]


PAGES = (
    "README.md",
    "docs/python.md",
    "docs/pictures.md",
    "docs/ngrams.md",
    "docs/seq2seq.md",
    "docs/tokenizers.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    tables: list[dict] = [MODELS, SCORES, TASKS]  # examples add to them
    before = [dict(table) for table in tables]
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    try:
        exec(compile("\n".join(blocks), page, "exec"), {"__name__": "docs"})
    finally:
        for table, rows in zip(tables, before, strict=True):
            table.clear()
            table.update(rows)


def test_complete_examples_are_short():
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    code = [[line for line in block.splitlines() if line.strip()] for block in blocks]
    assert [len(lines) for lines in code if len(lines) > 20] == []
