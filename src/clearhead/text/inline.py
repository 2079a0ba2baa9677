"""What translation must not change in a paragraph: items such as URLs and numbers, marks such as **."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from clearhead.text.sentences import EMOJI, Span, sentence_spans


class Role(Enum):
    """What a part of a paragraph is to its sentence."""

    ITEM = "a word of the sentence: a URL, an address, code, a placeholder, an amount"
    NUMBER = "plain digits or a time of day, which a translator can read"
    OPEN = "the start of a marked passage: **, <b>, ["
    CLOSE = "the end of a marked passage: **, </b>, ](url)"
    POINT = "no word: an emoji, a lone tag, a footnote"


MARKS = (Role.OPEN, Role.CLOSE, Role.POINT)


@dataclass(frozen=True)
class Part:
    """A part of a paragraph that must not change: text[start:end]."""

    role: Role
    start: int
    end: int
    text: str
    partner: int | None = None
    """The start of the other mark of a pair."""

    def moved(self, by: int) -> "Part":
        partner = None if self.partner is None else self.partner + by
        return replace(self, start=self.start + by, end=self.end + by, partner=partner)

    def within(self, length: int) -> "Part":
        """The part of a sentence of this length: without its partner if that is in another one."""
        inside = self.partner is None or 0 <= self.partner < length
        return self if inside else replace(self, partner=None)


_FILES = (
    "bash bib bin bmp c cfg conf cpp css csv db deb dll doc docx epub exe gif go gz h hpp html ini "
    "ipynb jar java jpeg jpg js json jsonl lock log lua md mjs mp3 mp4 npz odt pdf php png po pptx py rb "
    "rpm rs rst sh sql srt svg tar tex tmx toml ts tsv ttf txt wav webm webp whl xls xlsx xml xz yaml yml "
    "zip zst"
).replace(" ", "|")
_DOMAINS = "com org net edu gov io dev app info eu uk de fr at ch be nl es it ca us jp".replace(" ", "|")
_UNITS = ("km/h km² km kg kB KB MB GB TB kWh kW cm mm m² m³ m ml l mg g min Hz kHz MHz GHz dB °C °F").replace(
    " ", "|"
)
_GAP = "[ \u00a0\u202f]"
_GROUPED = rf"\d{{1,3}}(?:{_GAP}\d{{3}}){{1,5}}(?:[.,]\d{{1,15}})?(?!\d)"
"""A number with its thousands apart, as French writes it."""
_DECIMAL = r"\d{1,15}(?:[.,]\d{1,15})?"
CLOCK = rf"\d{{1,2}}{_GAP}?h(?:{_GAP}?\d{{2}})?"
"""A time of day, or hours, as French writes them."""
_SYMBOLS = "\u2190-\u2bff\u3030\u303d\u3297\u3299©®™\U0001f000-\U0001faff"
_ONE_EMOJI = (
    "[\U0001f1e6-\U0001f1ff]{2}|[0-9#*]\ufe0f?\u20e3"
    f"|[{_SYMBOLS}](?:[\ufe0f\u20e3\U0001f3fb-\U0001f3ff]|\u200d[{_SYMBOLS}])*+"
)
_EMOJI = f"(?:{_ONE_EMOJI}){{1,20}}+"
# Every quantifier is bounded or possessive, so that the time is linear in the length of a line.
_PARTS: list[tuple[str, Role, str]] = [
    ("code", Role.ITEM, r"(?<!`)(?P<ticks>`{1,3})(?!`)[^`](?:[^`]|(?!(?P=ticks))`){0,400}?(?P=ticks)(?!`)"),
    (
        "verbatim",
        Role.ITEM,
        r"<(?P<element>code|kbd|samp|var|pre|script|style)\b[^<>]{0,200}>.{0,400}?</(?P=element)>",
    ),
    ("formula", Role.ITEM, r"(?<!\w)\w{0,20}+(?:<su[bp]>[^<>]{1,20}</su[bp]>\w{0,20}+){1,9}"),
    ("comment", Role.POINT, r"<!--.{0,1000}?-->"),
    ("autolink", Role.ITEM, r"<(?:[a-z]{2,9}:[^\s<>]{1,400}|[^\s<>@]{1,80}@[^\s<>@]{1,80})>"),
    ("tag", Role.POINT, r"</?[A-Za-z](?:[^<>\"']|\"[^\"<>]{0,300}\"|'[^'<>]{0,300}'){0,300}+>"),
    (
        "link_end",
        Role.CLOSE,
        r"\](?:\((?:[^()\s]|\([^()\s]{0,200}\)){0,500}+(?:\s+\"[^\"]{0,200}\")?\)"
        r"|\[[^\[\]]{0,100}\])",
    ),
    ("footnote", Role.POINT, r"\[\^[^\]\s]{1,60}\]"),
    ("link", Role.OPEN, r"!?\[(?!\^)"),
    (
        "url",
        Role.ITEM,
        r"\b(?:[a-z][a-z0-9+]{1,9}://|mailto:|www\.)"
        r"[^\s<>\"«»“”„`]{0,400}[^\s<>\"«»“”„`'’.,;:!?…)\]}*_~]",
    ),
    ("email", Role.ITEM, r"(?<![\w.+-])[\w.+-]{1,64}+@[A-Za-z0-9-]{1,60}(?:\.[A-Za-z0-9-]{1,60}){1,6}"),
    ("template", Role.ITEM, r"\{\{[^{}]{1,80}\}\}|\$?\{[^{}\s][^{}]{0,60}\}|\{\}"),
    (
        "format",
        Role.ITEM,
        r"(?<![\w%])%(?:\([A-Za-z_]\w{0,60}\)|\d{1,2}\$)?[-+#0]{0,3}\d{0,3}(?:\.\d{1,2})?"
        r"[sdifguxXcr@](?![A-Za-z])|%%",
    ),
    ("variable", Role.ITEM, r"\$[A-Za-z_]\w{0,60}(?:/[\w.@+-]{0,80}\w){0,12}"),
    ("entity", Role.ITEM, r"&(?:[A-Za-z]{2,30}|#\d{1,7}|#x[0-9A-Fa-f]{1,6});"),
    (
        "domain",
        Role.ITEM,
        rf"(?<![\w@.-])(?:[A-Za-z0-9-]{{1,60}}\.){{1,5}}(?:{_DOMAINS})"
        r"(?:/[\w./?=&%#~+-]{0,200}[\w/])?(?![\w.-]{0,60}\w)",
    ),
    (
        "file",
        Role.ITEM,
        r"(?<![\w./-])(?:(?:~|\.{1,2})?/)?(?:[\w.@+-]{1,80}/){0,12}[\w+-][\w.+-]{0,80}?"
        rf"\.(?:{_FILES})(?!\w)",
    ),
    (
        "path",
        Role.ITEM,
        r"(?<![\w./:<-])(?:~|\.{1,2})?/(?:[\w.@+-]{1,80}/){0,12}[\w.@+-]{0,80}\w/?"
        r"|(?<!\w)[A-Z]:\\[^\s\"<>|]{1,200}",
    ),
    ("call", Role.ITEM, r"(?<![\w.])[A-Za-z_]\w{0,60}(?:\.\w{1,60}){0,5}\(\)"),
    (
        "option",
        Role.ITEM,
        r"(?<![\w-])(?:--[A-Za-z][\w-]{0,40}(?:=[^\s,;]{1,60})?|-[A-Za-z](?![\w-]))",
    ),
    ("name", Role.ITEM, r"(?<![\w_])[A-Za-z0-9]{1,60}(?:_[A-Za-z0-9]{1,60}){1,9}(?!\w)"),
    ("mention", Role.ITEM, r"(?<![\w&@#])(?:[@#][A-Za-z_][\w-]{0,60}|#\d{1,12}(?!\w))"),
    ("private", Role.POINT, r"[\ue000-\uf8ff]{1,60}"),
    ("emoji", Role.POINT, rf"(?!\u2212\d){_EMOJI}"),
    ("escape", Role.POINT, r"\\[!-/:-@\[-`{-~]"),
    ("emphasis", Role.OPEN, r"\*{1,3}|(?<![^\W_])_{1,3}(?=\S)|(?<=\S)_{1,3}(?![^\W_])|~~"),
    (
        "amount",
        Role.ITEM,
        "|".join(
            (
                # 7:30 p.m., but not "11 am Bahnhof", which is German.
                r"(?<!\w)\d{1,2}(?:[:.]\d{2})?(?:am\b|\s?(?:pm|AM|PM)\b|\s?[ap]\.m\.)",
                r"\(\d{2,5}\) ?\d[\d -]{4,14}\d",
                rf"(?<![\w.,])[+-]?[$€£¥]\s?(?:{_GROUPED}|{_DECIMAL}(?:[.,]\d{{1,15}}){{0,4}})"
                r"(?:\s?(?:[kKmM]\b|bn\b))?(?:/[A-Za-z]{1,10}\b)?",
                rf"(?<!\w){_DECIMAL}(?:\s?[x×]\s?{_DECIMAL}){{1,2}}(?:\s?(?:{_UNITS}))?(?!\w)",
                rf"(?<!\w)[+-]?(?:{_GROUPED}|{_DECIMAL}){_GAP}?(?:{_UNITS})(?!\w)",
                r"(?<!\w)\d{1,2}:\d{2}\s?h(?!\w)|(?<!\w)\d{1,15},[-–—]{1,2}(?:\s?[€$£])?",
                r"(?<!\w)[+-]?\d{1,15}(?:[.,:/'’-]\d{1,15}){1,6}(?:\s?[%‰€$£¥°])?(?![\d])",
                rf"(?<!\w)[+-]?{_GROUPED}(?:{_GAP}?[%‰€$£¥°])?",
                rf"(?<!\w)\d{{1,3}}{_GAP}?h{_GAP}?\d{{1,2}}{_GAP}?min(?!\w)|(?<!\w){CLOCK}(?!\w)",
                rf"(?<!\w)[+-]?\d{{1,15}}{_GAP}?[%‰€$£¥°]",
                r"(?<!\w)[+0]\d[\d ()/-]{5,20}\d",
                # Minus or plus, but no hyphen between numbers.
                r"(?<![\w.,)\]%°€$-])[+−-]\d{1,15}(?![\w-])",
            )
        ),
    ),
    (
        "version",
        Role.ITEM,
        r"(?<!\w)(?:v\d{1,5}(?:\.\d{1,5}){0,5}|0x[0-9A-Fa-f]{1,16}"
        r"|[A-Z]{1,8}-?\d{1,8}[A-Z0-9-]{0,10}(?:[/x]\d{1,8}){0,3}"
        # 4711-A, 12B and 12a, but no ordinals, plurals or hours: 2e, 90s, 2h.
        r"|\d{1,8}-?[A-Z]{1,3}\d{0,8}|\d{1,8}[a-df-gi-rt-z])(?!\w)",
    ),
    ("digits", Role.NUMBER, r"\d{1,400}"),
    ("symbol", Role.POINT, r"[=_*~^|\\<>]{1,20}"),
]
_ROLES = {name: role for name, role, _ in _PARTS}
_PATTERN = re.compile("|".join(f"(?P<{name}>{pattern})" for name, _, pattern in _PARTS))
_TAG_NAME = re.compile(r"</?\s*([A-Za-z][\w:-]*)")
_JOINING = ("", "+", "-", "–", "/", ":")
_NUMBERED = re.compile(r"\d{1,4}[.)]\s+")
_TIME = re.compile(rf"\d{{1,2}}:\d{{2}}|{CLOCK}")
_LONG_NUMBER = 5
"""Digits of a number that a translator would spell in pieces."""


def find_parts(text: str) -> list[Part]:
    """The parts of a paragraph that must not change, in order."""
    found: list[Part] = []
    names: list[str] = []
    for match in _PATTERN.finditer(text):
        name = match.lastgroup or ""
        # The last group to close may be one inside the pattern.
        name = name if name in _ROLES else next(one for one in _ROLES if match[one] is not None)
        role = _ROLES[name]
        if role is Role.NUMBER and match.end() - match.start() >= _LONG_NUMBER:
            role = Role.ITEM
        elif _TIME.fullmatch(match[0]):
            role = Role.NUMBER
        found.append(Part(role, match.start(), match.end(), match[0]))
        names.append(name)
    return _merged(text, _paired(text, found, names))


def _merged(text: str, parts: list[Part]) -> list[Part]:
    """The parts, with items that touch joined to one: 9:00-17:00, <kbd>Ctrl</kbd>+<kbd>C</kbd>."""
    merged: list[Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        if last and last.role is part.role is Role.ITEM and text[last.end : part.start] in _JOINING:
            merged[-1] = replace(last, end=part.end, text=text[last.start : part.end])
        else:
            merged.append(part)
    return merged


def _paired(text: str, parts: list[Part], names: list[str]) -> list[Part]:
    """The parts, with marks paired; marks without a partner are points or text."""
    result: list[Part | None] = list(parts)
    waiting: dict[str, list[int]] = {}
    for index, (part, name) in enumerate(zip(parts, names, strict=True)):
        if part.role not in MARKS or part.text.endswith("/>"):
            continue
        if name in ("link", "emphasis"):
            # A bracket alone is text.
            result[index] = replace(part, role=Role.POINT) if name == "emphasis" else None
        elif name == "link_end":
            result[index] = replace(part, role=Role.POINT)
        key, opens, closes = _mark(text, part, name)
        if closes and waiting.get(key):
            first = waiting[key].pop()
            result[first] = replace(parts[first], role=Role.OPEN, partner=part.start)
            result[index] = replace(part, role=Role.CLOSE, partner=parts[first].start)
        elif opens:
            waiting.setdefault(key, []).append(index)
    return [part for part in result if part]


def _mark(text: str, part: Part, name: str) -> tuple[str, bool, bool]:
    """What a mark pairs with, whether it may open a passage, and whether it may close one."""
    if name in ("link", "link_end"):
        return "[", name == "link", name == "link_end"
    if name == "emphasis":
        before, after = text[part.start - 1 : part.start], text[part.end : part.end + 1]
        return part.text, bool(after.strip()), bool(before.strip())
    if name == "tag" and (match := _TAG_NAME.match(part.text)):
        closes = part.text.startswith("</")
        return f"<{match[1].lower()}", not closes, closes
    return "", False, False


def masked(text: str, parts: Sequence[Part]) -> str:
    """The text with the parts replaced by characters that no rule for sentences misreads."""
    pieces: list[str] = []
    end = 0
    for part in parts:
        filler = EMOJI if part.role is Role.POINT else "*" if part.role in MARKS else "X"
        # The rules read numbers, and the full stop of 5 p.m., which may end a sentence.
        if part.role is Role.NUMBER or part.text.endswith("."):
            continue
        pieces += [text[end : part.start], filler * (part.end - part.start)]
        end = part.end
    return "".join([*pieces, text[end:]])


def inline_sentences(text: str, language: str | None = None) -> tuple[list[Span], list[list[Part]]]:
    """The sentences of a paragraph, and the parts of each, counted from its start."""
    parts = find_parts(text)
    spans = sentence_spans(masked(text, parts), language)
    found: list[list[Part]] = []
    index = 0
    for start, end in spans:
        own: list[Part] = []
        while index < len(parts) and parts[index].start < end:
            own.append(parts[index].moved(-start))
            index += 1
        found.append([part.within(end - start) for part in own])
    return spans, found


@dataclass(frozen=True)
class Mark:
    """A mark that was taken out of a sentence."""

    part: Part
    position: int
    """Where it was in the text without marks."""
    before: str
    """The white space before it."""
    after: str
    """The white space after it, if it was taken out with the mark."""


@dataclass(frozen=True)
class Core:
    """A sentence without the marks in it and at its ends: what a translator reads."""

    prefix: str
    suffix: str
    text: str
    items: tuple[Part, ...]
    """Items and numbers, with their positions in `text`."""
    marks: tuple[Mark, ...]

    @property
    def without_items(self) -> str:
        """The text around the items."""
        pieces, end = [], 0
        for part in self.items:
            pieces.append(self.text[end : part.start])
            end = part.end
        return " ".join([*pieces, self.text[end:]])

    @property
    def has_words(self) -> bool:
        """Whether there is anything to translate."""
        return any(map(str.isalpha, self.without_items))


def take_apart(sentence: str, parts: Sequence[Part]) -> Core:
    """The core of a sentence; the marks at its ends become prefix and suffix."""
    first, last, remaining = _peeled(sentence, list(parts))
    pieces: list[str] = []
    items: list[Part] = []
    marks: list[Mark] = []
    length, end = 0, first
    for part in remaining:
        pieces.append(sentence[end : part.start])
        length += part.start - end
        end = part.end
        if part.role in MARKS:
            text = "".join(pieces)
            before = text[len(text.rstrip()) :]
            after = ""
            if part.role is Role.POINT and (before or not text):
                rest = sentence[end:last]
                after = rest[: len(rest) - len(rest.lstrip())]
                end += len(after) if before else 0
            marks.append(Mark(part, length, before, after))
        else:
            items.append(replace(part, start=length, end=length + len(part.text)))
            pieces.append(part.text)
            length += len(part.text)
    pieces.append(sentence[end:last])
    return Core(sentence[:first], sentence[last:], "".join(pieces), tuple(items), tuple(marks))


def _peeled(sentence: str, parts: list[Part]) -> tuple[int, int, list[Part]]:
    """Where the sentence starts and ends without marks around it and a number before it, and its parts."""
    first, last = 0, len(sentence)
    while parts:
        head, tail = parts[0], parts[-1]
        leads = not sentence[first : head.start].strip()
        trails = not sentence[tail.end : last].strip()
        alone = head.role in MARKS and head.partner is None
        if leads and alone:
            first, parts = head.end, parts[1:]
        elif trails and tail.role in MARKS and tail.partner is None:
            last, parts = tail.start, parts[:-1]
        elif leads and trails and head.role is Role.OPEN and head.partner == tail.start:
            first, last, parts = head.end, tail.start, parts[1:-1]
        else:
            break
    if number := _NUMBERED.match(sentence, first, last):
        first = number.end()
        parts = [part for part in parts if part.start >= first]
    core = sentence[first:last]
    first += len(core) - len(core.lstrip())
    last -= len(core) - len(core.rstrip())
    return first, max(first, last), parts


WORD = re.compile(r"[\ue000-\ue007]|\d+(?:[.,:/]\d+)+|[^\W_]+(?:[-'’.][^\W_]+)*|[^\w\s]|_")


def words(text: str) -> Iterator[re.Match[str]]:
    """The words and punctuation marks of a text."""
    return WORD.finditer(text)
