"""The command line: one thin file per verb."""

import errno
import os
import sys

import typer

from clearhead.cli import data, evaluate, models, train, translate
from clearhead.errors import ClearheadError

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
app.command("translate")(translate.translate)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("models")(models.models)
app.add_typer(data.app, name="data")

# What the machine refuses and a person can change; anything else is a bug and deserves a traceback.
MENDABLE = {errno.EACCES, errno.EDQUOT, errno.EISDIR, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EROFS}


def main() -> None:
    """Runs a command; what the user can mend is said in a line each, and ends with 2."""
    try:
        app()
    except ClearheadError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"clearhead: {line}\n")
        sys.exit(2)
    except BrokenPipeError:
        # Whoever read our output has enough; Python would complain again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.errno not in MENDABLE:
            raise
        sys.stderr.write(f"clearhead: {error.filename or 'writing'}: {error.strerror}\n")
        sys.exit(2)
