"""Small models of every kind of part, and texts for them."""

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
    "translator, norm first": {**TRANSLATOR, "norm_position": "pre", "position": "learned"},
    "translator, turned": {**TRANSLATOR, **MODERN},
    "gpt": GPT,
    "gpt, modern": {**GPT, **MODERN, "attention": {"heads": 4, "kv_heads": 2, "qk_norm": "rms"}},
    "gpt, alibi": {**GPT, "position": "alibi", "attention": {"heads": 2, "score": "additive"}},
}
WORDS = 20


class Case:
    """A model, and what can be given to it."""

    def __init__(self, kind: str):
        torch.manual_seed(1)
        config = read_config(KINDS[kind])
        self.model = MODELS[config.kind](config, WORDS).eval()
        self.translates = kind.startswith("translator")

    def text(self, seed: int = 0, source: int = 6, target: int = 5) -> tuple:
        """What a full pass over one text takes; the same source whatever the target."""
        chance = torch.Generator().manual_seed(seed)
        read = torch.randint(4, WORDS, (1, source), generator=chance)
        words = torch.randint(4, WORDS, (1, target), generator=chance)
        return (read, Padded(torch.tensor([source])), words) if self.translates else (words,)

    @torch.no_grad()
    def logits(self, text: tuple) -> Tensor:
        """By one full pass."""
        return self.model(*text)

    @torch.no_grad()
    def steps(self, text: tuple) -> Tensor:
        """The same by cached steps."""
        words = text[-1]
        state = (
            self.model.start(text[0], text[1].lengths) if self.translates else self.model.start(words[:, :0])
        )
        return torch.stack(
            [self.model.step(words[:, position], state) for position in range(words.shape[1])], dim=1
        )


@pytest.fixture
def case_of() -> Callable[[str], Case]:
    return Case


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)
