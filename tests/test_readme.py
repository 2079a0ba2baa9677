"""README and the docs describe everything that exists, and nothing else."""

import re
from pathlib import Path

import clearhead
from clearhead.inspection import Mute, SetRow

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "clearhead"


def listed(page: str) -> dict[str, str]:
    """The paths that a page lists below src/clearhead, with what it says of each."""
    text = (ROOT / page).read_text(encoding="utf-8")
    _, _, tree = text.partition("src/clearhead/\n")
    found, rooms = {}, [""]
    for line in tree.partition("```")[0].splitlines():
        name, _, said = line.strip().partition(" ")
        depth = (len(line) - len(line.lstrip())) // 2
        path = "".join(rooms[:depth]) + name
        rooms[depth:] = [name] if name.endswith("/") else []
        found[path] = said.strip()
    return found


def modules() -> set[str]:
    return {
        str(path.relative_to(PACKAGE)).replace("/__init__.py", "/")
        for path in PACKAGE.rglob("*.py")
        if not any(part.startswith(".") for part in path.parts)
    }


def test_the_architecture_page_lists_every_file_of_the_package_with_a_line():
    files = listed("docs/architecture.md")
    assert files.keys() == modules()
    assert [path for path, line in files.items() if not line] == []


def test_readme_lists_every_folder_of_the_package_with_a_line():
    folders = listed("README.md")
    assert folders.keys() == {path for path in modules() if path.endswith("/")}
    assert [path for path, line in folders.items() if not line] == []


def test_every_file_that_readme_links_to_is_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []
    training = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    recipes = set(re.findall(r"recipes/[\w/-]+\.toml", text + training))
    assert recipes
    assert [recipe for recipe in recipes if not (ROOT / recipe).exists()] == []


def test_the_two_commands_are_named_and_made():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    made = (ROOT / "Makefile").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in text
        assert re.search(rf"^{command}:", made, re.MULTILINE)


def test_nothing_is_left_to_fill_in():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"@@\w+@@|TODO|FIXME", text) == []


def test_what_readme_does_in_python_can_be_done(number_model, built_in_model, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    # The toy has fewer heads.
    code = (
        "".join(blocks).replace("runs/quickstart", str(number_model)).replace("Mute([0, 1, 2])", "Mute([0])")
    )
    exec(compile(code, "README.md", "exec"), {})
    assert "torch.Size" in capsys.readouterr().out


def test_changes_do_what_readme_says_that_they_do(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    changes = re.findall(r"(with clearhead\.intervene\(.*:\n    print\(.*\))  # (.*) \(", text)
    model = clearhead.load("en-de")
    for code, _ in changes:
        exec(code, {"clearhead": clearhead, "model": model, "Mute": Mute, "SetRow": SetRow})
    assert len(changes) > 1
    assert capsys.readouterr().out.splitlines() == [said for _, said in changes]
