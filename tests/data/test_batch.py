"""A frozen dataclass of tensors becomes a batch by deriving from TensorBatch."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from clearhead.data.batch import CropBatch, PairBatch, TensorBatch


@dataclass(frozen=True)
class DigitBatch(TensorBatch):
    digits: Tensor
    labels: Tensor


@dataclass(frozen=True)
class PlanesBatch(TensorBatch):
    static_shape = True
    planes: Tensor = field(metadata={"batch_axis": 1})
    name: str = "planes"

    def count_tokens(self) -> int:
        return int((self.planes[0] > 0).sum())

    def padding_share(self) -> float:
        return 1 - self.tokens / self.planes[0].numel()


def digits(rows: int = 5) -> DigitBatch:
    return DigitBatch(torch.arange(rows * 3).view(rows, 3), torch.arange(rows))


def test_a_subclass_of_two_fields_has_every_method():
    batch = digits()
    assert (len(batch), batch.tokens, batch.padding, batch.static_shape) == (5, 5, 0.0, False)
    doubled = batch.map(lambda tensor: tensor * 2)
    assert torch.equal(doubled.digits, batch.digits * 2)
    assert doubled.labels.tolist() == [0, 2, 4, 6, 8]
    assert batch.to("meta").digits.device.type == "meta"
    assert batch.to("cpu", non_blocking=True).tokens == 5


@pytest.mark.parametrize(("count", "rows"), [(1, [5]), (2, [3, 2]), (3, [2, 2, 1]), (1 << 30, [1] * 5)])
def test_split_gives_the_rows_in_order(count, rows):
    parts = digits().split(count)
    assert [len(part) for part in parts] == [part.tokens for part in parts] == rows
    assert torch.equal(torch.cat([part.digits for part in parts]), digits().digits)
    assert torch.equal(torch.cat([part.labels for part in parts]), digits().labels)


def test_a_field_may_have_its_rows_on_another_axis():
    batch = PlanesBatch(torch.tensor([[[1, 0], [1, 1], [0, 0]], [[3, 4], [5, 6], [7, 8]]]), "two")
    assert (len(batch), batch.tokens, batch.padding) == (3, 3, 0.5)
    parts = batch.split(3)
    assert [part.tokens for part in parts] == [1, 2, 0]
    assert [part.planes.shape for part in parts] == [(2, 1, 2)] * 3
    assert {part.name for part in parts} == {"two"}


def test_counts_are_kept_when_tensors_move():
    batch = PairBatch.of([[5], [6, 7, 8]], [[9, 10], [11]])
    moved = batch.to("meta")
    assert (moved.tokens, moved.source_tokens, moved.padding) == (batch.tokens, 6, batch.padding)
    assert sum(part.tokens for part in batch.split(2)) == batch.tokens


@pytest.mark.gpu
def test_a_pinned_batch_is_page_locked():
    assert CropBatch(torch.zeros(2, 3, dtype=torch.int32)).pin().ids.is_pinned()
