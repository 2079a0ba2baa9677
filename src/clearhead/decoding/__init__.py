"""Decoding: from next-token logits to sentences."""

from clearhead.decoding.constraints import Constraints
from clearhead.decoding.loop import DecodeLoop
from clearhead.decoding.penalties import length_normalizer, no_repeat_ngrams, repetition_penalty
from clearhead.decoding.sampling import MAX_SEED, check_sampling, sample, sampler
from clearhead.decoding.search import beam_search, check_search, greedy_search
from clearhead.decoding.step import Adjust, Hypothesis
from clearhead.decoding.topk import most_probable
from clearhead.decoding.tree import Tree

__all__ = [
    "MAX_SEED",
    "Adjust",
    "Constraints",
    "DecodeLoop",
    "Hypothesis",
    "Tree",
    "beam_search",
    "check_sampling",
    "check_search",
    "greedy_search",
    "length_normalizer",
    "most_probable",
    "no_repeat_ngrams",
    "repetition_penalty",
    "sample",
    "sampler",
]
