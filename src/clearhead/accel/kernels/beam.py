"""A step of beam search for all sentences at once, after the logits: one program per sentence.

In torch the same takes a hundred small kernels, which last longer than the model's own at small batches. The
logits are read once, by `summarize`; the best tokens are in the chunks with the largest maxima.
"""

# Triton compiles these functions itself; its types describe neither launches nor constants.
# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from clearhead.accel.kernels.readout import CHUNK, summarize

# Maxima that one program compares: rows of a beam times chunks of the vocabulary, both to a power of two.
MOST_MAXIMA = 16384
# Columns of the paths that are copied at a time.
COLUMNS = 64


@triton.jit
def _pick(values, index):
    """The entry of a vector at each index."""
    number = tl.arange(0, values.shape[0])
    return tl.sum(
        tl.where(index[:, None] == number[None, :], values[None, :], tl.zeros_like(values)[None, :]), 1
    )


@triton.jit
def _largest(values, count: tl.constexpr, tile: tl.constexpr):
    """The `count` largest values of a vector, the largest first, and where they are; -1 if there is none."""
    number, column = tl.arange(0, tile), tl.arange(0, values.shape[0])
    best = tl.full((tile,), -float("inf"), tl.float32)
    found = tl.full((tile,), -1, tl.int32)
    for rank in range(count):
        value, at = tl.max(values, 0), tl.argmax(values, 0)
        is_new = number == tl.where(value > -float("inf"), rank, -1)
        best, found = tl.where(is_new, value, best), tl.where(is_new, at, found)
        values = tl.where(column == at, -float("inf"), values)
    return best, found


@triton.jit
def _advance(
    logits, parts, maxima, sums, lengths, limits, running, broken,
    best_score, best_sum, best_length, best_complete, best_tokens, best_log_probs,
    tokens, log_probs, table, last, parents, normalizers,
    row_stride, vocabulary, part_count, chunk_count, capacity, end,
    beam: tl.constexpr, count: tl.constexpr, rows: tl.constexpr, candidates: tl.constexpr,
    part_tile: tl.constexpr, chunk_tile: tl.constexpr, chunk: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    slot = tl.program_id(0).to(tl.int64)
    if tl.load(running + slot) != 0:
        # The chunks with the largest maxima, and in them the best candidates.
        number, row_number = tl.arange(0, candidates), tl.arange(0, rows)
        row, is_row = slot * beam + row_number, row_number < beam
        part = tl.arange(0, part_tile)
        valid = is_row[:, None] & (part < part_count)[None, :]
        summed = tl.load(parts + row[:, None] * part_count + part[None, :], mask=valid, other=-float("inf"))
        top = tl.where(is_row, tl.max(summed, 1), 0.0)
        total = tl.log(tl.where(is_row, tl.sum(tl.exp(summed - top[:, None]), 1), 1.0)) + top
        before = tl.load(sums + row, mask=is_row, other=-float("inf"))
        shift = tl.where(before > -float("inf"), before - total, -float("inf"))
        # A NaN differs from itself; it would be lost among the maxima.
        invalid = tl.max(tl.where(shift != shift, 1, 0), 0) > 0
        which = tl.arange(0, chunk_tile)
        valid = is_row[:, None] & (which < chunk_count)[None, :]
        highest = tl.load(
            maxima + row[:, None] * chunk_count + which[None, :], mask=valid, other=-float("inf")
        )
        highest = tl.reshape(highest + shift[:, None], (rows * chunk_tile,))
        _, chosen = _largest(highest, count, candidates)
        chosen_row, first = chosen // chunk_tile, chosen % chunk_tile * chunk
        token = first[:, None] + tl.arange(0, chunk)[None, :]
        at = (slot * beam + chosen_row)[:, None] * row_stride + token
        valid = (chosen >= 0)[:, None] & (token < vocabulary)
        value = tl.load(logits + at, mask=valid, other=-float("inf")).to(tl.float32)
        value = tl.where(valid, value + _pick(shift, chosen_row)[:, None], -float("inf"))
        sum_log_prob, found = _largest(tl.reshape(value, (candidates * chunk,)), count, candidates)
        exists = found >= 0
        found = tl.where(exists, found, 0)
        parent = _pick(chosen_row, found // chunk)
        token = _pick(first, found // chunk) + found % chunk
        log_prob = sum_log_prob - _pick(tl.where(is_row, before, 0.0), parent)
        invalid = invalid | (tl.max(sum_log_prob, 0) == -float("inf"))

        # The best of those that ended, or the best open one at the maximum length.
        length, limit = tl.load(lengths + slot * beam), tl.load(limits + slot)
        score = sum_log_prob / tl.load(normalizers + length)
        ended = exists & (token == end)
        is_open = exists & (token != end)
        done = tl.where(ended & (number < beam), score, -float("inf"))
        old = tl.load(best_score + slot)
        better = tl.max(done, 0) > old
        opened = tl.cumsum(is_open.to(tl.int32), 0) - 1
        closed = tl.cumsum(ended.to(tl.int32), 0) - 1 + tl.sum(is_open.to(tl.int32), 0)
        rank = tl.where(is_open, opened, tl.where(ended, closed, candidates))
        at_limit = length >= limit
        finishes = better | (at_limit & (tl.load(best_complete + slot) == 0))
        is_best = tl.where(better, number == tl.argmax(done, 0), rank == 0)
        best = tl.where(finishes, tl.sum(tl.where(is_best, score, 0.0), 0), old)
        if finishes:
            path = slot * beam + tl.sum(tl.where(is_best, parent, 0), 0)
            tl.store(best_score + slot, best)
            tl.store(best_sum + slot, tl.sum(tl.where(is_best, sum_log_prob, 0.0), 0))
            tl.store(best_length + slot, length)
            tl.store(best_complete + slot, tl.where(better, 1, 0).to(tl.int64))
            final, final_log_prob = (
                tl.sum(tl.where(is_best, token, 0), 0),
                tl.sum(tl.where(is_best, log_prob, 0.0), 0),
            )
            for start in range(0, length, columns):
                column = start + tl.arange(0, columns)
                kept, is_last = column < length, column == length - 1
                old_tokens = tl.load(tokens + path * capacity + column, mask=kept, other=0)
                old_log_probs = tl.load(log_probs + path * capacity + column, mask=kept, other=0.0)
                entry = slot * capacity + column
                tl.store(best_tokens + entry, tl.where(is_last, final, old_tokens), mask=kept)
                tl.store(best_log_probs + entry, tl.where(is_last, final_log_prob, old_log_probs), mask=kept)

        # No continuation of the best open hypothesis can score above this bound.
        bound = tl.sum(tl.where(rank == 0, sum_log_prob, 0.0), 0) / tl.load(normalizers + limit)
        stops = (best >= bound) | at_limit | invalid
        if beam == 1:
            stops = stops | finishes
        tl.store(running + slot, tl.where(stops, 0, 1).to(tl.uint8))
        if invalid:
            tl.store(broken + slot, tl.full((), 1, tl.uint8))

        # The rows of the open hypotheses continue those of their parents.
        if not stops:
            kept_row, is_kept = slot * beam + rank, rank < beam
            tl.store(sums + kept_row, sum_log_prob, mask=is_kept)
            tl.store(last + kept_row, token.to(tl.int64), mask=is_kept)
            tl.store(parents + kept_row, parent.to(tl.int64), mask=is_kept)
            tl.debug_barrier()
            from_row = slot * beam + tl.load(parents + row, mask=is_row, other=0)
            for start in range(0, length, columns):
                column = start + tl.arange(0, columns)
                moved = is_row[:, None] & (column < length)[None, :]
                source = from_row[:, None] * capacity + column[None, :]
                moved_tokens = tl.load(tokens + source, mask=moved, other=0)
                moved_log_probs = tl.load(log_probs + source, mask=moved, other=0.0)
                moved_table = tl.load(table + source, mask=moved, other=0)
                tl.debug_barrier()
                target = row[:, None] * capacity + column[None, :]
                tl.store(tokens + target, moved_tokens, mask=moved)
                tl.store(log_probs + target, moved_log_probs, mask=moved)
                tl.store(table + target, moved_table, mask=moved)
            tl.debug_barrier()
            newest = kept_row * capacity + length - 1
            tl.store(tokens + newest, token.to(tl.int64), mask=is_kept)
            tl.store(log_probs + newest, log_prob, mask=is_kept)
            tl.store(table + row * capacity + length, row, mask=is_row)
            tl.store(lengths + row, length + 1 + tl.zeros_like(row), mask=is_row)


def fits(vocabulary: int, beam: int) -> bool:
    """Whether one program can compare all chunks of a sentence."""
    chunks = triton.next_power_of_2(triton.cdiv(vocabulary, CHUNK))
    return bool(triton.next_power_of_2(beam) * chunks <= MOST_MAXIMA)


def advance(logits: Tensor, search: Any) -> None:
    """Advances a `SlotSearch` by the logits of its rows, in place."""
    state, best, beam = search.state, search.best, search.state.beam
    parts, maxima = summarize(logits)
    count = 1 if beam == 1 else 2 * beam
    _advance[(state.slots,)](
        logits, parts, maxima, search.sums, state.lengths, search.limits,
        search.running.view(torch.uint8), search.broken.view(torch.uint8),
        best.score, best.sum_log_prob, best.length, best.complete, best.tokens, best.log_probs,
        search.tokens, search.log_probs, state.table, search.last, search.parents, search.normalizers,
        logits.stride(0), logits.shape[1], parts.shape[1], maxima.shape[1], state.capacity, search.end,
        beam, count, triton.next_power_of_2(beam), triton.next_power_of_2(count),
        triton.next_power_of_2(parts.shape[1]), triton.next_power_of_2(maxima.shape[1]), CHUNK, COLUMNS,
        num_warps=4,
    )  # fmt: skip
