"""clearhead tune: a trained model, fine-tuned on files of your own."""

import logging
from pathlib import Path
from typing import Annotated

from clearhead.cli.console import rank
from clearhead.cli.options import (
    MODEL_HELP,
    Json,
    LabelsList,
    PairsList,
    QuestionsList,
    Texts,
    argument,
    option,
)
from clearhead.cli.progress import FileProgress
from clearhead.cli.train import show_run, sized_recipe
from clearhead.errors import ModelError, SettingsError
from clearhead.files import check_folder

TUNED_WITH = {
    "translation": {"--pairs": "--pairs"},
    "language": {"--text": "--text"},
    "masked": {"--text": "--masked", "--labels": "--labels", "--questions": "--questions"},
    "classification": {"--labels": "--labels"},
    "question_answering": {"--questions": "--questions"},
}
"""The options that a model of each task is fine-tuned with, and the option of `train` that sizes the run."""


def tune(
    model: Annotated[str | None, argument(MODEL_HELP, "MODEL")] = None,
    out: Annotated[Path | None, option("Folder for the fine-tuned model.", "DIR")] = None,
    pairs: PairsList = None,
    text: Texts = None,
    labels: LabelsList = None,
    questions: QuestionsList = None,
    source: Annotated[str | None, option("Source language of the pairs.", "LANG", name="--from")] = None,
    target: Annotated[str | None, option("Target language of the pairs.", "LANG", name="--to")] = None,
    mix: Annotated[float | None, option("Share of pairs from the data of MODEL (0 to 1).", "SHARE")] = None,
    overrides: Annotated[list[str] | None, option("Override a setting.", "NAME=VALUE", name="--set")] = None,
    resume: Annotated[bool, option("Continue the run in --out.", name="--resume")] = False,
    json: Json = False,
) -> None:
    """Fine-tune a trained model on your own files.

    Keeps the model's architecture, and trains it for a short time at a low learning rate that falls to zero;
    stops early if validation gets worse. At the end, a table shows the scores before and after, on the test
    set of the new data and on that of the original model. --set changes any setting, as for train.

    \b
    Examples:
      clearhead tune en-fr --pairs captions.en-fr.tsv --out runs/captions
      clearhead tune en-fr --pairs train.en,train.fr --out runs/captions
      clearhead tune en-fr --pairs my.en-fr.tsv --mix 0.2 --out runs/captions
      clearhead tune runs/mine --pairs more.en-de.tsv --out runs/more
      clearhead tune shakespeare --text marlowe.txt --out runs/marlowe
      clearhead tune --resume --out runs/captions
    """
    logging.basicConfig(level=logging.ERROR if rank() else logging.WARNING, format="%(message)s")
    given = {"--pairs": pairs, "--text": text, "--labels": labels, "--questions": questions}
    options, progress = [name for name, files in given.items() if files], FileProgress()
    if out is None:
        raise SettingsError("--out: is missing; pass a folder for the model, for example --out runs/mine")
    check_folder(out)
    from clearhead.tasks import run

    if resume:
        if model or options:
            raise SettingsError(f"--resume: uses the run saved in --out; omit {' '.join(options) or model}")
        show_run(run.resume(out, overrides or [], progress), progress, out, json)
        return
    if model is None:
        raise SettingsError("MODEL: is missing; name the model to start from, for example en-fr")
    if (source or target) and not pairs:
        raise SettingsError("--from and --to: need --pairs")
    if mix is not None and not pairs:
        raise SettingsError("--mix: needs --pairs")
    sized_as = _check_parent(model, options, out)
    run.check_new_run(out)  # before sizing, which may read large files
    mixed = [] if mix is None else [f"data.mix={mix}"]
    changes = [f'training.init_from="{model}"', *mixed, *(overrides or [])]
    recipe = sized_recipe({sized_as: given[options[0]]}, (source, target), changes)
    show_run(run.train(recipe, out, progress), progress, out, json)


def _check_parent(model: str, options: list[str], out: Path) -> str:
    """The option of `train` for the files; raises an error unless the model can be fine-tuned on them."""
    from clearhead.checkpoint import SETTINGS, check_model_folder, stored_parameters
    from clearhead.config import read_toml
    from clearhead.tasks import TASKS
    from clearhead.tasks.zoo import find, task_of

    folder, _ = find(model)
    check_model_folder(folder)
    stored_parameters(folder)
    task = task_of(read_toml(folder / SETTINGS))
    allowed = TUNED_WITH.get(task, {})
    if not allowed:
        raise ModelError(f"{model}: this model {TASKS[task].does}; fine-tuning is not available for its kind")
    if len(options) != 1 or options[0] not in allowed:
        raise SettingsError(
            f"{' and '.join(options) or 'tune'}: {model} {TASKS[task].does}; fine-tune it with "
            f"{' or '.join(f'{name} FILE' for name in allowed)}"
        )
    if out.resolve() == folder.resolve():
        raise SettingsError(f"--out {out}: is the folder of the model itself; choose another folder")
    return allowed[options[0]]
