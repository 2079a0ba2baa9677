"""Writes docs/settings.md: every setting of a recipe with its values, its default and what it is for."""

import sys
import typing
from pathlib import Path
from typing import Any, Literal

from clearhead.config import Settings
from clearhead.tasks.language.recipe import LanguageRecipe
from clearhead.tasks.translation.recipe import TranslationRecipe

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
HEAD = """# Settings

Everything that a recipe can say; each may also be given as `--set group.name=value`. Written by
`scripts/settings.py`. `[model] preset = "tiny"`, `"small"`, `"base"` or `"big"` stands for the settings of
that preset; settings beside it win.

"""


def page() -> str:
    kinds = {"a translator": TranslationRecipe, "a language model": LanguageRecipe}
    parts = [[f"# The recipe of {of}", "", *_group("", kind), ""] for of, kind in kinds.items()]
    return HEAD + "\n".join(line for part in parts for line in part).rstrip("\n") + "\n"


def _group(path: str, kind: type[Settings]) -> list[str]:
    """A table of the plain settings of a group, then the groups inside it."""
    said = (kind.__doc__ or "").strip().partition("\n\n")[0].replace("\n   ", "")
    lines = [f"## {path or 'recipe'}", "", *([said, ""] if said else [])]
    lines += ["| setting | values | default | |", "|---|---|---|---|"]
    inner: list[str] = []
    for name, field in kind.model_fields.items():
        groups = _groups(field.annotation)
        default = "" if field.is_required() else _shown(field.default)
        about = (field.description or "").replace("\n", " ")
        choices = [name for mark in field.metadata for name in getattr(mark, "names", ())]
        listed = ", ".join(f"`{name}`" for name in choices) or _values(field.annotation)
        values = "a group, see below" if groups else listed
        lines.append(f"| `{name}` | {values} | {'' if groups else default} | {about} |")
        for group in groups:
            tag = group.model_fields["kind"].default if "kind" in group.model_fields else None
            place = f"{path}.{name}" if path else name
            inner += ["", *_group(f"{place} = {tag}" if tag and len(groups) > 1 else place, group)]
    return lines + inner


def _groups(annotation: Any) -> list[type[Settings]]:
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    return [group for part in typing.get_args(annotation) for group in _groups(part)]


def _values(annotation: Any) -> str:
    if typing.get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in typing.get_args(annotation))
    parts = [part for part in typing.get_args(annotation) if part is not type(None)]
    names = {int: "whole number", float: "number", str: "text", bool: "`true`, `false`"}
    if annotation in names:
        return names[annotation]
    if typing.get_origin(annotation) is tuple:
        return "list"
    return next((_values(part) for part in parts), "")


def _shown(value: Any) -> str:
    if value is None or value == ():
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def main() -> None:
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
            sys.exit("docs/settings.md is out of date; run .venv/bin/python scripts/settings.py")
        return
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
