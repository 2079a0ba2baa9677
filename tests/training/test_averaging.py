"""Averages of weights, over steps and over files."""

import pytest
import torch

from clearhead.checkpoint import set_weights, weights
from clearhead.errors import ModelError
from clearhead.training import MovingAverage, average_weights
from clearhead.training.tensors import write_tree


@pytest.fixture
def model(toy):
    return toy()


def test_the_moving_average_is_the_formula(model):
    average = MovingAverage(model, decay=0.4)
    expected = model.output.weight.detach().clone()
    for step in range(1, 6):
        model.output.weight.data.normal_()
        average.update(step, torch.zeros(()))
        decay = min(0.4, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model.output.weight.detach()
    torch.testing.assert_close(average.weights()["output.weight"], expected)


def test_a_diverged_step_leaves_the_average_unchanged(model):
    average = MovingAverage(model, decay=0.9)
    before = average.weights()["output.weight"].clone()
    model.output.weight.data.normal_()
    average.update(1, torch.ones(()))
    assert torch.equal(average.weights()["output.weight"], before)


def test_swapping_in_and_out_restores_every_bit(model):
    average = MovingAverage(model, decay=0.9)
    model.output.weight.data.normal_()
    average.update(1, torch.zeros(()))
    own = {name: tensor.clone() for name, tensor in weights(model).items()}
    mean = {name: tensor.clone() for name, tensor in average.weights().items()}
    address = model.output.weight.data_ptr()
    with average.swapped():
        assert all(torch.equal(tensor, mean[name]) for name, tensor in weights(model).items())
        assert model.readout.weight is model.embedding.weight
    assert all(torch.equal(tensor, own[name]) for name, tensor in weights(model).items())
    assert model.output.weight.data_ptr() == address


def test_the_models_own_weights_are_restored_after_an_error(model):
    average = MovingAverage(model, decay=0.9)
    model.output.weight.data.fill_(5.0)
    with pytest.raises(ZeroDivisionError), average.swapped():
        raise ZeroDivisionError
    assert (model.output.weight == 5.0).all()


@pytest.fixture
def files(toy, tmp_path):
    paths = []
    for seed in range(3):
        torch.manual_seed(seed)
        paths.append(tmp_path / f"{seed}.safetensors")
        write_tree(paths[-1], weights(toy()))
    return paths


def test_files_average_to_the_mean_of_their_weights(toy, files):
    mean = average_weights(files)
    exact = torch.zeros(12, 12, dtype=torch.float64)
    for seed in range(3):
        torch.manual_seed(seed)
        exact += toy().output.weight.detach().double() / 3
    torch.testing.assert_close(mean["output.weight"], exact.float())
    assert mean["calls"].dtype == torch.int64


def test_a_single_file_averages_to_itself(toy, files):
    torch.manual_seed(0)
    original = weights(toy())
    assert all(torch.equal(tensor, original[name]) for name, tensor in average_weights(files[:1]).items())


def test_tied_weights_stay_tied(model, files):
    mean = average_weights(files)
    assert "readout.weight" not in mean
    set_weights(model, mean, place="the average")
    assert model.readout.weight is model.embedding.weight
    assert torch.equal(model.readout.weight, mean["embedding.weight"])


def test_files_of_different_models_are_refused(files, tmp_path):
    other = tmp_path / "other.safetensors"
    write_tree(other, {"output.weight": torch.zeros(2, 2)})
    with pytest.raises(ModelError, match=r"other.safetensors: calls differs from .*0.safetensors"):
        average_weights([files[0], other])
    with pytest.raises(ModelError, match="no weights to average"):
        average_weights([])
