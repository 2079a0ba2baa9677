"""Writes the tree of files, each with the first line of its docstring, into README.md and docs."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "clearhead"
PAGES = (ROOT / "README.md", ROOT / "docs" / "architecture.md")
BEGIN, END = "<!-- tree: written by scripts/tree.py -->\n", "<!-- end of tree -->"
# The house from the ground up.
ROOMS = (
    "text",
    "data",
    "accel",
    "layers",
    "models",
    "training",
    "decoding",
    "inspection",
    "evaluation",
    "interop",
    "tasks",
    "explorer",
    "cli",
)


def tree() -> str:
    """The files of the package by room, one line each."""
    lines = ["```text", "src/clearhead/"]
    top = [
        PACKAGE / f"{name}.py"
        for name in ("__init__", "__main__", "errors", "config", "files", "options", "checkpoint")
    ]
    lines += [_line(path, path.name, 1) for path in top]
    for room in ROOMS:
        lines += _room(PACKAGE / room, 1)
    lines.append("```")
    return "\n".join(lines) + "\n"


def _room(folder: Path, depth: int) -> list[str]:
    """A room's own line, those of its files, and of the rooms inside it."""
    files = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    inner = sorted(path.parent for path in folder.glob("*/__init__.py"))
    lines = [_line(folder / "__init__.py", f"{folder.name}/", depth)]
    lines += [_line(path, path.name, depth + 1) for path in files]
    return lines + [line for room in inner for line in _room(room, depth + 1)]


def with_tree(page: str) -> str:
    """A page with the tree between its marks brought up to date."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{tree()}{END}{after}"


def _line(path: Path, name: str, depth: int) -> str:
    said = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    return f"{'  ' * depth + name:<24}{said}"


def main() -> None:
    stale = [
        page
        for page in PAGES
        if with_tree(page.read_text(encoding="utf-8")) != page.read_text(encoding="utf-8")
    ]
    if "--check" in sys.argv:
        if stale:
            sys.exit(
                f"{', '.join(page.name for page in stale)}: the tree is out of date; run scripts/tree.py"
            )
        return
    for page in stale:
        page.write_text(with_tree(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
