"""The loss of classifiers: several labels, class weights, R-Drop and adversarial training."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from clearhead.checkpoint import WEIGHTS
from clearhead.data.store import TokenSequences
from clearhead.models import Encoder, EncoderConfig
from clearhead.models.heads import Classifier, ClassifierConfig
from clearhead.tasks.classification.data import LabelledBatch
from clearhead.tasks.classification.loss import ClassificationLoss
from clearhead.tasks.classification.recipe import AdversarialConfig
from clearhead.tasks.records import read_metrics
from clearhead.tasks.run import resume, train
from clearhead.training.criterion import RDropConfig

from ..conftest import finish, interrupted_at
from .conftest import recipe

IDS = TokenSequences.of([[5, 6, 7, 2], [8, 9, 2], [5, 9, 9, 9, 6, 2]])


def model(dropout: float = 0.0, labels: int = 3) -> Encoder:
    torch.manual_seed(1)
    shape = {"width": 16, "ffn_width": 32, "layers": 1, "attention": {"heads": 2}, "dropout": dropout}
    config = EncoderConfig.model_validate({**shape, "head": {"kind": "classifier", "dropout": dropout}})
    return Encoder(config, 12, Classifier(ClassifierConfig(dropout=dropout), 16, labels)).train()


def batch(several: bool = False) -> LabelledBatch:
    sets = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]], dtype=np.bool_)
    return LabelledBatch.of(IDS, sets if several else np.array([0, 2, 1]))


def test_one_class_per_text_is_torchs_cross_entropy():
    encoder, rows, weights = model(), batch(), torch.tensor([0.5, 1.0, 2.0])
    found = ClassificationLoss(0.1, weights)(encoder, rows)
    logits = encoder(rows.ids, rows.lengths)
    expected = F.cross_entropy(logits, rows.classes, weights, reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(found, expected)


def test_several_labels_are_independent_binary_decisions():
    encoder, rows, weights = model(), batch(several=True), torch.tensor([0.5, 1.0, 2.0])
    found = ClassificationLoss(weights=weights)(encoder, rows)
    p = encoder(rows.ids, rows.lengths).sigmoid()
    by_hand = torch.where(rows.classes, -weights * p.log(), -(1 - p).log()).mean(1).sum()
    torch.testing.assert_close(found, by_hand)


@pytest.mark.parametrize("several", [False, True])
def test_rdrop_adds_nothing_without_dropout_and_a_divergence_with_it(several: bool):
    rows, plain = batch(several), ClassificationLoss()
    regular = ClassificationLoss(regulariser=RDropConfig(weight=5.0))
    torch.testing.assert_close(regular(model(), rows), plain(model(), rows))
    encoder = model(dropout=0.3)
    torch.manual_seed(2)
    both = regular(encoder, rows)
    torch.manual_seed(2)
    unweighted = ClassificationLoss(regulariser=RDropConfig(weight=0.0))(encoder, rows)
    assert both > unweighted


@pytest.mark.parametrize("several", [False, True])
def test_the_adversarial_direction_raises_the_loss_more_than_a_random_one(several: bool):
    encoder, rows, plain = model(), batch(several), ClassificationLoss()
    clean = plain(encoder, rows)
    epsilon = 0.05
    # The loss is the mean of the clean and the moved texts.
    moved = 2 * ClassificationLoss(regulariser=AdversarialConfig(epsilon=epsilon))(encoder, rows) - clean
    assert moved > clean
    inside = (torch.arange(rows.ids.shape[1]) < rows.lengths[:, None])[:, :, None]
    for seed in range(5):
        noise = torch.randn(*rows.ids.shape, 16, generator=torch.Generator().manual_seed(seed)) * inside
        x = encoder.embedding(rows.ids).detach() * inside
        noise *= (
            epsilon * x.flatten(1).norm(dim=1)[:, None, None] / noise.flatten(1).norm(dim=1)[:, None, None]
        )
        handle = encoder.embedding.register_forward_hook(lambda _, __, out, by=noise: out + by)
        randomly = plain(encoder, rows)
        handle.remove()
        assert moved > randomly


@pytest.mark.parametrize("regulariser", [{"kind": "rdrop"}, {"kind": "adversarial"}])
def test_a_regularised_run_learns_and_resumes_to_the_same_bits(regulariser, labelled: Path, tmp_path: Path):
    settings = recipe(labelled, "encoder")
    training = settings.training.model_dump(mode="json", exclude_none=True) | {"regulariser": regulariser}
    settings = recipe(labelled, "encoder", training=training)
    finish(train(settings, tmp_path / "whole"))
    assert interrupted_at({27}, train(settings, tmp_path / "parts")).interrupted
    finish(resume(tmp_path / "parts"))
    whole, parts = (load_file(tmp_path / name / WEIGHTS) for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    [final] = [line for line in read_metrics(tmp_path / "whole") if line["kind"] == "final"]
    assert final["accuracy"] > 0.9


def test_adversarial_training_leaves_no_hook_and_no_other_gradient_behind():
    encoder, rows = model(), batch()
    ClassificationLoss(regulariser=AdversarialConfig())(encoder, rows).backward()
    assert not encoder.embedding._forward_hooks
    assert all(parameter.grad is not None for parameter in encoder.parameters())
    with pytest.raises(RuntimeError, match="broken"):
        ClassificationLoss(regulariser=AdversarialConfig())(BrokenModel(encoder), rows)
    assert not encoder.embedding._forward_hooks


class BrokenModel(SimpleNamespace):
    """A model that fails after its embedding."""

    def __init__(self, encoder: Encoder):
        super().__init__(embedding=encoder.embedding)

    def __call__(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        self.embedding(ids)
        raise RuntimeError("broken")
