"""The record of a beam search: every candidate, and why it was kept or dropped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.decoding.beam import Candidates
from clearhead.decoding.step import Hypothesis

CUT_OFF = "the maximum length cuts it off"
BEATEN = "no continuation of it can beat the finished hypotheses, so the search stops"


@dataclass
class Node:
    """A candidate: the hypothesis of its parent and one more token."""

    sentence: int
    parent: int | None
    """The number of the parent node; None at the start of a sentence."""
    step: int
    """Counted from 0."""
    token: int
    log_prob: float
    """Log-probability of the token."""
    sum_log_prob: float
    """Log-probability of all tokens up to this one."""
    score: float
    """The length-normalised `sum_log_prob`."""
    state: Literal["kept", "finished", "dropped"] = "kept"
    reason: str | None = None
    """Why it was dropped, or finished but not returned."""
    rank: int | None = None
    """Its rank among the returned hypotheses, from 0."""
    best: bool = False
    """Whether the best hypothesis passes through it."""


class Tree:
    """The nodes of a search in the order of their discovery; `beam_search` fills the tree it is given."""

    def __init__(self, end: int, beam: int):
        self.end, self.beam = end, beam
        self.nodes: list[Node] = []
        self._rows: list[int | None] = []
        """The node of each open row; None for an impossible one."""
        self._kept: list[list[int | None]] = []
        """The kept nodes of each sentence in the current step."""

    def path(self, number: int) -> list[int]:
        """The numbers of the nodes from the start of the sentence to this one."""
        path: list[int] = []
        at: int | None = number
        while at is not None:
            path.append(at)
            at = self.nodes[at].parent
        return path[::-1]

    def tokens(self, number: int) -> list[int]:
        """The tokens up to a node."""
        return [self.nodes[one].token for one in self.path(number)]

    def grow(
        self,
        candidates: Candidates,
        kept: Int[Tensor, "sentences kept"],
        sentences: Int[Tensor, " sentences"],
        step: int,
        normalizer: Float[Tensor, ""],
    ) -> None:
        """Records the candidates of a step; `kept` are the columns of those that stay open."""
        columns = (*candidates, candidates.sum_log_probs / normalizer)
        self._kept = []
        for sentence, chosen, *fields in zip(
            sentences.tolist(), kept.tolist(), *(column.tolist() for column in columns), strict=True
        ):
            numbers: list[int | None] = []
            for rank, (sum_log_prob, row, token, log_prob, score) in enumerate(zip(*fields, strict=True)):
                parent = self._rows[row] if self._rows else None
                node = Node(sentence, parent, step, token, log_prob, sum_log_prob, score)
                numbers.append(self._add(node, rank, rank in chosen))
            self._kept.append([numbers[rank] for rank in chosen])

    def _add(self, node: Node, rank: int, kept: bool) -> int | None:
        """The number of a new node with this rank in its step; None if it is impossible."""
        if node.sum_log_prob == float("-inf"):
            return None
        ends = node.token == self.end
        if ends and rank < self.beam:
            node.state = "finished"
        elif not kept:
            ended = f"it ends, but is not among the {self.beam} best of its step"
            node.reason = ended if ends else f"{self.beam} open hypotheses of its step are better"
            node.state = "dropped"
        self.nodes.append(node)
        return len(self.nodes) - 1

    def follow(self, running: Int[Tensor, " running"], cut: Bool[Tensor, " sentences"]) -> None:
        """Records which sentences continue; the others stop, those in `cut` at their maximum length."""
        continued = set(running.tolist())
        for position, (numbers, is_cut) in enumerate(zip(self._kept, cut.tolist(), strict=True)):
            for number in numbers if position not in continued else ():
                if number is not None:
                    node = self.nodes[number]
                    node.state, node.reason = ("finished", CUT_OFF) if is_cut else ("dropped", BEATEN)
        self._rows = [number for position in running.tolist() for number in self._kept[position]]

    def close(self, returned: Sequence[Sequence[Hypothesis]]) -> None:
        """Marks the hypotheses that the search returns, best first for each sentence."""
        finished = {
            (node.sentence, *self.tokens(number)): number
            for number, node in enumerate(self.nodes)
            if node.state == "finished"
        }
        for sentence, hypotheses in enumerate(returned):
            for rank, one in enumerate(hypotheses):
                tokens = [*one.tokens, self.end] if one.complete else one.tokens
                number = finished.pop((sentence, *tokens))
                self.nodes[number].rank = rank
                for passed in self.path(number) if rank == 0 else ():
                    self.nodes[passed].best = True
        parents = {node.parent for node in self.nodes}
        for number, node in enumerate(self.nodes):
            if node.state == "kept" and number not in parents:
                node.state = "dropped"
                node.reason = f"none of its continuations is among the {2 * self.beam} best of the next step"
        for number in finished.values():
            node = self.nodes[number]
            node.reason = node.reason or "another finished hypothesis scores better"
