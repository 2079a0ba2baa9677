"""Public archives in another form than ours, converted to the files of a dataset."""

import hashlib
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from clearhead.errors import DataError

# As published by several libraries that download it; Stanford publishes none.
ACLIMDB_MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
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


CONVERTERS: dict[str, Callable[[Path], Iterator[tuple[str, bytes]]]] = {"aclimdb": aclimdb}
"""What makes the files of a dataset, by name, from its public archive."""
