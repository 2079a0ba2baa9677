"""Tables of n-grams by order, and the interpolation of each order with the one below."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.data.ngrams import NgramCounts
from clearhead.errors import ModelError
from clearhead.text.tokenizer import BOS, PAD

Smoothing = Literal["kneser-ney", "none"]
Nodes = Int[Tensor, "rows contexts"]
"""The last one, two, … tokens of each row as indices of n-grams; -1 for an n-gram that was never seen."""
Probabilities = Float[Tensor, "rows vocabulary"]
# Of texts too small to estimate discounts from; KenLM's fallback.
FALLBACK = (0.0, 0.5, 1.0, 1.5)
UNSEEN = -1


class NgramTable(nn.Module):
    """The n-grams of one order: each has a share of the probability after its context.

    Kneser-Ney takes a discount from each count; what it takes is the weight of the next lower order.
    """

    keys: Tensor
    """`context * vocabulary + word`, in sorted order, so what follows a context is contiguous."""
    counts: Tensor
    share: Tensor
    weight: Tensor
    """The weight of the lower order, for each context."""
    first: Tensor
    """Where the n-grams of each context begin."""

    def __init__(self, vocabulary: int):
        super().__init__()
        self.vocabulary = vocabulary
        self.register_buffer("keys", torch.zeros(0, dtype=torch.long))
        self.register_buffer("counts", torch.zeros(0, dtype=torch.int32))
        for name in ("share", "weight", "first"):
            self.register_buffer(name, torch.zeros(0), persistent=False)

    def fill(self, counts: NgramCounts) -> None:
        self.keys = torch.from_numpy(counts.keys)
        self.counts = torch.from_numpy(counts.counts).int()

    def derive(self, contexts: int, smoothing: Smoothing) -> None:
        """Computes the probabilities from the counts; raises ModelError if the counts are damaged."""
        keys, counts = self.keys, self.counts
        ordered = bool((keys[1:] > keys[:-1]).all()) and len(keys) == len(counts) > 0
        if not ordered or keys[0] < 0 or keys[-1] >= contexts * self.vocabulary or counts.min() < 0:
            raise ModelError("is damaged: its keys are not in order or its counts below 0; copy it again")
        context = keys // self.vocabulary
        taken = discounts(counts, smoothing).to(keys.device)[counts.clamp(max=3)]
        total = sums(context, counts.double(), contexts)
        self.share = torch.nan_to_num((counts - taken) / total[context])
        self.weight = torch.where(total > 0, sums(context, taken, contexts) / total, 1.0)
        self.first = torch.searchsorted(context, torch.arange(contexts + 1, device=keys.device))

    def find(self, contexts: Int[Tensor, " rows"], words: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """The indices of n-grams, UNSEEN where there is none."""
        keys = contexts * self.vocabulary + words
        at = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        return torch.where((contexts >= 0) & (self.keys[at] == keys), at, UNSEEN)

    def lower_weight(self, contexts: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """The weight of the lower order after contexts; 1 after one that was never seen."""
        return torch.where(contexts >= 0, self.weight[contexts.clamp(min=0)], 1.0)

    def shares(self, ngrams: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        return torch.where(ngrams >= 0, self.share[ngrams.clamp(min=0)], 0.0)

    def rows(self, contexts: Int[Tensor, " rows"]) -> tuple[Tensor, Tensor, Tensor]:
        """What follows each context: the numbers of the rows, the words, and their shares."""
        (seen,) = (contexts >= 0).nonzero(as_tuple=True)
        row, at = entries(self.first, contexts[seen])
        return seen[row], self.keys[at] % self.vocabulary, self.share[at]


def discounts(counts: Int[Tensor, " ngrams"], smoothing: Smoothing) -> Float[Tensor, "4"]:
    """What modified Kneser-Ney takes from counts of 0, 1, 2, and 3 or more (Chen and Goodman 1999)."""
    if smoothing == "none":
        return torch.zeros(4, dtype=torch.double)
    once, twice, thrice, four = (int((counts == number).sum()) for number in (1, 2, 3, 4))
    if not (once and twice and thrice):
        return torch.tensor(FALLBACK, dtype=torch.double)
    share = once / (once + 2 * twice)
    found = (0.0, 1 - 2 * share * twice / once, 2 - 3 * share * thrice / twice, 3 - 4 * share * four / thrice)
    estimated = all(0 < one <= number for number, one in enumerate(found[1:], start=1))
    return torch.tensor(found if estimated else FALLBACK, dtype=torch.double)


@dataclass(frozen=True)
class BackoffChain:
    """How a token was predicted, order by order."""

    probabilities: Float[Tensor, "positions orders"]
    """By the n-grams of each order, interpolated with those below."""
    matched: Int[Tensor, " positions"]
    """The order of the longest n-gram that was seen; 0 for a word that was never seen."""


class BackoffTables(nn.Module):
    """Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1999), or plain relative frequencies.

    Without smoothing, a context that was never seen is shortened until it was.
    """

    uniform: Tensor
    """The distribution of order 0: over all tokens but <pad> and <s>, which are never predicted."""

    def __init__(self, order: int, vocabulary: int, smoothing: Smoothing):
        super().__init__()
        self.smoothing: Smoothing = smoothing
        self.orders = nn.ModuleList(NgramTable(vocabulary) for _ in range(order))
        uniform = torch.ones(vocabulary, dtype=torch.double)
        uniform[[PAD, BOS]] = 0
        self.register_buffer("uniform", uniform / uniform.sum(), persistent=False)

    @property
    def tables(self) -> list[NgramTable]:
        return list(self.orders)  # pyright: ignore[reportReturnType]

    def derive(self, location: str) -> None:
        contexts = 1
        for number, table in enumerate(self.tables, start=1):
            try:
                table.derive(contexts, self.smoothing)
            except ModelError as error:
                raise ModelError(f"{location}: the table of {number}-grams {error}") from None
            contexts = len(table.keys)

    def contexts(self) -> Int[Tensor, "contexts words"]:
        """The words of every context that something follows."""
        table = self.tables[-1]
        index = torch.unique_consecutive(table.keys // table.vocabulary)
        words: list[Tensor] = []
        for lower in self.tables[-2::-1]:
            words.insert(0, lower.keys[index] % table.vocabulary)
            index = lower.keys[index] // table.vocabulary
        return torch.stack(words, 1) if words else index[:, None][:, :0]

    def start(self, rows: int) -> Nodes:
        """The nodes of rows without any tokens."""
        device = self.uniform.device
        return torch.full((rows, len(self.orders) - 1), UNSEEN, dtype=torch.long, device=device)

    def advance(self, tokens: Int[Tensor, " rows"], nodes: Nodes) -> Nodes:
        """The nodes after one more token per row."""
        found = [table.find(contexts, tokens) for table, contexts in self._levels(nodes)[:-1]]
        return torch.stack(found, 1) if found else nodes

    def distribution(self, nodes: Nodes) -> Probabilities:
        """The probabilities of the next token of each row."""
        found = self.uniform.expand(len(nodes), -1)
        for table, contexts in self._levels(nodes):
            row, word, share = table.rows(contexts)
            found = table.lower_weight(contexts)[:, None] * found
            found = found.index_put((row, word), share, accumulate=True)
        return found

    def weights(self, nodes: Nodes) -> Float[Tensor, "rows orders"]:
        """How much of a prediction comes from each order, from 0 (any word) up; sums to 1."""
        left = torch.ones(len(nodes), dtype=torch.double, device=nodes.device)
        found = []
        for table, contexts in reversed(self._levels(nodes)):
            lower = table.lower_weight(contexts)
            found.append(left * (1 - lower))
            left = left * lower
        return torch.stack([left, *reversed(found)], 1)

    def chain(self, text: Int[Tensor, " positions"]) -> BackoffChain:
        """How each token of a text was predicted from those before it."""
        found, matched = self.uniform[text], torch.zeros_like(text)
        contexts, each = torch.zeros_like(text), []
        for number, table in enumerate(self.tables, start=1):
            ngrams = table.find(contexts, text)
            found = table.lower_weight(contexts) * found + table.shares(ngrams)
            matched = torch.where(table.shares(ngrams) > 0, number, matched)
            each.append(found)
            contexts = torch.cat([ngrams.new_full((1,), UNSEEN), ngrams[:-1]])
        return BackoffChain(torch.stack(each, 1), matched)

    def _levels(self, nodes: Nodes) -> list[tuple[NgramTable, Int[Tensor, " rows"]]]:
        """Each table with the contexts to look up in it."""
        contexts = [torch.zeros(len(nodes), dtype=torch.long, device=nodes.device), *nodes.unbind(1)]
        return list(zip(self.tables, contexts, strict=True))


def sums(index: Tensor, values: Tensor, size: int) -> Tensor:
    """The sum of the values of each index."""
    return torch.zeros(size, dtype=values.dtype, device=values.device).index_add_(0, index, values)


def entries(
    first: Int[Tensor, " groups_and_end"], chosen: Int[Tensor, " chosen"]
) -> tuple[Int[Tensor, " entries"], Int[Tensor, " entries"]]:
    """The entries of chosen groups of a sorted table: the number of each one's choice, and its index."""
    count = first[chosen + 1] - first[chosen]
    choice = torch.repeat_interleave(torch.arange(len(chosen), device=chosen.device), count)
    within = torch.arange(len(choice), device=chosen.device) - (count.cumsum(0) - count)[choice]
    return choice, first[chosen][choice] + within
