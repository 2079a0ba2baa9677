"""What every search obeys, whichever way it chooses: how long, which tokens first, which adjustments."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decoding.penalties import force
from clearhead.decoding.step import Adjust
from clearhead.errors import ModelError, SettingsError

MaxLength = int | Int[Tensor, " sentences"]
Prefix = Sequence[Sequence[int]]


class Constraints:
    """Checked once, before a search; turns a model's logits into the log-probabilities to choose by.

    `start` is fed first, `end` ends a sentence, or any of several; at most `longest` steps are taken, the
    end counted. Of texts to be continued, `start` holds the tokens: the last is fed first, and adjustments see
    all. Tokens that are `unsaid` are never chosen; those that are keep the probabilities that they have beside
    them.
    """

    def __init__(
        self,
        sentences: int,
        start: int | Int[Tensor, "sentences past"],
        end: int | Sequence[int],
        max_length: MaxLength,
        prefix: Prefix | None = None,
        adjust: Sequence[Adjust] = (),
        device: torch.device | str = "cpu",
        suppressed_tokens: Sequence[int] = (),
    ):
        self.sentences, self.ends = sentences, (end,) if isinstance(end, int) else tuple(end)
        self.device = torch.device(device)
        self.past: Tensor | None = None
        if isinstance(start, int):
            self.first = torch.full((sentences,), start, device=device)
        else:
            self.past = start.to(device)
            self.first = self.past[:, -1]
        self.adjust = tuple(adjust)
        self.limits = _limits(sentences, max_length, device)
        self.shortest, self.max_length = (int(x) for x in self.limits.aminmax()) if sentences else (0, 0)
        self.prefix = _prefix(prefix or [()] * sentences, self.limits)
        self.suppressed_tokens = torch.tensor(suppressed_tokens, dtype=torch.long, device=device)

    @property
    def end(self) -> int:
        """The only token that ends a sentence, for a search that knows of no other."""
        (end,) = self.ends
        return end

    def log_probabilities(
        self,
        logits: Float[Tensor, "rows vocabulary"],
        tokens: Int[Tensor, "rows tokens"],
        sentences: Int[Tensor, " rows"],
    ) -> Float[Tensor, "rows vocabulary"]:
        """Forced tokens keep the probability that the model itself gives them: nothing forbids them."""
        position = tokens.shape[1]
        adjusted = logits.float()
        if self.adjust:
            seen = tokens if self.past is None else torch.cat([self.past[sentences], tokens], 1)
            for adjust in self.adjust:
                adjusted = adjust(adjusted, seen)
        if position >= self.prefix.shape[1]:
            return self._sayable(adjusted.log_softmax(-1))
        forced = self.prefix[sentences, position]
        free = (forced < 0).unsqueeze(1)
        own = logits.float().log_softmax(-1)
        return force(torch.where(free, self._sayable(adjusted.log_softmax(-1)), own), forced)

    def _sayable(
        self, log_probabilities: Float[Tensor, "rows vocabulary"]
    ) -> Float[Tensor, "rows vocabulary"]:
        if not len(self.suppressed_tokens):
            return log_probabilities
        return log_probabilities.index_fill(1, self.suppressed_tokens, -torch.inf)


def check_numbers(best: Float[Tensor, " rows"], sentences: Int[Tensor, " rows"], length: int) -> None:
    """Refuses to go on when the best next token has no probability that a search could use."""
    usable = best.isfinite()
    if usable.all():
        return
    position = f"step {length}, sentence {int(sentences[~usable][0]) + 1}"
    if best[~usable][0].isnan():
        raise ModelError(
            f"{position}: the model gave no numbers (NaN); its weights or its precision are broken"
        )
    raise ModelError(f"{position}: no token is possible; the model rules out the forced or every token")


def _limits(sentences: int, max_length: MaxLength, device: torch.device | str) -> Int[Tensor, " sentences"]:
    if isinstance(max_length, int):
        limits = torch.full((sentences,), max_length, device=device)
    else:
        limits = max_length.to(device)
        if limits.shape != (sentences,):
            raise SettingsError(f"longest: {limits.numel()} lengths for {sentences} sentences; give one each")
    if sentences and limits.min() < 1:
        raise SettingsError(f"longest: {int(limits.min())} should be at least 1")
    return limits


def _prefix(prefix: Prefix, limits: Int[Tensor, " sentences"]) -> Int[Tensor, "sentences tokens"]:
    """The forced tokens as a table, -1 where the search is free."""
    if len(prefix) != len(limits):
        raise SettingsError(f"prefix: {len(prefix)} prefixes for {len(limits)} sentences; give one each")
    for number, (tokens, limit) in enumerate(zip(prefix, limits.tolist(), strict=True), start=1):
        if tokens and len(tokens) >= limit:
            raise SettingsError(
                f"prefix: {len(tokens)} tokens for sentence {number} leave nothing of longest {limit} to search"
            )
    width = max((len(tokens) for tokens in prefix), default=0)
    rows = [[*tokens, *[-1] * (width - len(tokens))] for tokens in prefix]
    return torch.tensor(rows, dtype=torch.long, device=limits.device).view(len(prefix), width)
