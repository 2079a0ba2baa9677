"""Several processes train one model as one process would, and survive each other."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from clearhead.config import read_settings
from clearhead.errors import TrainingError
from clearhead.tasks.events import Event, Note
from clearhead.tasks.recipes import read_recipe
from clearhead.tasks.run import resume, train
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.training.tensors import read_tree

SCRIPT = Path(__file__).with_name("run_in_ranks.py")
SETTINGS = [
    "training.steps=16",
    "training.report_every=1",
    "training.validate_every=8",
]
# States of shards are what takes longest here: only runs that are spoilt or killed have more than they need.
OFTEN = ["training.save_every=3"]
KINDS = ("data_parallel", "fsdp")
LAYOUTS = {
    "padded": [],
    "packed": ['batches.kind="packed"', "batches.row_length=24", "training.ema_decay=0.9"],
}
DROPOUT = ["model.dropout=0.3"]


def in_two_ranks(*runs: dict) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        SCRIPT,
        json.dumps(runs),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def training(folder: Path, name: str, *changes: str, recipe: str = "recipe.toml", **disturbance: int) -> dict:
    settings = [word for change in [*SETTINGS, *changes] for word in ("--set", change)]
    return {
        "command": ["train", str(folder / recipe), "--out", str(folder / name), *settings],
        **disturbance,
    }


def resuming(folder: Path, name: str) -> dict:
    return {"command": ["train", "--resume", "--out", str(folder / name)]}


def notes(events: Iterable[Event]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, Note))


def curve(out: Path) -> list[dict[str, float]]:
    """Everything that was measured at each step but times."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    left_out = ("seconds", "tokens_per_second", "kind")
    return [{name: value for name, value in line.items() if name not in left_out} for line in lines]


def assert_same_curve(first: Path, second: Path) -> None:
    for one, other in zip(curve(first), curve(second), strict=True):
        assert one == pytest.approx(other, rel=1e-5, abs=1e-5)


def text_recipe(folder: Path) -> Path:
    """Writes documents and the recipe of a language model for them."""
    documents = [{"text": f"{number} and one is {number + 1}."} for number in range(300)]
    (folder / "text.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    (folder / "text.toml").write_text(TEXT.format(folder=folder))
    return folder / "text.toml"


TEXT = """
kind = "language"
data = {{ train = ["{folder}/text.jsonl"] }}
tokenizer = {{ kind = "character", vocabulary = 60 }}
batches = {{ tokens = 256 }}
training = {{ device = "cpu", optimizer = {{ kind = "adamw" }} }}

[model]
preset = "shakespeare-small"
width = 16
ffn_width = 32
layers = 1
attention = {{ heads = 2 }}
max_length = 32
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, number_recipe) -> Path:
    """Holds a recipe, and runs of it: by one process, and by two in all kinds of ways."""
    folder = tmp_path_factory.mktemp("ranks")
    recipe = number_recipe(folder)
    for layout, changes in LAYOUTS.items():
        settings = [*SETTINGS, *changes, "training.accumulate=2"]
        for _ in train(read_settings(TranslationRecipe, recipe, settings), folder / f"{layout} alone"):
            pass
    writing = text_recipe(folder)
    for _ in train(read_recipe(writing, [*SETTINGS, "training.accumulate=2"]), folder / "text alone"):
        pass
    ctrl_c = {"signal": signal.SIGINT, "rank": 1, "step": 10}
    shards = ['training.parallel="fsdp"']
    ended = in_two_ranks(
        *(
            training(folder, f"{layout} {kind}", *changes, f'training.parallel="{kind}"')
            for layout, changes in LAYOUTS.items()
            for kind in KINDS
        ),
        *(
            training(folder, f"text {kind}", f'training.parallel="{kind}"', recipe=writing.name)
            for kind in KINDS
        ),
        training(folder, "undisturbed", *DROPOUT),
        training(folder, "interrupted", *DROPOUT, **ctrl_c),
        resuming(folder, "interrupted"),
        training(folder, "undisturbed shards", *DROPOUT, *shards),
        training(folder, "interrupted shards", *DROPOUT, *shards, **ctrl_c),
        resuming(folder, "interrupted shards"),
        training(folder, "begun", *shards, *OFTEN, **ctrl_c),
        training(folder, "killed", *OFTEN, signal=signal.SIGKILL, rank=1, step=10),
    )
    codes = [line for line in ended.stdout.splitlines() if line.startswith("status")]
    wanted = (0, 0, 0, 0, 0, 0, 0, 130, 0, 0, 130, 0, 130)
    assert codes[:13] == [f"status {code}" for code in wanted], ended.stderr
    assert ended.returncode == 1
    (folder / "talk").write_text(ended.stderr)
    return folder


@pytest.mark.parametrize("layout", [*LAYOUTS, "text"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_give_the_curve_of_one(folder, layout, kind):
    assert len(curve(folder / f"{layout} alone")) == 16 + 2 + 1
    assert_same_curve(folder / f"{layout} alone", folder / f"{layout} {kind}")


def test_only_rank_0_talks(folder):
    said = (folder / "talk").read_text().splitlines()
    assert said.count("ranks: 2, each with a copy of the model; a step takes 2 batches of all") == 7
    assert said.count("ranks: 2, each with a shard of the model; a step takes 2 batches of all") == 7
    assert sum(line.startswith("stopped after step 11 and saved") for line in said) == 3


@pytest.mark.parametrize("name", ["", " shards"])
def test_ctrl_c_in_one_rank_stops_all_and_the_resumed_run_is_the_undisturbed_one(folder, name):
    first, second = folder / f"undisturbed{name}", folder / f"interrupted{name}"
    assert curve(first) == curve(second)
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


def test_every_rank_has_random_numbers_of_its_own(folder):
    random = read_tree(folder / "undisturbed" / "training" / "state-00000016.safetensors")["random"]
    assert random.keys() == {"0", "1"}
    assert not torch.equal(random["0"]["torch"], random["1"]["torch"])


def group_of_one(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_that_the_caller_has_made_is_used_and_left_as_it_is(folder, tmp_path, monkeypatch, kind):
    settings = [*SETTINGS, f'training.parallel="{kind}"', "training.accumulate=2"]
    recipe = read_settings(TranslationRecipe, folder / "recipe.toml", settings)
    group_of_one("gloo", monkeypatch)
    try:
        notes(train(recipe, tmp_path / "run"))
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()
    assert_same_curve(folder / "padded alone", tmp_path / "run")
    assert (tmp_path / "run" / "training" / "state-00000016").is_dir() == (kind == "fsdp")


@pytest.mark.gpu
def test_a_gpu_gives_the_same_curve_in_a_group(tmp_path, number_recipe, monkeypatch):
    path = number_recipe(tmp_path)
    settings = [*SETTINGS, 'training.device="cuda"', 'training.precision="fp32"', *LAYOUTS["packed"]]
    notes(train(read_settings(TranslationRecipe, path, settings), tmp_path / "alone"))
    group_of_one("nccl", monkeypatch)
    try:
        for kind in KINDS:
            chosen = read_settings(TranslationRecipe, path, [*settings, f'training.parallel="{kind}"'])
            notes(train(chosen, tmp_path / kind))
            notes(resume(tmp_path / kind, ["training.steps=18"]))
    finally:
        dist.destroy_process_group()
    alone = [line["loss"] for line in curve(tmp_path / "alone")][:16]
    for kind in KINDS:
        assert [line["loss"] for line in curve(tmp_path / kind)][:16] == pytest.approx(alone, rel=1e-3)


@pytest.fixture
def begun(folder, tmp_path) -> Path:
    """A run of two ranks with shards that was interrupted; its states are those of steps 9 and 11."""
    return Path(shutil.copytree(folder / "begun", tmp_path / "begun"))


def test_what_two_ranks_saved_in_shards_goes_on_in_one_process(folder, begun):
    told = notes(resume(begun))
    assert "resumed after step 11; saved by 2 ranks, going on with 1: new random numbers" in told
    assert_same_curve(folder / "padded alone", begun)


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def shards(state: Path) -> list[Path]:
    files = sorted(state.glob("*.safetensors"))
    assert len(files) == 2
    return files


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


SPOILS = {
    "missing; the state is in 2 files, one a rank": lambda state: shards(state)[1].unlink(),
    "damaged, its checksum does not fit its content": lambda state: spoil(shards(state)[0]),
    "missing; nothing says which files belong": lambda state: (state / "manifest.json").unlink(),
    "cut short or not a manifest": lambda state: os.truncate(state / "manifest.json", 100),
    "does not belong there": lambda state: shutil.copy(shards(state)[0], state / "shard-3.safetensors"),
}


@pytest.mark.parametrize("said", SPOILS)
def test_a_state_with_a_spoilt_shard_is_set_aside_and_the_one_before_is_taken(folder, begun, caplog, said):
    SPOILS[said](begun / "training" / "state-00000011")
    assert "resumed after step 9;" in notes(resume(begun))
    (warning,) = warnings(caplog)
    assert said in warning
    assert warning.endswith("; falling back to the state before")
    assert (begun / "training" / "state-00000011.broken").is_dir()
    assert_same_curve(folder / "padded alone", begun)


def test_where_no_state_is_whole_nothing_is_overwritten(begun, caplog):
    states = sorted((begun / "training").glob("state-*"))
    for state in states:
        shards(state)[0].unlink()
    before = (begun / "model.safetensors").read_bytes(), curve(begun)
    with pytest.raises(TrainingError, match=r"training: none of 2 saved states is whole; start the run anew"):
        notes(resume(begun))
    assert len(warnings(caplog)) == 2
    assert ((begun / "model.safetensors").read_bytes(), curve(begun)) == before
    assert all(len(list(state.with_suffix(".broken").iterdir())) == 2 for state in states)


def test_a_rank_that_is_killed_ends_the_run_and_one_process_goes_on(folder):
    said = (folder / "talk").read_text().splitlines()
    ours = [line for line in said if line.startswith("clearhead:")]
    assert ours == [
        "clearhead: rank 0: another of the 2 ranks has ended, and so has the run; "
        "go on from its last saved state with --resume"
    ]
    assert "resumed after step 9; saved by 2 ranks, going on with 1" in notes(resume(folder / "killed"))
    assert_same_curve(folder / "padded alone", folder / "killed")
