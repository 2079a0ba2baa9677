"""Vectors compared with each other."""

import torch

from clearhead.inspection.vectors import compared_places, nearest
from clearhead.layers.positions import Rotary, Sinusoidal, make_position, make_relative


def test_the_nearest_to_a_row_is_itself_unless_it_is_left_out():
    matrix = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    (first, cosine), *_ = nearest(matrix, matrix[7], 3)
    assert first == 7
    assert abs(cosine - 1) < 1e-5
    assert 7 not in dict(nearest(matrix, matrix[7], 19, {7}))
    assert len(nearest(matrix, matrix[7], 50, {7, 8})) == 18


def test_cosines_do_not_depend_on_lengths():
    matrix = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    longer = matrix * torch.arange(1, 11)[:, None]
    assert [one for one, _ in nearest(matrix, matrix[0], 5)] == [
        one for one, _ in nearest(longer, matrix[0], 5)
    ]


def test_the_table_of_added_positions_is_what_the_model_adds():
    position = make_position("sinusoidal", 16, 32)
    assert isinstance(position, Sinusoidal)
    table = compared_places("sinusoidal", position, make_relative("sinusoidal", 2, 8, 32), 20, 16)
    assert table is not None
    torch.testing.assert_close(table.rows, position.table[:20])


def test_turned_places_are_alike_by_their_distance_alone():
    relative = make_relative("rotary", 2, 8, 32)
    assert isinstance(relative, Rotary)
    table = compared_places("rotary", make_position("rotary", 16, 32), relative, 20, 16)
    assert table is not None
    for distance in range(20):
        along = table.similarity.diagonal(distance)
        torch.testing.assert_close(along, along[:1].expand_as(along), atol=1e-5, rtol=0)
