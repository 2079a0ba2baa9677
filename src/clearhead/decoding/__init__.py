"""From next-word scores to sentences."""

from clearhead.decoding.constraints import Guide
from clearhead.decoding.hypothesis import Hypothesis
from clearhead.decoding.loop import Walk, most_probable
from clearhead.decoding.penalties import length_penalty, no_repeat_ngrams, repetition_penalty
from clearhead.decoding.sampling import LARGEST_SEED, check_sampling, drawn, sample
from clearhead.decoding.search import beam_search, check_search, greedy_search
from clearhead.decoding.step import Adjust, State, Step
from clearhead.decoding.tree import Node, Tree

__all__ = [
    "LARGEST_SEED",
    "Adjust",
    "Guide",
    "Hypothesis",
    "Node",
    "State",
    "Step",
    "Tree",
    "Walk",
    "beam_search",
    "check_sampling",
    "check_search",
    "drawn",
    "greedy_search",
    "length_penalty",
    "most_probable",
    "no_repeat_ngrams",
    "repetition_penalty",
    "sample",
]
