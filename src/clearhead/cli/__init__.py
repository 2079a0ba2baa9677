"""The command line: one thin file per verb."""

import errno
import os
import sys
import time
from typing import Annotated, Any

import typer

from clearhead import __version__
from clearhead.cli import (
    data,
    evaluate,
    explain,
    explore,
    export,
    generate,
    imports,
    models,
    train,
    translate,
)
from clearhead.cli.interrupt import INTERRUPTED, heeding
from clearhead.cli.options import put, rank
from clearhead.cli.usage import Command, refusal
from clearhead.errors import ClearheadError, RankError

EPILOG = "Every command has examples in its help: clearhead translate --help"

app = typer.Typer(
    name="clearhead",
    help="A Transformer you can see through and still put in production.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _put_version(wanted: bool) -> None:
    if wanted:
        put(f"clearhead {__version__}")
        raise typer.Exit


@app.callback()
def _before_every_command(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_put_version)
    ] = False,
) -> None: ...


app.command("translate", cls=Command)(translate.translate)
app.command("generate", cls=Command)(generate.generate)
app.command("explain", cls=Command)(explain.explain)
app.command("explore", cls=Command)(explore.explore)
app.command("train", cls=Command)(train.train)
app.command("evaluate", cls=Command)(evaluate.evaluate)
app.command("export", cls=Command)(export.export)
app.command("import", cls=Command)(imports.import_)
app.command("models", cls=Command)(models.models)
app.add_typer(data.app, name="data")

# What the machine refuses and a person can change; anything else is a bug and deserves a traceback.
MENDABLE = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
LET_RANK_0_SPEAK = 3.0
# Newer versions of typer bring their own copy of click: its errors can be named only from there.
UsageError: Any = typer.BadParameter.__base__


def main() -> None:
    """Runs a command; what the user can mend is said in a line each, and ends with 2."""
    # torch's threads wait for each other by spinning; where another program wants a core too, the usual count
    # makes training several times slower. Read when torch is imported, which the commands do.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        with heeding():
            sys.exit(app(prog_name="clearhead", standalone_mode=False))
    except UsageError as error:
        if message := refusal(error):
            command = error.ctx.command_path if error.ctx else "clearhead"
            sys.stderr.write(f"clearhead: {message} (see {command} --help)\n")
        sys.exit(2)
    except ClearheadError as error:
        if rank() and not isinstance(error, RankError):
            # Mostly rank 0 says the same, and torchrun ends this process before it has to.
            time.sleep(LET_RANK_0_SPEAK)
        for line in str(error).splitlines():
            sys.stderr.write(f"clearhead: {line}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("clearhead: interrupted; what was printed is whole\n")
        sys.exit(INTERRUPTED)
    except OSError as error:
        if error.errno not in MENDABLE:
            raise
        place = error.filename or "a file of this run"
        sys.stderr.write(f"clearhead: {place}: {error.strerror}; choose another place or make room there\n")
        sys.exit(2)
