"""Public archives in another form than ours, converted to the files of a dataset."""

import hashlib
import json
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


def squad(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The questions of SQuAD 1.1, one paragraph per line, without the offsets of the answers."""
    for path, content in _files(archive):
        if found := re.search(r"dataset/(train|dev)-v1\.1\.json$", path):
            lines = [
                json.dumps(_paragraph(article["title"], paragraph), ensure_ascii=False)
                for article in json.loads(content)["data"]
                for paragraph in article["paragraphs"]
            ]
            yield f"squad1.1-{found[1]}.jsonl", "".join(f"{line}\n" for line in lines).encode()


def _paragraph(title: str, paragraph: dict[str, Any]) -> dict[str, Any]:
    questions = [
        {
            "id": one["id"],
            "question": one["question"],
            "answers": list(dict.fromkeys(answer["text"] for answer in one["answers"])),
        }
        for one in paragraph["qas"]
    ]
    return {"title": title, "context": paragraph["context"], "questions": questions}


def babi(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The English files of bAbI with ten thousand questions per task."""
    for path, content in _files(archive):
        if "/en-10k/" in path and path.endswith(".txt"):
            yield Path(path).name, content


def _files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The regular files of a tar archive, with their paths."""
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content:
                yield member.name, content.read()


CONVERTERS: dict[str, Callable[[Path], Iterator[tuple[str, bytes]]]] = {
    "aclimdb": aclimdb,
    "squad": squad,
    "babi": babi,
}
"""What makes the files of a dataset, by name, from its public archive."""
