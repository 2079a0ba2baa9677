"""The claim: order has to be given to a Transformer, and sinusoids meet all criteria of a good encoding.

    python -m benchmarks.claims.positions [--tiny]

Two tasks that need nothing but order, on random words: which of two marked words comes first (read at the
first position), and which word stands before a mark. A small encoder is trained on 5 to 20 words and tested
on 20 and on 40. The second lecture's criteria are measured on the encodings themselves.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from benchmarks.claims.claim import Claim, Options, Record, cases_of, main, mean, spread, table, text, values
from matplotlib.figure import Figure
from torch import Tensor, nn

from clearhead.layers.block import Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.mask import Mask
from clearhead.layers.positions import Alibi, Relative, Rotary, make_position, make_relative
from clearhead.models.translator import TranslatorConfig

KINDS = ("none", "order", "fraction", "learned", "sinusoidal", "rotary", "alibi")
TASKS = {"first": "which of two words comes first", "before": "the word before the mark"}
CHANCE = {"first": 0.5, "before": 1 / 10}
WIDTH, HEADS, WORDS = 64, 4, 10
SHORTEST, LONGEST = 5, 20
ROWS = 32
# Token ids: the position that reads the answer, two marks, then words.
START, MARK, OTHER, FIRST_WORD = 0, 1, 2, 3


class Encoder(nn.Module):
    """A small encoder with an answer at every position."""

    def __init__(self, position: str, answers: int):
        super().__init__()
        config = TranslatorConfig.model_validate(
            {
                "width": WIDTH,
                "ffn_width": 2 * WIDTH,
                "attention": {"heads": HEADS},
                "position": position,
                "max_length": 2 * LONGEST + 1,
                "dropout": 0.0,
            }
        )
        self.embedding = Embedding(FIRST_WORD + WORDS, WIDTH, position, config.max_length, 0.0)
        self.encoder = Stack(config, 2)
        self.readout = nn.Linear(WIDTH, answers)

    def forward(self, tokens: Tensor) -> Tensor:
        lengths = torch.full(tokens.shape[:1], tokens.shape[1], device=tokens.device)
        return self.readout(self.encoder(self.embedding(tokens, lengths=lengths), Mask()))


def examples(task: str, rows: int, words: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, the position at which each row is answered, and the answers."""
    tokens = torch.randint(FIRST_WORD, FIRST_WORD + WORDS, (rows, words + 1), generator=generator)
    tokens[:, 0] = START
    at = torch.rand(rows, words, generator=generator).argsort(-1) + 1
    row = torch.arange(rows)
    if task == "first":
        tokens[row, at[:, 0]], tokens[row, at[:, 1]] = MARK, OTHER
        return tokens, torch.zeros_like(row), (at[:, 0] < at[:, 1]).long()
    mark = at[:, 0].clamp(min=2)
    tokens[row, mark] = MARK
    return tokens, mark, tokens[row, mark - 1] - FIRST_WORD


def trained(task: str, position: str, steps: int, seed: int, device: str) -> Encoder:
    model = Encoder(position, 2 if task == "first" else WORDS).to(device)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 100, 1.0) * max(1 - step / steps, 0.0)
    )
    for _ in range(steps):
        words = int(torch.randint(SHORTEST, LONGEST + 1, (), generator=generator))
        tokens, at, answers = (part.to(device) for part in examples(task, ROWS, words, generator))
        logits = model(tokens)[torch.arange(len(at)), at]
        optimizer.zero_grad()
        F.cross_entropy(logits, answers).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: Encoder, task: str, words: int, rows: int, device: str) -> float:
    tokens, at, answers = (
        part.to(device) for part in examples(task, rows, words, torch.Generator().manual_seed(0))
    )
    return (model(tokens)[torch.arange(rows), at].argmax(-1) == answers).float().mean().item()


def vectors(kind: str, words: int, seed: int = 0) -> Tensor:
    """The encoding of each position of a text: what is added, or what attention makes of it.

    Rotary turns a vector of ones; ALiBi adds to the scores of the first word in each head.
    """
    torch.manual_seed(seed)
    max_positions = 1000
    positions = torch.arange(words)
    relative = make_relative(kind, HEADS, WIDTH // HEADS, max_positions)
    if isinstance(relative, Rotary):
        return relative.rotate(torch.ones(1, 1, words, WIDTH // HEADS), positions)[0, 0]
    if isinstance(relative, Alibi):
        bias = relative.bias(words, words)
        assert bias is not None
        return bias[:, :, 0].T
    assert type(relative) is Relative
    module = make_position(kind, WIDTH, max_positions)
    return module(torch.zeros(1, words, WIDTH), positions, torch.tensor([words]))[0].detach()


def criteria(kind: str) -> Record:
    """The second lecture's criteria as numbers, on texts of 20 to 1,000 words."""
    short, twice, long, again = (vectors(kind, *one) for one in ((20,), (40,), (1000,), (20, 1)))
    size = short.norm(dim=-1).max().clamp(min=1e-9)
    apart = torch.cdist(short, short) + torch.eye(20) * 1e9
    steps = [(one[1:] - one[:-1]).norm(dim=-1) for one in (short, long)]
    far = torch.stack([(long[k:] - long[:-k]).norm(dim=-1).std() for k in (1, 2, 5, 10)]).mean()
    return {
        "unique": (apart.min() / size).item(),
        "distance_spread": (far / steps[1].mean().clamp(min=1e-9)).item(),
        "distance_ratio": (steps[1].mean() / steps[0].mean().clamp(min=1e-9)).item(),
        "largest": long.abs().max().item(),
        "changes_with_length": ((short - twice[:20]).norm(dim=-1).max() / size).item(),
        "changes_with_seed": ((short - again).norm(dim=-1).max() / size).item(),
    }


def cases(options: Options) -> list[Record]:
    kinds = ("none", "rotary") if options.tiny else KINDS
    tasks = ("first",) if options.tiny else TASKS
    return [
        {"position": kind, "task": task, "seed": s} for s in options.seeds for task in tasks for kind in kinds
    ]


def measure(options: Options, case: Record) -> Record:
    steps, rows = (5, 20) if options.tiny else (2500, 2000)
    task = case["task"]
    model = trained(task, case["position"], steps, case["seed"], options.device)
    found = {
        f"at_{words}": accuracy(model, task, words, rows, options.device) for words in (LONGEST, 2 * LONGEST)
    }
    return {**found, **criteria(case["position"])}


def verdicts(found: Record) -> list[bool]:
    """Whether an encoding is unique, evenly spaced, bounded, and the same in every text."""
    return [
        found["unique"] > 1e-3,
        found["distance_spread"] < 1e-2 and 0.99 < found["distance_ratio"] < 1.01,
        found["largest"] < 10,
        found["changes_with_length"] < 1e-3 and found["changes_with_seed"] < 1e-3,
    ]


def report(records: Sequence[Record]) -> str:
    kinds = [kind for kind in KINDS if kind in cases_of(records, "position")]
    rows = []
    for kind in kinds:
        cells = [kind]
        for task in TASKS:
            for words in (LONGEST, 2 * LONGEST):
                cells.append(
                    text([100 * one for one in values(records, f"at_{words}", position=kind, task=task)])
                )
        rows.append(cells)
    head = ["accuracy in %"] + [
        f"{name}, {n} words" for name in TASKS.values() for n in (LONGEST, 2 * LONGEST)
    ]
    measured = {kind: next(one for one in records if one["position"] == kind) for kind in kinds}
    lines = []
    for kind, one in measured.items():
        unique, even, bounded, fixed = ("yes" if met else "no" for met in verdicts(one))
        lines.append(
            [
                kind,
                f"{unique} ({one['unique']:.2g})",
                f"{even} ({one['distance_spread']:.1%}, {one['distance_ratio']:.2g}x)",
                f"{bounded} ({one['largest']:.3g})",
                f"{fixed} ({one['changes_with_length']:.2g}, {one['changes_with_seed']:.2g})",
            ]
        )
    criteria_head = [
        "criterion",
        "unique (least distance)",
        "even steps (spread in a text, 1000 words to 20)",
        "bounded (largest in 1000 words)",
        "deterministic (change with length, with seed)",
    ]
    return "\n\n".join([table(head, rows), table(criteria_head, lines), finding(records)])


def finding(records: Sequence[Record]) -> str:
    """What the figures say about the claim."""

    def at(kind: str, task: str, words: int) -> float:
        return 100 * mean(values(records, f"at_{words}", position=kind, task=task))

    kinds = [kind for kind in KINDS if kind in cases_of(records, "position")]
    lines = []
    for task, name in TASKS.items():
        if not values(records, "at_20", task=task):
            continue
        longer = {kind: at(kind, task, 2 * LONGEST) for kind in kinds}
        lost = [f"{kind} {at(kind, task, LONGEST):.0f} -> {longer[kind]:.0f}" for kind in kinds]
        chance = 100 * CHANCE[task]
        lines.append(
            f"Finding, {name} (chance {chance:.0f} %), {LONGEST} -> {2 * LONGEST} words: {', '.join(lost)}."
        )
    first = {one["position"]: one for one in reversed(records)}
    met = [kind for kind in kinds if kind != "none" and all(verdicts(first[kind]))]
    lines.append(f"All four criteria are met by: {', '.join(met) or 'none'}.")
    if "sinusoidal" in kinds:
        drop = max(at("sinusoidal", task, LONGEST) - at("sinusoidal", task, 2 * LONGEST) for task in TASKS)
        holds = "holds" if drop < 3 else f"does not hold: accuracy falls by up to {drop:.0f} points"
        lines.append(f"That sinusoids generalise to longer texts {holds}.")
    return "\n".join(lines)


def draw(records: Sequence[Record], picture: Figure) -> None:
    kinds = [kind for kind in KINDS if kind in cases_of(records, "position")]
    for axes, (task, name) in zip(picture.subplots(1, len(TASKS)), TASKS.items(), strict=True):
        for shift, words in ((-0.2, LONGEST), (0.2, 2 * LONGEST)):
            found = [[100 * v for v in values(records, f"at_{words}", position=k, task=task)] for k in kinds]
            at = [number + shift for number in range(len(kinds))]
            errors = [spread(one) for one in found]
            axes.bar(at, [mean(one) for one in found], 0.4, yerr=errors, capsize=2, label=f"{words} words")
        axes.axhline(100 * CHANCE[task], color="gray", linestyle=":", linewidth=1)
        axes.set(title=name, ylabel="accuracy in %", ylim=(0, 105))
        axes.set_xticks(range(len(kinds)), kinds, rotation=30)
        axes.legend(fontsize="small", loc="lower right")


CLAIM = Claim(
    "positions",
    "The lectures: a Transformer is order-agnostic until positions are added; an encoding should be unique "
    "for each time-step, keep a consistent distance between time-steps, be bounded and generalise to longer"
    " sentences, and be deterministic. The order number is not bounded, fractions are neither consistent "
    "nor deterministic, sinusoids meet all criteria.",
    cases,
    measure,
    report,
    draw,
)

if __name__ == "__main__":
    main(CLAIM)
