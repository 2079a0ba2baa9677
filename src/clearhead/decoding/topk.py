"""Top-k and argmax of long rows, which find the maxima of chunks first."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decoding.step import Logits, Rows

CHUNK = 128
# With fewer chunks per result, torch is as fast.
MIN_CHUNKS = 4


def chunked_topk(values: Logits, count: int) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """The largest values of each row in descending order, and their columns, as `topk` returns them.

    On a CPU, the maximum of a chunk takes vector instructions, while `topk` compares values one by one. The
    `count` largest values are in the `count` chunks with the largest maxima.
    """
    chunks = values.shape[1] // CHUNK
    if values.device.type != "cpu" or chunks < MIN_CHUNKS * count:
        return values.topk(count)
    whole = values[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK))
    chosen = whole.amax(-1).topk(count).indices
    candidates = whole.gather(1, chosen[:, :, None].expand(-1, -1, CHUNK)).flatten(1)
    columns = (CHUNK * chosen[:, :, None] + torch.arange(CHUNK)).flatten(1)
    if rest := values.shape[1] - chunks * CHUNK:
        candidates = torch.cat([candidates, values[:, -rest:]], 1)
        last = torch.arange(chunks * CHUNK, values.shape[1]).expand(len(values), -1)
        columns = torch.cat([columns, last], 1)
    found = candidates.topk(count)
    return found.values, columns.gather(1, found.indices)


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
