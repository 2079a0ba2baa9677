"""What every search obeys: maximum lengths, forced prefixes, adjusted and suppressed tokens."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decoding.penalties import force
from clearhead.decoding.step import Adjust, Logits, Rows
from clearhead.errors import ModelError, SettingsError

MaxLength = int | Int[Tensor, " limits"]
Prefix = Sequence[Sequence[int]]


class Constraints:
    """Turns a model's logits into the log-probabilities that a search chooses by; checked once, up front.

    `start` is the first token of each sentence, or the texts to continue, (sentences, tokens): adjustments
    see all of their tokens, and the last is fed first. `end` ends a sentence; there may be several. A search
    takes at most `max_length` steps, the end included. `prefix` forces the first tokens of each sentence.
    `suppressed_tokens` are never chosen; the others keep their probabilities.
    """

    def __init__(
        self,
        start: Int[Tensor, " sentences"] | Int[Tensor, "sentences past"],
        end: int | Sequence[int],
        max_length: MaxLength,
        prefix: Prefix | None = None,
        adjust: Sequence[Adjust] = (),
        suppressed_tokens: Sequence[int] = (),
    ):
        self.sentences, self.device = len(start), start.device
        self.ends = (end,) if isinstance(end, int) else tuple(end)
        self.past = start if start.ndim == 2 else None
        self.first = start if self.past is None else start[:, -1]
        self.adjust = tuple(adjust)
        self.limits = _limits(self.sentences, max_length, self.device)
        self.min_limit, self.max_length = map(int, self.limits.aminmax()) if self.sentences else (0, 0)
        self.prefix = _prefix_table(prefix or [()] * self.sentences, self.limits)
        self.suppressed_tokens = torch.tensor(suppressed_tokens, dtype=torch.long, device=self.device)

    @property
    def end(self) -> int:
        """The end token, for a search that supports only one."""
        (end,) = self.ends
        return end

    def log_probs(self, logits: Logits, tokens: Int[Tensor, "rows tokens"], sentences: Rows) -> Logits:
        """Log-probabilities after adjustments and suppression; forced tokens keep the model's own."""
        position = tokens.shape[1]
        adjusted = logits.float()
        if self.adjust:
            history = tokens if self.past is None else torch.cat([self.past[sentences], tokens], 1)
            for adjust in self.adjust:
                adjusted = adjust(adjusted, history)
        if position >= self.prefix.shape[1]:
            return self._suppress(adjusted.log_softmax(-1))
        forced = self.prefix[sentences, position]
        free = (forced < 0).unsqueeze(1)
        own = logits.float().log_softmax(-1)
        return force(torch.where(free, self._suppress(adjusted.log_softmax(-1)), own), forced)

    def _suppress(self, log_probs: Logits) -> Logits:
        """Rules the suppressed tokens out, in place."""
        if not len(self.suppressed_tokens):
            return log_probs
        return log_probs.index_fill_(1, self.suppressed_tokens, -torch.inf)


def check_finite(best: Float[Tensor, " rows"], sentences: Rows, step: int) -> None:
    """Raises ModelError if the best next token of a row is NaN or impossible."""
    finite = best.isfinite()
    if finite.all():
        return
    where = f"step {step}, sentence {int(sentences[~finite][0]) + 1}"
    if best[~finite][0].isnan():
        raise ModelError(f"{where}: the model's output is NaN; its weights or its precision are broken")
    raise ModelError(f"{where}: no token is possible; the model rules out the forced token or every token")


def _limits(sentences: int, max_length: MaxLength, device: torch.device) -> Int[Tensor, " sentences"]:
    if isinstance(max_length, int):
        limits = torch.full((sentences,), max_length, device=device)
    else:
        limits = max_length.to(device)
        if limits.shape != (sentences,):
            raise SettingsError(
                f"max_length: {limits.numel()} lengths for {sentences} sentences; give one each"
            )
    if sentences and limits.min() < 1:
        raise SettingsError(f"max_length: {int(limits.min())} should be at least 1")
    return limits


def _prefix_table(prefix: Prefix, limits: Int[Tensor, " sentences"]) -> Int[Tensor, "sentences tokens"]:
    """The forced tokens as a table, -1 where the search is free."""
    if len(prefix) != len(limits):
        raise SettingsError(f"prefix: {len(prefix)} prefixes for {len(limits)} sentences; give one each")
    for number, (tokens, limit) in enumerate(zip(prefix, limits.tolist(), strict=True), start=1):
        if tokens and len(tokens) >= limit:
            raise SettingsError(
                f"prefix: the {len(tokens)} tokens of sentence {number} reach its max_length {limit}; "
                "shorten them"
            )
    width = max((len(tokens) for tokens in prefix), default=0)
    rows = [[*tokens, *[-1] * (width - len(tokens))] for tokens in prefix]
    return torch.tensor(rows, dtype=torch.long, device=limits.device).view(len(prefix), width)
