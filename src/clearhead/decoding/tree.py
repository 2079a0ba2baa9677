"""A beam search told: every hypothesis that it looked at, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.decoding.beam import Continuations
from clearhead.decoding.hypothesis import Hypothesis


@dataclass
class Node:
    """A hypothesis: that of its parent, and one token more."""

    sentence: int
    parent: int | None
    """The number of the node before; None at the beginning of a sentence."""
    step: int
    """From 0 on."""
    token: int
    log_probability: float
    """Of the token."""
    sum_log_prob: float
    """The log-probability of all tokens up to this one."""
    score: float
    """The total over the length penalty."""
    fate: Literal["kept", "finished", "dropped"] = "kept"
    why: str | None = None
    """Why it was dropped, or is finished and yet not among what the search gives."""
    rank: int | None = None
    """Its position among the hypotheses that the search gives, from 0 on."""
    best: bool = False
    """Whether the first of these goes through it."""


class Tree:
    """The nodes of a search in the order in which it found them; `beam_search` fills the tree it is given."""

    def __init__(self, end: int, beam: int):
        self.end, self.beam = end, beam
        self.nodes: list[Node] = []
        self._rows: list[int | None] = []
        """The node of each row that the search has open; None for one that is impossible."""
        self._kept: list[list[int | None]] = []
        """The same for what is kept of each sentence in the current step."""

    def path(self, number: int) -> list[int]:
        """The numbers of the nodes from the beginning of the sentence to this one."""
        found: list[int] = []
        at: int | None = number
        while at is not None:
            found.append(at)
            at = self.nodes[at].parent
        return found[::-1]

    def tokens(self, number: int) -> list[int]:
        """The tokens up to a node."""
        return [self.nodes[one].token for one in self.path(number)]

    def grow(
        self,
        found: Continuations,
        kept: Int[Tensor, "sentences room"],
        sentences: Int[Tensor, " sentences"],
        step: int,
        penalty: Float[Tensor, ""],
    ) -> None:
        """Takes in all that a step has found; `kept` are the positions of those that the search goes on with."""
        columns = (*found, found.sum_log_probs / penalty)
        self._kept = []
        for sentence, chosen, *fields in zip(
            sentences.tolist(), kept.tolist(), *(column.tolist() for column in columns), strict=True
        ):
            numbers: list[int | None] = []
            for position, (sum_log_prob, row, token, log_prob, score) in enumerate(zip(*fields, strict=True)):
                parent = self._rows[row] if self._rows else None
                node = Node(sentence, parent, step, token, log_prob, sum_log_prob, score)
                numbers.append(self._add(node, position, position in chosen))
            self._kept.append([numbers[position] for position in chosen])

    def _add(self, node: Node, position: int, kept: bool) -> int | None:
        """The number of a new node that has this position among the best; None if it is impossible."""
        if node.sum_log_prob == float("-inf"):
            return None
        ends = node.token == self.end
        if ends and position < self.beam:
            node.fate = "finished"
        elif not kept:
            node.fate = "dropped"
            node.why = (
                f"it ends, but is not among the {self.beam} best of its step"
                if ends
                else f"{self.beam} open ones are better at this step"
            )
        self.nodes.append(node)
        return len(self.nodes) - 1

    def follow(self, going: Int[Tensor, " going"], cut: Bool[Tensor, " sentences"]) -> None:
        """The search goes on with these sentences; others stop, those that are `cut` for their length."""
        ahead = set(going.tolist())
        for position, (numbers, is_cut) in enumerate(zip(self._kept, cut.tolist(), strict=True)):
            for number in numbers if position not in ahead else ():
                if number is not None:
                    self._leave(self.nodes[number], is_cut)
        self._rows = [number for position in going.tolist() for number in self._kept[position]]

    def _leave(self, node: Node, cut: bool) -> None:
        node.fate = "finished" if cut else "dropped"
        node.why = (
            "the longest length cuts it off"
            if cut
            else "no continuation of it can beat what is finished: the search stops"
        )

    def close(self, given: Sequence[Sequence[Hypothesis]]) -> None:
        """Marks what the search gives for each sentence, best first."""
        finished = {
            (node.sentence, *self.tokens(number)): number
            for number, node in enumerate(self.nodes)
            if node.fate == "finished"
        }
        for sentence, hypotheses in enumerate(given):
            for rank, one in enumerate(hypotheses):
                tokens = [*one.tokens, self.end] if one.complete else one.tokens
                number = finished.pop((sentence, *tokens))
                self.nodes[number].rank = rank
                for passed in self.path(number) if rank == 0 else ():
                    self.nodes[passed].best = True
        followed = {node.parent for node in self.nodes}
        for number, node in enumerate(self.nodes):
            if node.fate == "kept" and number not in followed:
                node.fate = "dropped"
                node.why = f"none of its continuations is among the {2 * self.beam} best of the next step"
        for number in finished.values():
            self.nodes[number].why = self.nodes[number].why or "another one is finished with a better score"
