"""Several processes train a model like one process does, and survive the death of another."""

import json
import logging
import os
import re
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
from clearhead.tasks.recipe import read_recipe
from clearhead.tasks.run import resume, train
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.training.tensors import read_tree

SCRIPT = Path(__file__).with_name("run_in_ranks.py")
SETTINGS = [
    "training.steps=16",
    "training.report_every=1",
    "training.validate_every=8",
]
# Saving sharded states takes most of the time here, so only runs that need several states save often.
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


def training(folder: Path, name: str, *changes: str, recipe: str = "recipe.toml", **sent: int) -> dict:
    settings = [word for change in [*SETTINGS, *changes] for word in ("--set", change)]
    return {
        "command": ["train", str(folder / recipe), "--out", str(folder / name), *settings],
        **sent,
    }


def resuming(folder: Path, name: str) -> dict:
    return {"command": ["train", "--resume", "--out", str(folder / name)]}


def notes(events: Iterable[Event]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, Note))


def curve(out: Path) -> list[dict[str, float]]:
    """The metrics of each step, except times."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    left_out = ("seconds", "tokens_per_second", "kind")
    return [{name: value for name, value in line.items() if name not in left_out} for line in lines]


def assert_same_curve(first: Path, second: Path) -> None:
    for one, other in zip(curve(first), curve(second), strict=True):
        assert one == pytest.approx(other, rel=1e-5, abs=1e-5)


def text_recipe(folder: Path) -> Path:
    """Writes documents and a recipe for a language model."""
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
context_length = 32
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, number_recipe) -> Path:
    """Holds a recipe, and runs of it by one process and by two, interrupted and not."""
    folder = tmp_path_factory.mktemp("ranks")
    recipe = number_recipe(folder)
    for layout, changes in LAYOUTS.items():
        settings = [*SETTINGS, *changes, "training.accumulate=2"]
        for _ in train(read_settings(TranslationRecipe, recipe, settings), folder / f"{layout} alone"):
            pass
    text = text_recipe(folder)
    for _ in train(read_recipe(text, [*SETTINGS, "training.accumulate=2"]), folder / "text alone"):
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
            training(folder, f"text {kind}", f'training.parallel="{kind}"', recipe=text.name)
            for kind in KINDS
        ),
        training(folder, "uninterrupted", *DROPOUT),
        training(folder, "interrupted", *DROPOUT, **ctrl_c),
        resuming(folder, "interrupted"),
        training(folder, "uninterrupted shards", *DROPOUT, *shards),
        training(folder, "interrupted shards", *DROPOUT, *shards, **ctrl_c),
        resuming(folder, "interrupted shards"),
        training(folder, "started", *shards, *OFTEN, **ctrl_c),
        training(folder, "killed", *OFTEN, signal=signal.SIGKILL, rank=1, step=10),
    )
    codes = [line for line in ended.stdout.splitlines() if line.startswith("status")]
    expected = (0, 0, 0, 0, 0, 0, 0, 130, 0, 0, 130, 0, 130)
    assert codes[:13] == [f"status {code}" for code in expected], ended.stderr
    assert ended.returncode == 1
    (folder / "output").write_text(ended.stderr)
    return folder


@pytest.mark.parametrize("layout", [*LAYOUTS, "text"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_give_the_same_curve_as_one(folder, layout, kind):
    assert len(curve(folder / f"{layout} alone")) == 16 + 2 + 1
    assert_same_curve(folder / f"{layout} alone", folder / f"{layout} {kind}")


def test_only_rank_0_prints(folder):
    lines = (folder / "output").read_text().splitlines()
    for kind in KINDS:
        assert lines.count(f"ranks: 2 ({kind}); a step takes 2 batches over all ranks") == 7
    assert sum(line.startswith("stopped after step 11 and saved") for line in lines) == 3


@pytest.mark.parametrize("name", ["", " shards"])
def test_ctrl_c_in_one_rank_stops_all_and_the_resumed_run_equals_an_uninterrupted_one(folder, name):
    first, second = folder / f"uninterrupted{name}", folder / f"interrupted{name}"
    assert curve(first) == curve(second)
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


def test_every_rank_has_its_own_random_numbers(folder):
    random = read_tree(folder / "uninterrupted" / "training" / "state-00000016.safetensors")["random"]
    assert random.keys() == {"0", "1"}
    assert not torch.equal(random["0"]["torch"], random["1"]["torch"])


def group_of_one(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


@pytest.mark.parametrize("kind", KINDS)
def test_an_existing_process_group_is_used_and_not_destroyed(folder, tmp_path, monkeypatch, kind):
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
def started(folder, tmp_path) -> Path:
    """An interrupted run of two ranks with sharded states of steps 9 and 11."""
    return Path(shutil.copytree(folder / "started", tmp_path / "started"))


def test_sharded_states_of_two_ranks_can_be_resumed_by_one_process(folder, started):
    text = notes(resume(started))
    assert "resumed after step 11; saved by 2 ranks, continued by 1 with new random numbers" in text
    assert_same_curve(folder / "padded alone", started)


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def shards(state: Path) -> list[Path]:
    files = sorted(state.glob("*.safetensors"))
    assert len(files) == 2
    return files


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


DAMAGES = {
    r"missing; the state .* 2 files": lambda state: shards(state)[1].unlink(),
    r"damaged, its checksum does not": lambda state: damage(shards(state)[0]),
    r"manifest\.json: missing": lambda state: (state / "manifest.json").unlink(),
    r"or not a manifest": lambda state: os.truncate(state / "manifest.json", 100),
    r"shard-3\.safetensors: ": lambda state: shutil.copy(shards(state)[0], state / "shard-3.safetensors"),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_a_damaged_sharded_state_is_set_aside_and_the_previous_one_is_used(folder, started, caplog, message):
    DAMAGES[message](started / "training" / "state-00000011")
    assert "resumed after step 9;" in notes(resume(started))
    (warning,) = warnings(caplog)
    assert re.search(message, warning)
    assert "; falling back to the " in warning
    assert (started / "training" / "state-00000011.broken").is_dir()
    assert_same_curve(folder / "padded alone", started)


def test_if_all_states_are_damaged_nothing_is_overwritten(started, caplog):
    states = sorted((started / "training").glob("state-*"))
    for state in states:
        shards(state)[0].unlink()
    before = (started / "model.safetensors").read_bytes(), curve(started)
    with pytest.raises(TrainingError, match=r"training: .* 2 saved states"):
        notes(resume(started))
    assert len(warnings(caplog)) == 2
    assert ((started / "model.safetensors").read_bytes(), curve(started)) == before
    assert all(len(list(state.with_suffix(".broken").iterdir())) == 2 for state in states)


def test_a_killed_rank_ends_the_run_and_one_process_can_resume_it(folder):
    lines = (folder / "output").read_text().splitlines()
    (error,) = [line for line in lines if line.startswith("clearhead:")]
    assert error.startswith("clearhead: rank 0: another of the 2 ranks has ended, ")
    assert error.endswith("from its last saved state with --resume")
    assert "resumed after step 9; saved by 2 ranks, continued by 1" in notes(resume(folder / "killed"))
    assert_same_curve(folder / "padded alone", folder / "killed")
