"""Public archives in another form than ours, converted to the files of a dataset."""

import hashlib
import io
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from clearhead.data.images import decode, resize
from clearhead.errors import DataError

# As published by several libraries that download it; Stanford publishes none.
ACLIMDB_MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
# Pixels of a side, and quality of the JPEG files.
FLICKR_SIZE, FLICKR_QUALITY = 96, 80
REVIEW = re.compile(r"aclImdb/(train|test)/(neg|pos|unsup)/(\d+)_(\d+)\.txt")


def aclimdb(archive: Path, md5: str = ACLIMDB_MD5) -> Iterator[tuple[str, bytes]]:
    """The reviews of aclImdb_v1.tar.gz, a file each, as lines of three files in the order of their ids."""
    with archive.open("rb") as stream:
        if hashlib.file_digest(stream, "md5").hexdigest() != md5:
            raise DataError(f"{archive.name}: cut short or another edition; download it again")
    lines: dict[str, list[tuple[str, int, bytes]]] = defaultdict(list)
    with tarfile.open(archive) as tar:
        for member in tar:
            review = REVIEW.fullmatch(member.name.removeprefix("./"))
            content = tar.extractfile(member) if review and member.isfile() else None
            if review and content:
                part, kind, number, rating = review.groups()
                text = re.sub(rb"[\t\r\n]", b" ", content.read())
                if kind == "unsup":
                    lines["imdb_unlabelled.txt"].append((kind, int(number), text))
                else:
                    fields = f"{int(kind == 'pos')}\t{number}\t{rating}\t".encode()
                    lines[f"imdb_{part}.tsv"].append((kind, int(number), fields + text))
    for name, found in lines.items():
        yield name, b"".join(line + b"\n" for _, _, line in sorted(found))


def flickr8k(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The texts of Flickr8k as they are, and its photographs squashed to 96 pixels, in one .npz file."""
    photographs: dict[str, bytes] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            content = tar.extractfile(member) if member.isfile() else None
            if content and member.name.endswith(".jpg"):
                photographs[name] = _squashed(content.read())
            elif content and name.startswith(("Flickr8k.token", "Flickr_8k.")):
                yield name, content.read()
    if not photographs:
        raise DataError(f"{archive.name}: has no photographs; download it again")
    ordered = [photographs[name] for name in sorted(photographs)]
    buffer = io.BytesIO()
    np.savez(
        buffer,
        jpeg=np.frombuffer(b"".join(ordered), dtype=np.uint8),
        offsets=np.cumsum([0, *map(len, ordered)]),
        names=np.array([name.encode() for name in sorted(photographs)]),
    )
    yield "flickr8k_96px_jpeg.npz", buffer.getvalue()


def _squashed(photograph: bytes) -> bytes:
    pixels = resize(decode(photograph), FLICKR_SIZE, "squash")
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=FLICKR_QUALITY)
    return buffer.getvalue()


CONVERTERS: dict[str, Callable[[Path], Iterator[tuple[str, bytes]]]] = {
    "aclimdb": aclimdb,
    "flickr8k": flickr8k,
}
"""What makes the files of a dataset, by name, from its public archive."""
