"""Writes the folders into README.md and all files into docs/architecture.md, with one line for each."""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "clearhead"
END = "<!-- end -->"
# From the ground floor up, as the import contract has it; a folder that is missing here comes last.
ORDER = (
    *(
        "errors.py",
        "retired.py",
        "wording.py",
        "config.py",
        "files.py",
        "options.py",
        "assets",
        "text",
        "accel",
        "data",
        "layers",
    ),
    *("models", "checkpoint.py", "training", "decoding", "inspection", "evaluation", "interop"),
    *("tasks", "explorer", "serving", "cli", "__init__.py", "__main__.py"),
)


def folders() -> str:
    """The folders of the package with the first line of their docstrings."""
    rooms = [path for path in _contents(PACKAGE) if path.is_dir()]
    inner = [(room, path) for room in rooms for path in (room, *filter(Path.is_dir, _contents(room)))]
    return _block(_line(path, 1 + (path != room)) for room, path in inner)


def files() -> str:
    """All modules of the package with the first line of their docstrings."""
    return _block(_tree(PACKAGE, 1))


PAGES = {
    ROOT / "README.md": ("<!-- folders -->\n", folders),
    ROOT / "docs" / "architecture.md": ("<!-- tree -->\n", files),
}


def updated(page: Path) -> str:
    """The text of a page with its list brought up to date."""
    start, content = PAGES[page]
    before, found, rest = page.read_text(encoding="utf-8").partition(start)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        sys.exit(f"{page.name}: lacks {start.strip()} … {END}, between which scripts/tree.py writes")
    return f"{before}{start}{content()}{END}{after}"


def _tree(folder: Path, depth: int) -> Iterator[str]:
    for path in _contents(folder):
        yield _line(path, depth)
        if path.is_dir():
            yield from _tree(path, depth + 1)


def _contents(folder: Path) -> list[Path]:
    """Modules and subpackages: in the order of the floors at the top, elsewhere files first, by name."""
    modules = [path for path in folder.glob("*.py") if folder == PACKAGE or path.name != "__init__.py"]
    paths = sorted(modules) + sorted(path.parent for path in folder.glob("*/__init__.py"))
    if folder != PACKAGE:
        return paths
    return sorted(paths, key=lambda path: ORDER.index(path.name) if path.name in ORDER else len(ORDER))


def _line(path: Path, depth: int) -> str:
    module = path / "__init__.py" if path.is_dir() else path
    summary = (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    name = f"{path.name}/" if path.is_dir() else path.name
    return f"{'  ' * depth + name:<27} {summary}"


def _block(lines: Iterable[str]) -> str:
    return "\n".join(["```text", "src/clearhead/", *lines, "```"]) + "\n"


def main() -> None:
    stale = {page: text for page in PAGES if (text := updated(page)) != page.read_text(encoding="utf-8")}
    if "--check" in sys.argv:
        if stale:
            names = ", ".join(page.name for page in stale)
            sys.exit(f"{names}: out of date; run .venv/bin/python scripts/tree.py")
        return
    for page, text in stale.items():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
