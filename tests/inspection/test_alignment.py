"""Word alignment from cross-attention."""

import pytest
import torch

from clearhead.inspection.alignment import (
    SPECIAL,
    Aligner,
    WordAlignment,
    Words,
    agreement,
    agreements,
    align,
    align_by_layer,
    cross_roles,
    links,
    merge_words,
    rank_aligners,
)

# <2fr> the dog </s>  ->  le ch ien </s>, in which the decoder reads <s> le ch ien.
WORDS = Words(source=[SPECIAL, 0, 1, SPECIAL], target=[0, 1, 1, SPECIAL])


def sharp(*keys: int) -> torch.Tensor:
    """Queries that attend mostly to one key each."""
    return 0.9 * torch.nn.functional.one_hot(torch.tensor(keys), 4).float() + 0.025


def test_merging_sums_over_the_keys_of_a_word_and_averages_over_its_queries():
    weights = torch.rand(2, 4, 4).softmax(-1)
    merged = merge_words(weights, WORDS, reads=False)
    torch.testing.assert_close(merged[:, 0], weights[:, 0, 1:3])
    torch.testing.assert_close(merged[:, 1], weights[:, 1:3, 1:3].mean(1))


def test_a_head_that_aligns_the_input_word_is_one_query_behind():
    weights = torch.rand(2, 4, 4).softmax(-1)
    merged = merge_words(weights, WORDS, reads=True)
    torch.testing.assert_close(merged[:, 0], weights[:, 1, 1:3])
    torch.testing.assert_close(merged[:, 1], weights[:, 2:4, 1:3].mean(1))


def test_agreement_is_one_for_a_pairing_and_low_for_uniform_weights():
    paired, uniform = torch.eye(3), torch.full((3, 3), 1 / 3)
    torch.testing.assert_close(agreement(torch.stack([paired, uniform])), torch.tensor([1.0, 1 / 3]))
    assert links(agreements(paired)) == {(0, 0), (1, 1), (2, 2)}
    assert links(agreements(uniform)) == set()


def test_the_best_aligner_is_found_for_input_and_for_predicted_words():
    predicts, reads = sharp(1, 2, 2, 3), sharp(0, 1, 2, 2)
    sink = sharp(3, 3, 3, 3)
    layers = [torch.stack([sink, sink]), torch.stack([sink, predicts])]
    best = rank_aligners([(layers, WORDS)])[0]
    assert (best.layer, best.head, best.reads) == (1, 1, False)
    assert links(align(layers, WORDS, best)) == {(0, 0), (1, 1)}
    layers[1][1] = reads
    best = rank_aligners([(layers, WORDS)])[0]
    assert (best.layer, best.head, best.reads) == (1, 1, True)
    assert links(align(layers, WORDS, best)) == {(0, 0), (1, 1)}


def test_an_alignment_is_named_after_its_head():
    merged = torch.eye(2)
    words = WordAlignment(
        "decoder.blocks.1.cross_attention", Aligner(1, 1, True, 1.0), ["a", "b"], ["c", "d"], merged, merged
    )
    assert words.name == "decoder.blocks.1.cross_attention, head 1"
    assert str(words) == "c – a, d – b"


def test_every_head_is_ranked_once():
    layers = [torch.rand(3, 4, 5).softmax(-1)[..., :4] for _ in range(2)]
    ranked = rank_aligners([(layers, WORDS)])
    assert sorted((one.layer, one.head) for one in ranked) == [(a, b) for a in range(2) for b in range(3)]
    assert [one.agreement for one in ranked] == sorted((one.agreement for one in ranked), reverse=True)


def test_a_layer_of_equal_heads_aligns_like_one_of_them():
    weights = sharp(1, 2, 2, 3).expand(3, 4, 4)
    ranked = rank_aligners([([weights], WORDS)])
    torch.testing.assert_close(
        align_by_layer([weights], WORDS, 0, reads=False), align([weights], WORDS, ranked[0])
    )


def test_roles_distinguish_aligners_from_sinks():
    weights = torch.stack([sharp(1, 2, 2, 3), sharp(3, 3, 3, 3)])
    names = [role.name for role in cross_roles(weights, 0, rank_aligners([([weights], WORDS)]))]
    assert names == ["alignment", "last"]


def test_an_incomplete_translation_is_aligned_up_to_its_end():
    cut = Words(source=[0, 1, SPECIAL], target=[0, 1])
    merged = merge_words(torch.rand(1, 2, 3).softmax(-1), cut, reads=True)
    assert merged.shape == (1, 2, 2)
    assert merged[0, 1].sum() == pytest.approx(0)
