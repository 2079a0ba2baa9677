"""The search for translations: from the ids of sources to hypotheses, in batches of similar length."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from clearhead.data.batch import PairBatch
from clearhead.decoding import Constraints, Hypothesis, Tree, beam_search, greedy_search, sample
from clearhead.errors import SettingsError
from clearhead.models import EncoderDecoder
from clearhead.models.slots import SlotEngine
from clearhead.tasks.scoring import by_length
from clearhead.tasks.translation.options import TranslateOptions
from clearhead.tasks.translation.shortlist_engine import ShortlistEngine, WholeVocabulary
from clearhead.tasks.translation.slots import search_all_in_slots
from clearhead.text.normalize import normalize
from clearhead.text.tokenizer import Tokenizer

# Maximum number of tokens that a translation has more than its source (Vaswani et al. 2017).
EXTRA_TOKENS = 50
# Maximum of rows times source length in a batch; on a CPU, larger batches are not faster.
BATCH_TOKENS = 4096
GPU_BATCH_TOKENS = 16384


@dataclass(frozen=True, repr=False)
class Translation:
    """A translation; `str()` gives the text."""

    source: str
    text: str
    score: float
    """The log-probability divided by the length penalty."""
    sum_log_prob: float = 0.0
    complete: bool = True
    """False if it reached the maximum length."""
    nbest: tuple["Translation", ...] = ()
    """The n best translations, this one first."""
    too_long: bool = False
    """True if the source exceeds the model's maximum length, so that it was not translated."""
    ids: tuple[int, ...] = ()
    """The token ids that the search found; the ids of the text may be others."""

    @classmethod
    def of(cls, source: str, found: Sequence[Hypothesis], tokenizer: Tokenizer) -> "Translation":
        """The translation of a source by its hypotheses; without any, a blank one."""
        if not found:
            return cls(source, "", 0.0)
        made = [
            (source, tokenizer.decode(one.tokens), one.score, one.sum_log_prob, one.complete) for one in found
        ]
        ids = [tuple(one.tokens) for one in found]
        nbest = tuple(cls(*fields, ids=tokens) for fields, tokens in zip(made, ids, strict=True))
        return cls(*made[0], nbest=nbest, ids=ids[0])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        note = ", too long" if self.too_long else "" if self.complete else ", cut off"
        more = f", {len(self.nbest)} best" if len(self.nbest) > 1 else ""
        return f"Translation({self.source!r} → {self.text!r}, score {self.score:.4f}{note}{more})"


def search_all(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    options: TranslateOptions,
    before: int = 0,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, best first; of an empty source none.

    `before` counts earlier sources, for the seed of each.
    """
    if isinstance(model, SlotEngine) and options.is_plain:
        return _best_in_slots(model, sources, options)
    found: list[list[Hypothesis]] = [[] for _ in sources]
    budget = BATCH_TOKENS if model.readout_weight.device.type == "cpu" else GPU_BATCH_TOKENS
    for rows in by_length([len(ids) for ids in sources], budget):
        numbers = [before + row for row in rows]
        hypotheses = search(model, tokenizer, [sources[row] for row in rows], numbers, options)
        for row, best in zip(rows, hypotheses, strict=True):
            found[row] = best
    return found


@torch.inference_mode()
def _best_in_slots(
    engine: SlotEngine, sources: Sequence[list[int]], options: TranslateOptions
) -> list[list[Hypothesis]]:
    """The best hypothesis of each source, with continuous batching."""
    most = engine.config.max_tokens
    limits = [min(len(source) + 1 + EXTRA_TOKENS, most) for source in sources]
    return search_all_in_slots(engine, sources, limits, options.beam or 1, options.length_penalty or 0.0)


@torch.inference_mode()
def search(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    sources: list[list[int]],
    numbers: list[int],
    options: TranslateOptions,
    tree: Tree | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source in one batch, best first; their numbers make the seeds of sampling."""
    device = model.readout_weight.device
    batch = PairBatch.of(sources, [[] for _ in sources]).to(device)
    state = model.start(batch.source, batch.source_lengths)
    max_length = (batch.source_lengths + EXTRA_TOKENS).clamp(max=model.config.max_tokens)
    forced = prefix_ids(tokenizer, options.prefix)
    limited = isinstance(model, ShortlistEngine)
    vocabulary = model.vocabulary(sources, forced) if limited else WholeVocabulary(model)
    prefix = [vocabulary.numbered(forced)] * len(sources) if forced else None
    start = torch.full((len(sources),), vocabulary.bos, device=device)
    constraints = Constraints(start, vocabulary.eos, max_length, prefix, options.adjustments())
    step = vocabulary.step
    penalty = options.length_penalty or 0.0
    if sampling := options.sampling:
        seeds = [sampling.seed + number for number in numbers]
        filters = (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)
        found = [[one] for one in sample(step, state, constraints, seeds, *filters)]
    elif (options.beam or 1) == 1 and not tree:
        found = [[one] for one in greedy_search(step, state, constraints, penalty)]
    else:
        found = beam_search(step, state, constraints, options.beam or 1, penalty, options.nbest, tree)
    return vocabulary.restored(found)


def prefix_ids(tokenizer: Tokenizer, prefix: str | Sequence[int]) -> list[int]:
    """The ids of a forced start, given as a text or as ids."""
    if isinstance(prefix, str):
        return tokenizer.for_targets.encode(normalize(prefix)) if prefix else []
    for number in prefix:
        if number in tokenizer.special_ids or not 0 <= number < tokenizer.size:
            raise SettingsError(f"prefix: {number} is not the id of a text token; give such ids, or a text")
    return list(prefix)
