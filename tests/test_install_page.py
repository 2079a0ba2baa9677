"""The installation page names every extra and every variable of the environment."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_every_extra_is_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    rows = dict(re.findall(r"^\| `pip install '\.\[(\w+)\]'` \| (.*?) \|", PAGE, re.MULTILINE))
    assert rows.keys() == extras.keys()
    for extra in ("bags", "bench"):
        assert rows[extra].split(", ") == [re.split(r"\W*[>=]", one)[0] for one in extras[extra]]


def test_every_environment_variable_is_explained():
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    used = {name for source in sources for name in re.findall(r"\bCLEARHEAD_[A-Z]+\b", source)}
    assert used == set(re.findall(r"^\| `(CLEARHEAD_[A-Z]+)` \|", PAGE, re.MULTILINE))
