"""Each kind of parameter has its own update rule, and state is keyed by name."""

import pytest
import torch
from torch import nn

from clearhead.errors import TrainingError
from clearhead.layers.attention import Projections
from clearhead.models import Encoder, EncoderConfig
from clearhead.models.heads import Classifier, ClassifierConfig
from clearhead.training.optimizer import AdamConfig, AdamWConfig, MuonConfig, Optimizer, hidden_matrices


def give_gradients(model: nn.Module, seed: int = 0) -> None:
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)


def values(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.fixture
def toy(toy):
    """The toy with its projections declared, as attention does."""

    def make():
        made = toy()
        made.project = Projections(made.project.in_features, (made.project.in_features,) * 3)
        return made

    return make


@pytest.fixture
def model(toy):
    torch.manual_seed(1)
    return toy()


def test_hidden_matrices_are_the_inner_linear_layers(model):
    assert set(hidden_matrices(model)) == {"project.weight", "output.weight"}


@pytest.mark.parametrize(
    ("config", "reference"),
    [(AdamConfig(), torch.optim.Adam), (AdamWConfig(weight_decay=0), torch.optim.AdamW)],
)
def test_adam_is_torchs_adam(model, toy, config, reference):
    twin = toy()
    twin.load_state_dict(model.state_dict())
    theirs = reference(twin.parameters(), lr=0.01, betas=config.betas, eps=config.eps, weight_decay=0)
    ours = Optimizer(model, config)
    for seed in range(3):
        give_gradients(model, seed)
        give_gradients(twin, seed)
        ours.step(0.01)
        theirs.step()
    for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("config", [AdamWConfig(weight_decay=0.5), MuonConfig(weight_decay=0.5)])
def test_weight_decay_applies_to_hidden_matrices_only(model, config):
    optimizer = Optimizer(model, config)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = values(model)
    optimizer.step(0.1)
    changed = {name for name, value in values(model).items() if not torch.equal(value, before[name])}
    assert changed == {"project.weight", "output.weight"}


def test_muon_orthogonalises_each_of_several_projections(model):
    before = values(model)
    optimizer = Optimizer(model, MuonConfig(weight_decay=0))
    give_gradients(model)
    optimizer.step(1.0)
    change = model.project.weight.detach() - before["project.weight"]
    for part in change.chunk(3):
        # Scaled like a step of AdamW, all singular values are near 0.2 √width: Newton-Schulz is not exact.
        sizes = torch.linalg.svdvals(part) / (0.2 * part.shape[1] ** 0.5)
        assert sizes.min() > 0.3
        assert sizes.max() < 1.5


def test_packed_projections_move_like_separate_matrices(model):
    width = model.project.in_features
    apart = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
    for linear, part in zip(apart, model.project.weight.detach().chunk(3), strict=True):
        linear.weight.data.copy_(part)
    joint, separate = Optimizer(model, MuonConfig()), Optimizer(apart, MuonConfig())
    for seed in range(3):
        give_gradients(model, seed)
        for linear, part in zip(apart, model.project.weight.grad.chunk(3), strict=True):
            linear.weight.grad, linear.bias.grad = part.clone(), torch.zeros(width)
        joint.step(0.05)
        separate.step(0.05)
    assert torch.equal(model.project.weight, torch.cat([linear.weight for linear in apart]))


def test_a_matrix_of_the_same_shape_as_packed_ones_moves_as_a_whole():
    torch.manual_seed(1)
    whole_layer, several = nn.Linear(8, 24), Projections(8, (8, 8, 8))
    reference = torch.optim.Muon(
        [nn.Parameter(whole_layer.weight.detach().clone())], weight_decay=0, adjust_lr_fn="match_rms_adamw"
    )
    several.load_state_dict(whole_layer.state_dict())
    for each in (whole_layer, several):
        give_gradients(each)
        Optimizer(each, MuonConfig(weight_decay=0)).step(0.05)
    [whole] = reference.param_groups[0]["params"]
    whole.grad, reference.param_groups[0]["lr"] = whole_layer.weight.grad, 0.05
    reference.step()
    torch.testing.assert_close(whole_layer.weight, whole, atol=2e-3, rtol=0)
    assert not torch.allclose(whole_layer.weight, several.weight)


def test_the_adam_part_of_muon_has_its_own_learning_rate(model, toy):
    twin = toy()
    twin.load_state_dict(model.state_dict())
    faster, plain = Optimizer(model, MuonConfig(adam_factor=2.0)), Optimizer(twin, MuonConfig())
    for each in (model, twin):
        give_gradients(each)
    start = values(model)
    faster.step(0.01)
    plain.step(0.01)
    torch.testing.assert_close(
        model.norm.weight - start["norm.weight"], 2 * (twin.norm.weight - start["norm.weight"])
    )
    assert torch.equal(model.output.weight, twin.output.weight)


@pytest.mark.parametrize("config", [AdamConfig(), AdamWConfig(), MuonConfig()])
def test_a_loaded_state_continues_exactly_and_shares_no_memory(model, toy, config):
    optimizer = Optimizer(model, config)
    give_gradients(model)
    optimizer.step(0.01)
    twin = toy()
    twin.load_state_dict(model.state_dict())
    loaded = Optimizer(twin, config)
    loaded.load_state_dict(optimizer.state_dict())
    for each, stepping in ((model, optimizer), (twin, loaded)):
        give_gradients(each, seed=7)
        stepping.step(0.01)
    for name, value in values(model).items():
        assert torch.equal(value, values(twin)[name])


@pytest.mark.parametrize("config", [AdamConfig(), AdamWConfig(), MuonConfig()])
def test_gradients_are_divided_by_the_divisor(model, toy, config):
    twin = toy()
    twin.load_state_dict(model.state_dict())
    give_gradients(model)
    for parameter, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert parameter.grad is not None
        other.grad = parameter.grad * 8
    Optimizer(model, config).step(0.01)
    Optimizer(twin, config).step(0.01, divisor=torch.tensor(8.0))
    for name, value in values(model).items():
        assert torch.equal(value, values(twin)[name])


def test_a_state_of_another_kind_or_model_is_refused(model):
    adam, muon = Optimizer(model, AdamConfig()), Optimizer(model, MuonConfig())
    give_gradients(model)
    adam.step(0.01)
    with pytest.raises(TrainingError, match="optimizer: the run uses 'adam', not 'muon'"):
        muon.load_state_dict(adam.state_dict())
    with pytest.raises(TrainingError, match=r"the saved state has embedding.weight, but this model does not"):
        Optimizer(nn.Linear(2, 2), AdamConfig()).load_state_dict(adam.state_dict())


def test_zero_grad_drops_all_gradients(model):
    optimizer = Optimizer(model, MuonConfig())
    give_gradients(model)
    optimizer.step(0.01)
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    before = values(model)
    optimizer.step(0.01)
    assert all(torch.equal(value, before[name]) for name, value in values(model).items())


def test_lower_blocks_learn_more_slowly_by_the_layer_decay():
    config = EncoderConfig.model_validate(
        {"width": 8, "ffn_width": 8, "layers": 3, "attention": {"heads": 2}}
    )
    encoder = Encoder(config, 12, Classifier(ClassifierConfig(), 8, 2))
    optimizer = Optimizer(encoder, AdamWConfig(weight_decay=0.0, layer_decay=0.5))
    before = values(encoder)
    give_gradients(encoder)
    optimizer.step(0.01)
    moved = {name: (value - before[name]).abs().max() for name, value in values(encoder).items()}
    # Adam's first step has the size of the learning rate.
    expected = {"embedding.": 0.5**4, "encoder.blocks.0.": 0.5**3, "encoder.blocks.2.": 0.5, "head.": 1.0}
    for prefix, factor in expected.items():
        for name in moved:
            if name.startswith(prefix):
                assert moved[name] == pytest.approx(0.01 * factor, rel=1e-3), name
    state = optimizer.state_dict()
    assert state["moments"].keys() == before.keys()
    other = Optimizer(encoder, AdamWConfig(weight_decay=0.0, layer_decay=0.5))
    other.load_state_dict(state)
    assert other.state_dict()["moments"].keys() == before.keys()
