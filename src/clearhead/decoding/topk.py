"""The largest values of long rows, which find the maxima of chunks first."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decoding.step import Logits, Rows

CHUNK = 128
# With fewer chunks per result, torch is as fast.
MIN_CHUNKS = 4


def has_many_chunks(values: Logits, count: int) -> bool:
    """Whether `largest_sums` finds the `count` largest faster than `topk` does."""
    return values.device.type == "cpu" and values.shape[1] // CHUNK >= MIN_CHUNKS * count


def largest_sums(
    values: Logits, offsets: Float[Tensor, "groups group_rows"], count: int
) -> tuple[Float[Tensor, "groups count"], Int[Tensor, "groups count"], Int[Tensor, "groups count"]]:
    """The `count` largest sums of each group of rows, best first, with their rows and columns.

    A sum is a value plus the offset of its row. Equal sums are in the order of row and column; which
    of them are chosen is left open if too many tie for the last position.

    On a CPU, the maximum of a chunk takes vector instructions, while `topk` compares values one by one. The
    `count` largest sums are in the `count` chunks with the largest maxima, or in the columns after the last
    whole chunk.
    """
    (groups, rows), vocabulary = offsets.shape, values.shape[1]
    chunks = vocabulary // CHUNK
    whole = values[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK))
    maxima = whole.amax(-1).view(groups, rows, chunks) + offsets[:, :, None]
    chosen = maxima.flatten(1).topk(count).indices
    first_rows = rows * torch.arange(groups)[:, None]
    row, chunk = first_rows + chosen // chunks, chosen % chunks
    sums = (whole[row, chunk] + offsets.gather(1, chosen // chunks)[:, :, None]).flatten(1)
    # The index of each sum in the flattened values.
    flat = ((row * vocabulary + CHUNK * chunk)[:, :, None] + torch.arange(CHUNK)).flatten(1)
    if rest := vocabulary - chunks * CHUNK:
        last = (values[:, -rest:].view(groups, rows, rest) + offsets[:, :, None]).flatten(1)
        ends = vocabulary * torch.arange(1, groups * rows + 1)[:, None] + torch.arange(-rest, 0)
        sums, flat = torch.cat([sums, last], 1), torch.cat([flat, ends.view(groups, -1)], 1)
    best = sums.topk(count)
    flat, by_index = flat.gather(1, best.indices).sort(1)
    order = best.values.gather(1, by_index).argsort(dim=1, descending=True, stable=True)
    flat = flat.gather(1, order)
    return best.values, flat // vocabulary, flat % vocabulary


def most_probable(log_probs: Logits, rows: Rows, position: int) -> Rows:
    """The choice of greedy search; of equally probable tokens, the first."""
    vocabulary = log_probs.shape[1]
    chunks, rest = divmod(vocabulary, CHUNK)
    if log_probs.device.type != "cpu" or chunks < MIN_CHUNKS:
        return log_probs.argmax(-1)
    maxima = log_probs[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK)).amax(-1)
    if rest:
        maxima = torch.cat([maxima, log_probs[:, -rest:].amax(-1, keepdim=True)], 1)
    columns = CHUNK * maxima.argmax(-1, keepdim=True) + torch.arange(CHUNK)
    columns = columns.clamp_(max=vocabulary - 1)
    return columns.gather(1, log_probs.gather(1, columns).argmax(-1, keepdim=True)).squeeze(1)
