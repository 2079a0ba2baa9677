"""Public archives in another form than ours, converted to the files of a dataset."""

import hashlib
import io
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from clearhead.errors import DataError

# As published by several libraries that download it; Stanford publishes none.
ACLIMDB_MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
REVIEW = re.compile(r"aclImdb/(train|test)/(neg|pos|unsup)/(\d+)_(\d+)\.txt")
CIFAR10_IMAGE = re.compile(r"/(train|test)/([a-z]+)/(\d+)\.jpg$")
CIFAR10_LABELS = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
CIFAR10_SIZES = {"train": 50_000, "test": 10_000}


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


def cifar10(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The JPEG files of CIFAR-10, train/CLASS/NUMBER.jpg, as two .npz files sorted by class and number."""
    found: dict[str, list[tuple[int, str, bytes]]] = defaultdict(list)
    with tarfile.open(archive) as tar:
        for member in tar:
            image = CIFAR10_IMAGE.search(member.name)
            content = tar.extractfile(member) if image and member.isfile() else None
            if image and content:
                part, label, number = image.groups()
                found[part].append((CIFAR10_LABELS.index(label), number, content.read()))
    if {part: len(images) for part, images in found.items()} != CIFAR10_SIZES:
        raise DataError(f"{archive.name}: cut short or another edition; download it again")
    for part, images in found.items():
        images.sort()
        yield (
            f"cifar10_{part}_jpeg.npz",
            _npz([content for *_, content in images], [one for one, *_ in images]),
        )


def _npz(files: list[bytes], labels: list[int]) -> bytes:
    stream = io.BytesIO()
    np.savez(
        stream,
        jpeg=np.frombuffer(b"".join(files), np.uint8),
        offsets=np.cumsum([0, *map(len, files)]),
        labels=np.array(labels, np.uint8),
    )
    return stream.getvalue()


CONVERTERS: dict[str, Callable[[Path], Iterator[tuple[str, bytes]]]] = {
    "aclimdb": aclimdb,
    "cifar10": cifar10,
}
"""What makes the files of a dataset, by name, from its public archive."""
