"""Reads the files of the tiktoken library: one token per line, in base64, with its id (rank)."""

import base64
import gzip
import lzma
from collections import Counter
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers

from clearhead.errors import ModelError
from clearhead.text.kinds import byte_characters

# How cl100k_base splits text before it merges bytes.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# No model has higher ids: a file with such a rank is not a tiktoken file.
HIGHEST_RANK = 10_000_000


def read_ranks(path: Path) -> dict[bytes, int]:
    """Tokens and their ids; the file may be compressed (.xz, .gz)."""
    open_file = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    ranks: dict[bytes, int] = {}
    try:
        with open_file(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    token, rank = _entry(line, f"{path}, line {number}")
                    ranks[token] = rank
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise ModelError(f"{path}: cut short or not compressed: {error}; download it again") from None
    if len(set(ranks.values())) < len(ranks):
        twice = next(rank for rank, times in Counter(ranks.values()).items() if times > 1)
        raise ModelError(f"{path}: rank {twice} occurs twice; download it again")
    if missing := [byte for byte in range(0x100) if bytes([byte]) not in ranks]:
        raise ModelError(f"{path}: no rank for byte {missing[0]}; the file is incomplete, download it again")
    return ranks


def _entry(line: bytes, where: str) -> tuple[bytes, int]:
    try:
        token, rank = base64.b64decode(line.split()[0], validate=True), int(line.split()[1])
        if token and 0 <= rank < HIGHEST_RANK:
            return token, rank
    except (ValueError, IndexError):
        pass
    shown = line[:40].decode(errors="backslashreplace").strip()
    raise ModelError(f"{where}: {shown!r} is not a base64 token and its rank")


def byte_level(ranks: dict[bytes, int]) -> tokenizers.Tokenizer:
    """A byte-level tokenizer of the library with these ids.

    tiktoken has no list of merges: two pieces merge if together they are a token, the lowest rank first. So
    every way to divide a token in two becomes a merge.
    """
    characters = byte_characters()
    names = {token: "".join(characters[byte] for byte in token) for token in ranks}
    merges = [
        (names[token[:cut]], names[token[cut:]])
        for token in sorted(ranks, key=ranks.__getitem__)
        for cut in range(1, len(token))
        if token[:cut] in ranks and token[cut:] in ranks
    ]
    vocabulary = {names[token]: rank for token, rank in ranks.items()}
    result = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    result.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    result.decoder = decoders.ByteLevel()
    return result
