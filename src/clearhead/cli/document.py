"""A document for clearhead translate: progress, the output file, and what to say at the end."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.cli.console import print_result, print_status, write_result
from clearhead.cli.progress import Progress
from clearhead.errors import SettingsError

if TYPE_CHECKING:
    from clearhead.tasks.translation.documents import Sentence
    from clearhead.tasks.translation.model import TranslationModel
    from clearhead.tasks.translation.options import TranslateOptions


def translate_document(
    model: "TranslationModel",
    path: Path,
    to: str | None,
    out: Path | None,
    mark: float | None,
    options: "TranslateOptions",
    chunk: int,
    json: bool,
) -> None:
    """Translate a file part by part to `out` or stdout; with `json`, print its sentences to stdout."""
    from clearhead.tasks.translation.document_file import check_document, document_lines, format_of, writing
    from clearhead.tasks.translation.documents import DocumentTranslator

    if options.nbest > 1 or options.prefix:
        name = f"--nbest {options.nbest}" if options.nbest > 1 else "--prefix"
        raise SettingsError(f"{name}: does not apply to a document; pass texts instead")
    if mark is not None and not 0 <= mark <= 1:
        raise SettingsError(f"--mark-below {mark}: should be a probability, from 0 to 1")
    total = check_document(path, out)
    translator = DocumentTranslator(model, to, format=format_of(path), mark=mark, options=options)
    read = _Counted(document_lines(path))
    counts: Counter[str] = Counter()
    write: Callable[[str], None] = (lambda text: None) if json else write_result
    with (
        _named_if_interrupted(out),
        Progress("translating", "line") as progress,
        writing(out) if out else nullcontext(write) as write,
    ):
        if sys.stderr.isatty() and (out or not sys.stdout.isatty()):
            progress.start(total)
        for part in translator.stream(read, chunk):
            write(part.text)
            _count(part.sentences, counts, mark)
            progress.add(
                sentence=len(part.sentences), token=sum(sentence.tokens for sentence in part.sentences)
            )
            if json:
                for sentence in part.sentences:
                    print_result(_record(sentence))
            if progress.total:
                progress.update(min(read.count, total))
        rates = progress.rates()
    _report(counts, mark, out, rates)


class _Counted:
    """Lines, and how many have been read."""

    def __init__(self, lines: Iterable[str]):
        self._lines, self.count = iter(lines), 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.count += 1
            yield line


def _count(sentences: Iterable["Sentence"], counts: Counter[str], mark: float | None) -> None:
    for one in sentences:
        counts["sentences"] += 1
        counts["repaired"] += len(one.repaired)
        counts["lost"] += len(one.lost)
        counts["marked"] += mark is not None and one.confidence < mark


@contextmanager
def _named_if_interrupted(out: Path | None) -> Iterator[None]:
    """Say after Ctrl-C where the translation so far is."""
    from clearhead.tasks.translation.document_file import partial_path

    try:
        yield
    except KeyboardInterrupt:
        if out:
            print_status(f"translated so far: {partial_path(out)}")
        raise


def _record(sentence: "Sentence") -> dict[str, object]:
    record: dict[str, object] = {
        "source": sentence.source,
        "translation": sentence.text,
        "confidence": round(sentence.confidence, 4),
    }
    return record | {name: items for name in ("repaired", "lost") if (items := getattr(sentence, name))}


def _report(counts: Counter[str], mark: float | None, out: Path | None, rates: list[str]) -> None:
    details = [f"sentences: {counts['sentences']:,}"]
    if mark is not None:
        details.append(f"marked, with a confidence below {mark:g}: {counts['marked']:,}")
    if counts["repaired"]:
        details.append(f"numbers, URLs and the like put back by alignment: {counts['repaired']:,}")
    if counts["lost"]:
        details.append(f"LOST, please check: {counts['lost']:,}")
    if counts["sentences"]:
        details[0] += f" ({', '.join(rates)})"
    if out or len(details) > 1:
        print_status(f"{f'{out}: ' if out else ''}{'; '.join(details)}")
