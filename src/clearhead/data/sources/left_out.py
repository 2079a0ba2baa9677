"""Says what of a file is not read, once, although files are read several times."""

import logging
from collections.abc import Mapping
from functools import cache

logger = logging.getLogger(__name__)


def report_left_out(files: str, counts: Mapping[str, int]) -> None:
    """Logs how many entries are left out for each reason."""
    if any(counts.values()):
        log_once(f"{files}: entries left out: {counted_reasons(counts)}")


def counted_reasons(counts: Mapping[str, int]) -> str:
    """The reasons that occur, with their counts."""
    return ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)


@cache
def log_once(message: str) -> None:
    """Logs a message, the first time that it is called with it."""
    logger.warning(message)
