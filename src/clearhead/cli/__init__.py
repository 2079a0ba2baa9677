"""The command line: one thin file per command."""

import errno
import os
import re
import sys
import time
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from clearhead import __version__
from clearhead.cli import (
    answer,
    bench,
    cache,
    caption,
    classify,
    data,
    evaluate,
    explain,
    explore,
    export,
    fill,
    generate,
    imports,
    models,
    neighbours,
    recipes,
    shortlist,
    train,
    translate,
    tune,
)
from clearhead.cli.console import discard_output, output_closed, print_result, rank
from clearhead.cli.interrupt import INTERRUPTED, handle_sigint
from clearhead.cli.options import argument
from clearhead.errors import ClearheadError, RankError

DISK_FULL = {errno.EDQUOT, errno.ENOSPC}
BAD_PATH = {errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS}
"""Errors of the operating system that a user can fix; all others are bugs and print a traceback."""
RANK_0_HEAD_START = 3.0
"""Seconds by which other ranks delay an error that rank 0 most likely reports too."""
COMPLETION = "_CLEARHEAD_COMPLETE"
"""Set by the shell while it completes a command line."""
# Newer versions of typer vendor click, so its base class for errors is reachable only from typer's own.
UsageError: Any = typer.BadParameter.__base__


class Command(TyperCommand):
    """A command whose errors name options as users write them: --top-p, not top_p."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ClearheadError as error:
            options = {str(param.name): _option(param) for param in self.params}
            error.args = ("\n".join(_rename(line, options) for line in str(error).splitlines()),)
            raise


# Without rich's boxes, help fits 80 columns and starts faster.
app = typer.Typer(
    name="clearhead",
    help="A Transformer you can see through and still put in production.",
    epilog="Each command has examples in its help: clearhead help translate",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        print_result(f"clearhead {__version__}")
        raise typer.Exit


@app.callback()
def _callback(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None: ...


def _names(ctx: typer.Context) -> list[str]:
    """The commands of the program, or of the group named before."""
    group: Any = ctx.find_root().command
    for name in ctx.params.get("commands") or ():
        group = getattr(group, "commands", {}).get(name)
    return list(getattr(group, "commands", ()))


app.command("translate", cls=Command)(translate.translate)
app.command("generate", cls=Command)(generate.generate)
app.command("neighbours", cls=Command)(neighbours.neighbours)
app.command("classify", cls=Command)(classify.classify)
app.command("fill", cls=Command)(fill.fill)
app.command("answer", cls=Command)(answer.answer)
app.command("caption", cls=Command)(caption.caption)
app.command("explain", cls=Command)(explain.explain)
app.command("explore", cls=Command)(explore.explore)
app.command("train", cls=Command)(train.train)
app.command("tune", cls=Command)(tune.tune)
app.command("evaluate", cls=Command)(evaluate.evaluate)
app.command("bench", cls=Command)(bench.bench)
app.command("shortlist", cls=Command)(shortlist.shortlist)
app.command("export", cls=Command)(export.export)
app.command("import", cls=Command)(imports.import_)
app.command("models", cls=Command)(models.models)
app.command("recipes", cls=Command)(recipes.recipes)
app.add_typer(data.app, name="data")
app.command("cache", cls=Command)(cache.cache)


@app.command("help", cls=Command)
def help_(
    commands: Annotated[
        list[str] | None,
        argument("Command to explain; default: list all.", "COMMAND", autocompletion=_names),
    ] = None,
) -> None:
    """Show the help of a command.

    \b
    Examples:
      clearhead help
      clearhead help train
      clearhead help data get
    """
    raise typer.Exit(_run([*(commands or []), "--help"]))


def main() -> None:
    """Run a command and exit: 0 success, 2 user error (one line per problem), 1 bug (traceback)."""
    # torch's threads spin while they wait for each other; with the default count, training slows down several
    # times when another program needs a core. Must be set before torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    # A stream that the shell has closed (>&-) is None.
    sys.stdout, sys.stderr = (
        stream or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w") for stream in (sys.stdout, sys.stderr)
    )
    try:
        with handle_sigint():
            sys.exit(_run(sys.argv[1:]))
    except UsageError as error:
        sys.stderr.write(_usage_message(error))
        sys.exit(2)
    except ClearheadError as error:
        if rank() and not isinstance(error, RankError):
            time.sleep(RANK_0_HEAD_START)  # torchrun ends this process when rank 0 has failed
        sys.stderr.writelines(f"clearhead: {line}\n" for line in str(error).splitlines())
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("clearhead: interrupted; all printed lines are complete\n")
        sys.exit(INTERRUPTED)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and output_closed():
            discard_output()
            sys.exit(0)
        if error.errno not in DISK_FULL | BAD_PATH:
            raise
        fix = "free some space" if error.errno in DISK_FULL else "choose another path"
        sys.stderr.write(f"clearhead: {error.filename or 'a file of this run'}: {error.strerror}; {fix}\n")
        sys.exit(2)


def _run(arguments: list[str]) -> int:
    """The exit code of a command; click's own `main` would turn a closed pipe into code 1."""
    command = typer.main.get_command(app)
    if COMPLETION in os.environ:
        command.main(prog_name="clearhead")  # prints what the shell offers, and exits
    try:
        with command.make_context("clearhead", arguments) as context:
            command.invoke(context)
    except typer.Exit as exit_:
        return exit_.exit_code
    return 0


def _usage_message(error: Any) -> str:
    """Why the arguments are invalid; for a group without a command, its help."""
    message = error.format_message()
    if message.startswith("Usage:"):
        return f"{message}\n"
    if error.__cause__ is not None and getattr(error, "param", None):
        from pydantic import ValidationError

        from clearhead.config import describe

        if isinstance(error.__cause__, ValidationError):
            # typer's message leaves out the value.
            message = f"{_option(error.param)}: {describe(error.__cause__.errors()[0])}"
    command = error.ctx.command_path if error.ctx else "clearhead"
    return f"clearhead: {' '.join(message.split())} (see {command} --help)\n"


def _option(param: Any) -> str:
    """The first long name of an option, or the name of an argument."""
    return next((name for name in param.opts if name.startswith("--")), param.opts[0])


def _rename(problem: str, options: dict[str, str]) -> str:
    """A problem that starts with a parameter, and maybe its value, with the option of that parameter."""
    return re.sub(r"^(\w+)(?=(?: \S+)?: )", lambda name: options.get(name[1], name[1]), problem)
