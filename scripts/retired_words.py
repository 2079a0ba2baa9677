"""Finds retired words, so that they do not creep back; `--count` sums them up by folder."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "recipes", "docs", "web/src", "benchmarks", "scripts")
PAGES = ("README.md", "CONTRIBUTING.md")
ENDINGS = (".py", ".md", ".toml", ".svelte", ".ts", ".css", ".html", ".sh", "")
# Lists of retired words, built files, and models' examples, which quote other people's sentences.
SKIPPED = (
    "scripts/convert.py",
    "scripts/retired_words.py",
    "src/clearhead/retired.py",
    "src/clearhead/explorer/page/",
    "tests/first_edition/",
    "tests/test_convert.py",
    "tests/test_retired_words.py",
)
QUOTED = re.compile(r"<br>→")

# A word as a pattern, what to write instead, and phrases in which it is good English or another term.
# Words match whole parts of names too: `place` is found in `their_place` and `GraphPlace`, not in `replace`.
WORDS = (
    ("slopes?", "gradient", r".*ali_?bi.*|head_slopes?"),
    ("wish(es|ed)?", "options", ""),
    (
        "places?",
        "position; path or location for files",
        r"in[- ]place|t[ao]k(e|es|ing|en) place|took place|decimal places?|place-[a-z]+|to place",
    ),
    (
        "signs?",
        "special token",
        r"(torch|np|math|Math)\.(copy)?sign|\.sign\(|(minus|plus|dollar|opposite) signs?|sign of (an?|the)|"
        r"\"signs\"|(const |return |: )sign|sign \*",
    ),
    ("unsaid", "suppressed_tokens", ""),
    ("foresee(n|s|ing)?|foresight", "perplexity, prediction", ""),
    ("judge[ds]?|judging", "score, monitor, evaluate", ""),
    ("seats?", "graph slot", ""),
    ("told|telling|tells? of", "say, report, record; trace", ""),
    ("asked|asks|asking", "requested; query", r"(frequently|often) asked|asks? for"),
    ("laying|laid|lays", "pack, packed", r"laid out|lays out|laying out"),
    ("stretch(es|ed)?", "span, window", r"-[a-z]+: ?stretch|stretch(es|ed)? to (fit|fill)"),
    ("walks?|walked", "loop, traversal", r"(os|ast|path|tree|parent|self)\.walk|\.walk\("),
    ("(?-i:Lessons)(?=\\()", "train data", ""),
    ("undrawn", "skip initialisation", ""),
    ("unboxed|boxed|whole box|WHOLE_BOX|(?-i:BOX)|in the box", "built-in model, en-de-fr", ""),
    ("(?<=read.|rite.)foreign|(?<=_)foreign", "huggingface", "foreign_host"),
    ("settle[ds]?|settling", "synchronize; resolve (settings)", ""),
    ("mend(s|ed|ing)?", "fix", ""),
    ("somebody|nobody|whoever|so manieth", "someone, no one, you, or a plain sentence", ""),
    ("at hand", "available, given", ""),
    (r"(?-i:longest)(?=\s*[=(]|_(?!match))|(?<=\.)(?-i:longest)", "max_length; context_length of a GPT", ""),
    (r"(?<=\.)together|together(?=\s*=\s?)", "batches_per_step", ""),
    ("key_heads", "kv_heads", ""),
    ("norm_place", "norm_position", ""),
    ("stop_on", "monitor", ""),
    ("judged_by", "monitor", ""),
)
CHECKS = tuple(
    (re.compile(rf"(?<![A-Za-z])(?:{word})(?![A-Za-z])", re.IGNORECASE), use, re.compile(fine, re.IGNORECASE))
    for word, use, fine in WORDS
)
CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def paths() -> Iterator[Path]:
    """The text files that are checked."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and path.suffix in ENDINGS and not name.startswith(SKIPPED):
                yield path
    yield from (ROOT / page for page in PAGES)


def found(line: str) -> Iterator[tuple[str, str]]:
    """The retired words in a line, each with what to write instead."""
    if QUOTED.search(line):
        return
    spelled = CAMEL_CASE.sub("_", line)
    for word, use, fine in CHECKS:
        left = fine.sub(" ", spelled) if fine.pattern else spelled
        for match in word.finditer(left):
            yield match[0], use


def main() -> None:
    counts: Counter[str] = Counter()
    for path in paths():
        name = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for word, use in found(line):
                counts["/".join(name.split("/")[: 3 if name.startswith("src") else 2])] += 1
                if "--count" not in sys.argv:
                    sys.stdout.write(f"{name}:{number}: {word} -> use {use}\n")
    if "--count" in sys.argv:
        sys.stdout.writelines(f"{count:5} {folder}\n" for folder, count in counts.most_common())
    sys.exit(1 if counts else 0)


if __name__ == "__main__":
    main()
