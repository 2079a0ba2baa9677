"""Comparing vectors."""

import torch

from clearhead.inspection.vectors import nearest, position_similarity
from clearhead.layers.positions import Rotary, Sinusoidal, make_position, make_relative


def test_the_nearest_row_is_the_row_itself_unless_excluded():
    matrix = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    (first, cosine), *_ = nearest(matrix, matrix[7], 3)
    assert first == 7
    assert abs(cosine - 1) < 1e-5
    assert 7 not in dict(nearest(matrix, matrix[7], 19, {7}))
    assert len(nearest(matrix, matrix[7], 50, {7, 8})) == 18


def test_cosines_do_not_depend_on_norms():
    matrix = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    longer = matrix * torch.arange(1, 11)[:, None]
    assert [one for one, _ in nearest(matrix, matrix[0], 5)] == [
        one for one, _ in nearest(longer, matrix[0], 5)
    ]


def test_rows_of_added_positions_are_the_added_vectors():
    position = make_position("sinusoidal", 16, 32)
    assert isinstance(position, Sinusoidal)
    table = position_similarity(position, make_relative("sinusoidal", 2, 8, 32), 20, 16)
    assert table is not None
    torch.testing.assert_close(table.rows, position.table[:20])


def test_rotary_similarity_depends_on_distance_alone():
    relative = make_relative("rotary", 2, 8, 32)
    assert isinstance(relative, Rotary)
    table = position_similarity(make_position("rotary", 16, 32), relative, 20, 16)
    assert table is not None
    for distance in range(20):
        along = table.similarity.diagonal(distance)
        torch.testing.assert_close(along, along[:1].expand_as(along), atol=1e-5, rtol=0)
