"""Options of translation: how the model searches for a translation, or samples it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field, PositiveInt

from clearhead.config import Settings
from clearhead.decoding import (
    MAX_SEED,
    Adjust,
    check_sampling,
    check_search,
    no_repeat_ngrams,
    repetition_penalty,
)
from clearhead.errors import SettingsError
from clearhead.options import Options


class SearchConfig(Settings):
    """Default search settings of the finished model."""

    beam: PositiveInt = 5
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 0.6
    """Exponent of the length penalty; 0 ignores length."""


@dataclass(frozen=True)
class Sampling(Options):
    """Sample translations instead of searching for the best one."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.seed <= MAX_SEED:
            raise SettingsError(f"seed: {self.seed} should be from 0 to {MAX_SEED}")
        check_sampling(self.temperature, self.top_k, self.top_p, self.min_p)


@dataclass(frozen=True)
class TranslateOptions(Options):
    """How to decode: beam search (a beam of 1 is greedy), or sampling."""

    beam: int | None = None
    """Default: the model's own setting."""
    nbest: int = 1
    length_penalty: float | None = None
    """Exponent of the length penalty. Default: the model's own setting."""
    prefix: str | Sequence[int] = ""
    """Forced start of each translation: a text, or token ids."""
    repetition_penalty: float = 1.0
    """Above 1, tokens that occurred before become less likely."""
    no_repeat: int = 0
    """No n-gram of this size occurs twice; 0 allows any."""
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling:
            if self.nbest > 1:
                raise SettingsError(
                    f"nbest: {self.nbest} needs beam search; sample with several seeds instead"
                )
            for name in ("beam", "length_penalty"):
                if getattr(self, name) is not None:
                    raise SettingsError(
                        f"{name}: {getattr(self, name)} has no effect on sampling; leave it out"
                    )
        check_search(1 if self.beam is None else self.beam, 1, self.length_penalty or 0.0)
        if self.no_repeat < 0:
            raise SettingsError(f"no_repeat: {self.no_repeat} should be at least 0 (0 allows any)")
        self.adjustments()

    @property
    def is_plain(self) -> bool:
        """Whether it is a search for the best translation without constraints."""
        return self.nbest == 1 and not self.prefix and not self.sampling and not self.adjustments()

    def adjustments(self) -> list[Adjust]:
        """The penalties on the logits."""
        adjustments = []
        if self.repetition_penalty != 1:
            adjustments.append(repetition_penalty(self.repetition_penalty))
        if self.no_repeat:
            adjustments.append(no_repeat_ngrams(self.no_repeat))
        return adjustments

    def resolved(self, search: SearchConfig) -> "TranslateOptions":
        """The same options, with a model's own settings as defaults."""
        if self.sampling:
            return self
        beam = search.beam if self.beam is None else self.beam
        penalty = search.length_penalty if self.length_penalty is None else self.length_penalty
        check_search(beam, self.nbest, penalty)
        return replace(self, beam=beam, length_penalty=penalty)
