"""Words linked through cross-attention."""

import pytest
import torch

from clearhead.inspection.alignment import (
    SIGN,
    Words,
    agreement,
    agreements,
    align,
    align_by_layer,
    cross_roles,
    links,
    merge_words,
    rank_aligners,
    word_numbers,
)

# <2fr> the dog </s>  ->  le ch ien </s>, in which the decoder reads <s> le ch ien.
WORDS = Words(source=[SIGN, 0, 1, SIGN], target=[0, 1, 1, SIGN])


def sharp(*keys: int) -> torch.Tensor:
    """Queries that look mostly at one key each."""
    return 0.9 * torch.nn.functional.one_hot(torch.tensor(keys), 4).float() + 0.025


def test_ids_of_a_word_have_its_number_and_signs_none():
    assert word_numbers([[6], [803, 3424], [12], [3]], signs=8) == [SIGN, 0, 0, 1, SIGN]


def test_keys_of_a_word_are_added_and_its_queries_averaged():
    weights = torch.rand(2, 4, 4).softmax(-1)
    merged = merge_words(weights, WORDS, reads=False)
    torch.testing.assert_close(merged[:, 0], weights[:, 0, 1:3])
    torch.testing.assert_close(merged[:, 1], weights[:, 1:3, 1:3].mean(1))


def test_a_head_that_looks_for_the_word_that_is_read_is_a_query_behind():
    weights = torch.rand(2, 4, 4).softmax(-1)
    merged = merge_words(weights, WORDS, reads=True)
    torch.testing.assert_close(merged[:, 0], weights[:, 1, 1:3])
    torch.testing.assert_close(merged[:, 1], weights[:, 2:4, 1:3].mean(1))


def test_words_that_choose_each_other_agree_wholly_and_those_that_choose_all_hardly():
    paired, even = torch.eye(3), torch.full((3, 3), 1 / 3)
    torch.testing.assert_close(agreement(torch.stack([paired, even])), torch.tensor([1.0, 1 / 3]))
    assert links(agreements(paired)) == {(0, 0), (1, 1), (2, 2)}
    assert links(agreements(even)) == set()


def test_the_best_aligner_is_found_with_the_way_in_which_it_aligns():
    writes, reads = sharp(1, 2, 2, 3), sharp(0, 1, 2, 2)
    sink = sharp(3, 3, 3, 3)
    layers = [torch.stack([sink, sink]), torch.stack([sink, writes])]
    best = rank_aligners([(layers, WORDS)])[0]
    assert (best.layer, best.head, best.reads) == (1, 1, False)
    assert links(align(layers, WORDS, best)) == {(0, 0), (1, 1)}
    layers[1][1] = reads
    best = rank_aligners([(layers, WORDS)])[0]
    assert (best.layer, best.head, best.reads) == (1, 1, True)
    assert links(align(layers, WORDS, best)) == {(0, 0), (1, 1)}
    assert best.name == "decoder.blocks.1.cross_attention, head 1"


def test_every_head_is_ranked_once():
    layers = [torch.rand(3, 4, 5).softmax(-1)[..., :4] for _ in range(2)]
    ranked = rank_aligners([(layers, WORDS)])
    assert sorted((one.layer, one.head) for one in ranked) == [(a, b) for a in range(2) for b in range(3)]
    assert [one.agreement for one in ranked] == sorted((one.agreement for one in ranked), reverse=True)


def test_a_layer_whose_heads_are_alike_aligns_as_one_of_them():
    weights = sharp(1, 2, 2, 3).expand(3, 4, 4)
    ranked = rank_aligners([([weights], WORDS)])
    torch.testing.assert_close(
        align_by_layer([weights], WORDS, 0, reads=False), align([weights], WORDS, ranked[0])
    )


def test_aligners_and_sinks_are_told_apart_by_role():
    weights = torch.stack([sharp(1, 2, 2, 3), sharp(3, 3, 3, 3)])
    names = [role.name for role in cross_roles(weights, 0, rank_aligners([([weights], WORDS)]))]
    assert names == ["alignment", "last"]


def test_a_translation_that_was_cut_off_is_aligned_as_far_as_it_goes():
    cut = Words(source=[0, 1, SIGN], target=[0, 1])
    merged = merge_words(torch.rand(1, 2, 3).softmax(-1), cut, reads=True)
    assert merged.shape == (1, 2, 2)
    assert merged[0, 1].sum() == pytest.approx(0)
