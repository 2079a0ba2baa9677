"""From next-word scores to sentences."""

from clearhead.decoding.guide import Guide
from clearhead.decoding.hypothesis import Hypothesis
from clearhead.decoding.penalties import length_penalty, no_repeat_ngrams, repetition_penalty
from clearhead.decoding.sampling import check_sampling, sample
from clearhead.decoding.search import beam_search, check_search, greedy_search
from clearhead.decoding.step import Adjust, State, Step

__all__ = [
    "Adjust",
    "Guide",
    "Hypothesis",
    "State",
    "Step",
    "beam_search",
    "check_sampling",
    "check_search",
    "greedy_search",
    "length_penalty",
    "no_repeat_ngrams",
    "repetition_penalty",
    "sample",
]
