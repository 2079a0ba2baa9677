"""The trainer trains a Translator on real batches."""

import torch

from clearhead.data.batch import PairBatch
from clearhead.layers.layout import Padded
from clearhead.models.translator import Translator, TranslatorConfig
from clearhead.training import Trainer, TrainingConfig, cross_entropy_loss
from clearhead.training.optimizer import MuonConfig, hidden_matrices
from clearhead.training.schedule import ConstantSchedule

VOCABULARY = 16
SHAPE = {"width": 32, "ffn_width": 64, "attention": {"heads": 2}, "encoder_layers": 1, "decoder_layers": 1}


def translator() -> Translator:
    torch.manual_seed(0)
    return Translator(TranslatorConfig.model_validate({**SHAPE, "dropout": 0.0}), VOCABULARY)


def loss(model: Translator, batch: PairBatch) -> torch.Tensor:
    states = model.states(batch.source, Padded(batch.source_lengths), batch.inputs)
    return cross_entropy_loss(states, model.readout_weight, batch.labels, 0.0)


def batches(count: int):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        lengths = torch.randint(2, 6, (24,), generator=generator).tolist()
        sources = [
            torch.randint(4, VOCABULARY, (length,), generator=generator).tolist() for length in lengths
        ]
        yield PairBatch.of(sources, [source[::-1] for source in sources])


def test_a_translator_learns_to_reverse():
    config = TrainingConfig(
        steps=150,
        optimizer=MuonConfig(),
        schedule=ConstantSchedule(learning_rate=0.01),
        device="cpu",
    )
    trainer = Trainer(translator(), loss, config)
    reports = list(trainer.steps(batches(150)))
    assert reports[0].loss > 2.5
    assert reports[-1].loss < 0.5
    assert all(0 <= report.padding < 0.6 for report in reports)


def test_embeddings_and_norms_are_no_hidden_matrices():
    model = translator()
    names = set(hidden_matrices(model))
    assert "readout_weight" not in names
    assert not any("embedding" in name or "norm" in name for name in names)
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in names} >= {"project", "output"}
