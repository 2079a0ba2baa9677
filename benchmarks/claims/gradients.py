"""The claim: the gradient that reaches the first word vanishes in an RNN, and attention carries it.

    python -m benchmarks.claims.gradients [--tiny]

The gradient of the last output with respect to the first word, divided by that with respect to the last
word, in texts of n random words: at initialisation, and after training to recall the first word of 2 to 50.
All networks have the same width. Recurrent matrices start orthogonal and an LSTM's forget gates open, as in
every clearhead model; "uniform" means torch's defaults. In float64, because these gradients underflow in
float32.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from benchmarks.claims.claim import Claim, Options, Record, cases_of, main, mean, table, text, values
from matplotlib.figure import Figure
from torch import Tensor, nn

from clearhead.layers.attention import Attention, AttentionConfig
from clearhead.layers.block import Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.mask import Causal, Mask
from clearhead.layers.recurrent import CellKind, RecurrentLayer
from clearhead.models.translator import TranslatorConfig

CELLS: dict[str, CellKind] = {"RNN": "rnn", "GRU": "gru", "LSTM": "lstm"}
UNIFORM, ATTENTION, SELF_ATTENTION = " (uniform)", " with attention", "self-attention"
NETWORKS = ("RNN", "RNN (uniform)", "GRU", "LSTM", "LSTM (uniform)", "RNN with attention", SELF_ATTENTION)
LENGTHS = (2, 5, 10, 20, 50, 100, 200)
WIDTH, WORDS, LONGEST = 64, 10, 50
# The ratio below which a gradient has vanished, and the share of texts above which a word is recalled.
VANISHED, RECALLED = 1e-6, 0.9


class Recurrent(nn.Module):
    """A recurrent layer; with attention, the last state also attends to all states (Bahdanau et al. 2015)."""

    def __init__(self, cell: CellKind, uniform: bool, attention: bool):
        super().__init__()
        self.layer = RecurrentLayer(cell, WIDTH, WIDTH)
        if uniform:
            self.layer.kernel.reset_parameters()
        additive = AttentionConfig(heads=1, score="additive")
        self.attention = Attention(WIDTH, additive, max(LENGTHS)) if attention else None

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.layer(x)
        last = states[:, -1:]
        if self.attention is None:
            return last[:, 0]
        found = self.attention(self.attention.project_q(last), self.attention.project_kv(states), Mask())
        return (last + found)[:, 0]


class SelfAttention(nn.Module):
    """Two blocks of a Transformer; the output is that of the last word."""

    def __init__(self):
        super().__init__()
        config = TranslatorConfig.model_validate(
            {
                "width": WIDTH,
                "ffn_width": 2 * WIDTH,
                "attention": {"heads": 4},
                "dropout": 0.0,
                "norm_position": "pre",
                "max_length": max(LENGTHS),
            }
        )
        self.stack = Stack(config, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.stack(x, Causal())[:, -1]


class Reader(nn.Module):
    """Words in, the first of them out."""

    def __init__(self, network: str):
        super().__init__()
        position = "sinusoidal" if network == SELF_ATTENTION else "none"
        self.embedding = Embedding(WORDS, WIDTH, position, max(LENGTHS), 0.0)
        if network == SELF_ATTENTION:
            self.network = SelfAttention()
        else:
            cell = CELLS[network.split()[0]]
            self.network = Recurrent(cell, network.endswith(UNIFORM), network.endswith(ATTENTION))
        self.readout = nn.Linear(WIDTH, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        return self.readout(self.network(self.embedding(words)))


def gradient(model: Reader, words: int, rows: int = 32) -> float:
    """The norm of the gradient at the first word divided by that at the last, in the mean over texts."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(WORDS, (rows, words), generator=generator)
    x = model.embedding(tokens).detach().requires_grad_()
    direction = torch.randn(rows, WIDTH, generator=generator, dtype=x.dtype)
    (found,) = torch.autograd.grad((model.network(x) * direction).sum(), x)
    first, last = found.norm(dim=-1).mean(0)[[0, -1]].tolist()
    return first / last


def train(model: Reader, steps: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min((step + 1) / 100, 1.0) * (1 - step / steps)
        words = int(torch.randint(2, LONGEST + 1, (), generator=generator))
        tokens = torch.randint(WORDS, (64, words), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), tokens[:, 0]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def recall(model: Reader, words: int, rows: int = 500) -> float:
    """How often the first word is recalled."""
    tokens = torch.randint(WORDS, (rows, words), generator=torch.Generator().manual_seed(0))
    return (model(tokens).argmax(-1) == tokens[:, 0]).float().mean().item()


def cases(options: Options) -> list[Record]:
    networks = ("RNN", "self-attention") if options.tiny else NETWORKS
    return [{"network": network, "seed": seed} for seed in options.seeds for network in networks]


def measure(options: Options, case: Record) -> Record:
    lengths, steps = (LENGTHS[:4], 3) if options.tiny else (LENGTHS, 2000)
    model = Reader(case["network"])
    found = {f"untrained_{words}": gradient(model.double(), words) for words in lengths}
    train(model.float(), steps, case["seed"])
    found |= {f"recall_{words}": recall(model, words) for words in lengths}
    return found | {f"trained_{words}": gradient(model.double(), words) for words in lengths}


def exponents(found: Sequence[float]) -> list[float]:
    """Decimal exponents: -3 for a thousandth."""
    return [math.log10(max(one, 1e-300)) for one in found]


def report(records: Sequence[Record]) -> str:
    networks = [network for network in NETWORKS if network in cases_of(records, "network")]
    lengths = [words for words in LENGTHS if f"trained_{words}" in records[0]]
    parts = []
    for state in ("untrained", "trained"):
        rows = [
            [name, *(text(exponents(values(records, f"{state}_{n}", network=name))) for n in lengths)]
            for name in networks
        ]
        parts.append(table([f"{state}, words:", *map(str, lengths)], rows))
    rows = [
        [name, *(text([100 * v for v in values(records, f"recall_{n}", network=name)]) for n in lengths)]
        for name in networks
    ]
    parts.append(table(["recall in %, words:", *map(str, lengths)], rows))
    about = "Decimal exponent of the gradient at the first word, divided by that at the last:"
    return "\n\n".join([about, *parts, finding(records, lengths[-2])])


def finding(records: Sequence[Record], words: int) -> str:
    """What the figures say about the claim, at this many words."""

    def factors(state: str) -> str:
        """The factor per word from 2 words on."""
        found = {}
        for name in names:
            near, far = (values(records, f"{state}_{n}", network=name) for n in (2, words))
            steps = [(one / other) ** (1 / (words - 2)) for one, other in zip(far, near, strict=True)]
            found[name] = mean(steps)
        return ", ".join(f"{name} {factor:.3f}" for name, factor in found.items())

    names = [name for name in NETWORKS if name in cases_of(records, "network")]
    lines = [
        f"Finding: factor per word between 2 and {words} words, {state}: {factors(state)}."
        for state in ("untrained", "trained")
    ]
    for name in names:
        ratio = mean(values(records, f"trained_{words}", network=name))
        recalled = mean(values(records, f"recall_{words}", network=name))
        if ratio < VANISHED and recalled > RECALLED:
            lines.append(
                f"{name}: recalls the first of {words} words in {recalled:.0%} of the texts although the "
                "gradient has vanished: a saturated state keeps what it holds."
            )
    return "\n".join(lines)


def draw(records: Sequence[Record], picture: Figure) -> None:
    left, middle, right = picture.subplots(1, 3)
    for name in (network for network in NETWORKS if network in cases_of(records, "network")):
        for axes, state in ((left, "untrained"), (middle, "trained")):
            found = [values(records, f"{state}_{words}", network=name) for words in LENGTHS]
            kept = [(n, one) for n, one in zip(LENGTHS, found, strict=True) if one]
            middles = [10 ** mean(exponents(one)) for _, one in kept]
            axes.plot([n for n, _ in kept], middles, marker="o", markersize=3, label=name)
            axes.set(xscale="log", yscale="log", xlabel="words", title=state, ylim=(1e-20, 1e3))
        found = [(n, values(records, f"recall_{n}", network=name)) for n in LENGTHS]
        kept = [(n, 100 * mean(one)) for n, one in found if one]
        right.plot(*zip(*kept, strict=True), marker="o", markersize=3, label=name)
    left.set_ylabel("gradient at the first word / at the last")
    right.set(xscale="log", xlabel="words", title="recall of the first word in %", ylim=(0, 105))
    right.axvline(LONGEST, color="gray", linestyle=":", linewidth=1)
    right.legend(fontsize="x-small")


CLAIM = Claim(
    "gradients",
    "The lectures: the gradient vanishes, so that the contribution from the earlier steps becomes "
    "insignificant in the vanilla RNN unit; an RNN forgets the past (about 100 tokens); to avoid it, "
    "attention forms a direct connection with each time-step.",
    cases,
    measure,
    report,
    draw,
)

if __name__ == "__main__":
    main(CLAIM)
