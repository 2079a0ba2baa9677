"""Subtitles (SRT): one file as text, or two of the same film as pairs."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from clearhead.data.pair import Pair
from clearhead.data.sources.left_out import log_once, report_left_out
from clearhead.data.sources.plain_text import TextChunk, text_documents
from clearhead.data.sources.streams import lines
from clearhead.errors import DataError
from clearhead.wording import counted

TIME = r"(?:(\d+):)?(\d{1,2}):(\d{1,2})[,.](\d{1,3})"
TIMES = re.compile(rf"\s*{TIME}\s*-->\s*{TIME}.*")
# Formatting, such as <i> or {\an8}.
TAG = re.compile(r"</?[a-zA-Z][^<>]*>|\{\\[^{}]*\}")
# Two cues belong together if they overlap for more than this share of the shorter one.
OVERLAP = 0.5
# Below this share of cues with a counterpart, the times are those of another version.
ENOUGH = 0.5


class Cue(NamedTuple):
    """A text and when it is shown, in seconds."""

    start: float
    end: float
    text: str


def read_srt_text(path: Path, field: str | None = None) -> Iterator[TextChunk]:
    """The texts of all cues as one document, a line each."""
    return text_documents([("".join(f"{cue.text}\n" for cue in read_cues(path)),)])


def read_srt_pairs(source: Path, target: Path) -> Iterator[Pair]:
    """The texts that are shown at the same time; if the times differ, those with the same number."""
    ours, theirs = read_cues(source), read_cues(target)
    groups = align(ours, theirs)
    matched = sum(len(mine) + len(others) for mine, others in groups)
    if matched < ENOUGH * (len(ours) + len(theirs)):
        if len(ours) != len(theirs):
            share = matched / (len(ours) + len(theirs))
            raise DataError(
                f"{source} has {counted(len(ours), 'subtitle')} and {target} {len(theirs):,}, and "
                f"{share:.0%} are shown at the same time; name files of the same version of the film"
            )
        log_once(f"{source} and {target}: paired by number, because their times differ")
        groups = [([mine], [other]) for mine, other in zip(ours, theirs, strict=True)]
        matched = 2 * len(groups)
    left_out = len(ours) + len(theirs) - matched
    report_left_out(f"{source} and {target}", {"without a counterpart": left_out})
    for mine, others in groups:
        yield Pair(" ".join(cue.text for cue in mine), " ".join(cue.text for cue in others))


def align(ours: Sequence[Cue], theirs: Sequence[Cue]) -> list[tuple[list[Cue], list[Cue]]]:
    """The groups of cues that are shown together, in order; a long cue may meet several short ones."""
    groups: list[tuple[list[int], list[int]]] = []
    first = 0
    for number, cue in enumerate(ours):
        while first < len(theirs) and theirs[first].end <= cue.start:
            first += 1
        for other in range(first, len(theirs)):
            if theirs[other].start >= cue.end:
                break
            if _shown_together(cue, theirs[other]):
                if not groups or (number > groups[-1][0][-1] and other > groups[-1][1][-1]):
                    groups.append(([], []))
                mine, others = groups[-1]
                mine += [number] if number not in mine[-1:] else []
                others += [other] if other not in others else []
    return [([ours[one] for one in mine], [theirs[one] for one in others]) for mine, others in groups]


def read_cues(path: Path) -> list[Cue]:
    """The cues of a file in the order of time, without formatting; each text is on one line."""
    rows = list(lines(path))
    starts = [(number, found) for number, row in enumerate(rows) if (found := TIMES.fullmatch(row))]
    cues = []
    for (number, times), (following, _) in pairwise([*starts, (len(rows), None)]):
        assert times is not None
        block = rows[number + 1 : following]
        if following < len(rows) and block and block[-1].strip().isdecimal():
            block.pop()  # the number of the next cue
        text = " ".join(TAG.sub("", " ".join(block)).split())
        if text:
            cues.append(Cue(_seconds(times.groups()[:4]), _seconds(times.groups()[4:]), text))
    if not cues:
        raise DataError(
            f"{path}: has no subtitles; each needs a line such as 00:00:01,000 --> 00:00:04,000 and a text"
        )
    return sorted(cues, key=lambda cue: cue.start)


def _shown_together(one: Cue, other: Cue) -> bool:
    shorter = max(min(one.end - one.start, other.end - other.start), 1e-3)
    return min(one.end, other.end) - max(one.start, other.start) > OVERLAP * shorter


def _seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, fraction = parts
    whole = 3600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    return whole + int((fraction or "0").ljust(3, "0")) / 1000
