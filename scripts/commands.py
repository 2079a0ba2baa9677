"""Writes docs/commands: a page for each command from its help; `--check` fails if one is out of date."""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import typer

from clearhead.cli import app

FOLDER = Path(__file__).parents[1] / "docs" / "commands"
# What stands below this line of a page is written by hand and kept.
NOTES = "<!-- notes: everything below is written by hand -->\n"


def pages() -> dict[str, str]:
    """The text of every page by its file name, without the notes."""
    commands = dict(_commands(typer.main.get_command(app), ()))
    made = {f"{'-'.join(name)}.md": _page(name, command) for name, command in commands.items()}
    lines = ["# Commands", "", "| command | does |", "|---|---|"]
    for name, command in commands.items():
        lines.append(f"| [`clearhead {' '.join(name)}`]({'-'.join(name)}.md) | {_summary(command)} |")
    lines += ["", "M is a model's folder or a built-in name; `clearhead models` lists them.", ""]
    return {"README.md": "\n".join(lines), **made}


def _commands(command: Any, name: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        return [(name, command)]
    return [found for key, one in inner.items() for found in _commands(one, (*name, key))]


def _summary(command: Any) -> str:
    return " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())


def _page(name: tuple[str, ...], command: Any) -> str:
    lines, examples = [f"# clearhead {' '.join(name)}", ""], []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        # A backspace keeps the line breaks of a paragraph in the help.
        if paragraph.startswith(("\b", "    ")):
            found = inspect.cleandoc(paragraph.removeprefix("\b").strip("\n")).splitlines()
            examples += [line.strip() for line in found if line.strip() not in ("", "Examples:")]
        else:
            lines += [" ".join(paragraph.split()), ""]
    if examples:
        lines += ["```bash", *examples, "```", ""]
    lines += ["| argument or option | meaning |", "|---|---|"]
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        lines.append(f"| `{_usage(parameter)}` | {_meaning(parameter)} |")
    return "\n".join(lines) + "\n\n"


def _usage(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return parameter.make_metavar() if not parameter.metavar else parameter.metavar
    flags = ", ".join(parameter.opts)
    if parameter.is_flag:
        return ", ".join((flags, *parameter.secondary_opts))
    return f"{flags} {parameter.metavar or parameter.type.name.upper()}"


def _meaning(parameter: Any) -> str:
    text = " ".join((getattr(parameter, "help", "") or "").split()).replace("|", r"\|")
    default = parameter.default
    if default in (None, False, True, "") or callable(default):
        return text
    return f"{text} Default: {default}."


def main() -> None:
    made, stale = pages(), []
    for name, text in made.items():
        path = FOLDER / name
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        notes = before.partition(NOTES)[2]
        text += NOTES + notes if notes else ""
        if text != before:
            stale.append(name)
            if "--check" not in sys.argv:
                FOLDER.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    stale += [path.name for path in FOLDER.glob("*.md") if path.name not in made]
    if stale and "--check" in sys.argv:
        sys.exit(f"docs/commands: {', '.join(stale)} out of date; run .venv/bin/python scripts/commands.py")


if __name__ == "__main__":
    main()
