"""The ranks of a run, and how they share its batches."""

import pytest

from clearhead.errors import SettingsError, TrainingError
from clearhead.training.config import TrainingConfig
from clearhead.training.ranks import Ranks, join_ranks


class Four(Ranks):
    count = 4


def test_without_torchrun_or_with_one_process_there_is_a_single_rank(monkeypatch):
    for size in (None, "", "1"):
        monkeypatch.delenv("WORLD_SIZE", raising=False) if size is None else monkeypatch.setenv(
            "WORLD_SIZE", size
        )
        with join_ranks("cpu") as ranks:
            assert (ranks.rank, ranks.count) == (0, 1)
            assert ranks.first(lambda: 5) == 5
            assert ranks.gather("a") == ["a"]


@pytest.mark.parametrize(("name", "value"), [("RANK", None), ("WORLD_SIZE", "two"), ("MASTER_PORT", "x")])
def test_an_incomplete_environment_is_refused_by_name(monkeypatch, name, value):
    for known in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT"):
        monkeypatch.setenv(known, "2")
    monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    with (
        pytest.raises(SettingsError, match=f"{name}: {value!r} in the environment is not a number"),
        join_ranks("cpu"),
    ):
        pass


def test_every_rank_takes_at_least_one_batch():
    assert [Four().batches_per_step(accumulate) for accumulate in (1, 3, 4, 8)] == [4, 4, 4, 8]
    assert [Four().share(batches_per_step) for batches_per_step in (4, 8)] == [1, 2]


def test_a_step_that_cannot_be_shared_names_both_solutions():
    solutions = "numbers of ranks: 1, 2, 3, 6; or start a new run with training.accumulate a multiple of 4$"
    with pytest.raises(TrainingError, match=f"^4 ranks cannot share the 6 batches of a step; .*{solutions}"):
        Four().share(6)


def test_a_state_is_refused_by_a_number_of_ranks_that_cannot_share_its_steps(make_trainer):
    saved = make_trainer(accumulate=2).state()
    other = make_trainer()
    other.ranks = Four()
    with pytest.raises(TrainingError, match="4 ranks cannot share the 2 batches of a step"):
        other.load_state(saved)
    assert other.batches_per_step == 1


def test_muon_needs_whole_matrices():
    with pytest.raises(ValueError, match="optimizer 'muon' needs whole matrices"):
        TrainingConfig.model_validate({"parallel": "fsdp", "optimizer": {"kind": "muon"}})
