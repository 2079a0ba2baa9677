"""Small models that cover every kind of layer, and inputs for them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from clearhead.layers.layout import Padded
from clearhead.models import MODELS, read_config

SMALL = {"width": 16, "ffn_width": 24, "attention": {"heads": 2}}
TRANSLATOR = {**SMALL, "max_length": 12, "encoder_layers": 2, "decoder_layers": 2}
GPT = {**SMALL, "context_length": 12, "kind": "gpt", "layers": 2, "init": "xavier"}
MODERN = {"position": "rotary", "norm": "rms", "activation": "swiglu", "bias": False}
KINDS = {
    "translator": TRANSLATOR,
    "translator, pre-norm": {**TRANSLATOR, "norm_position": "pre", "position": "learned"},
    "translator, rotary": {**TRANSLATOR, **MODERN},
    "gpt": GPT,
    "gpt, modern": {**GPT, **MODERN, "attention": {"heads": 4, "kv_heads": 2, "qk_norm": "rms"}},
    "gpt, alibi": {**GPT, "position": "alibi", "attention": {"heads": 2, "score": "additive"}},
}
VOCABULARY = 20


class Case:
    """A model and inputs for it."""

    def __init__(self, kind: str):
        torch.manual_seed(1)
        config = read_config(KINDS[kind])
        self.model = MODELS[config.kind](config, VOCABULARY).eval()
        self.translates = kind.startswith("translator")

    def text(self, seed: int = 0, source: int = 6, target: int = 5) -> tuple:
        """The arguments of a full pass over one text; the source does not depend on the target."""
        generator = torch.Generator().manual_seed(seed)
        source_tokens = torch.randint(4, VOCABULARY, (1, source), generator=generator)
        tokens = torch.randint(4, VOCABULARY, (1, target), generator=generator)
        return (source_tokens, Padded(torch.tensor([source])), tokens) if self.translates else (tokens,)

    @torch.no_grad()
    def logits(self, text: tuple) -> Tensor:
        """The logits of one full pass."""
        return self.model(*text)

    @torch.no_grad()
    def steps(self, text: tuple) -> Tensor:
        """The same logits from cached steps."""
        tokens = text[-1]
        state = (
            self.model.start(text[0], text[1].lengths) if self.translates else self.model.start(tokens[:, :0])
        )
        return torch.stack(
            [self.model.step(tokens[:, position], state) for position in range(tokens.shape[1])], dim=1
        )


@pytest.fixture
def case_of() -> Callable[[str], Case]:
    return Case


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)
