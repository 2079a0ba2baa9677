"""From which language into which a model translates, and how it is told (Johnson et al. 2017)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from clearhead.errors import ModelError, TextError, did_you_mean
from clearhead.text.languages import closest_language, language_tag
from clearhead.text.tokenizer import Tokenizer

UNK = "und"


class Direction(NamedTuple):
    """Two languages; `str()` gives 'en-de'."""

    source: str
    target: str

    @property
    def turned(self) -> "Direction":
        return Direction(self.target, self.source)

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


def targets(directions: Iterable[Direction]) -> tuple[str, ...]:
    """The languages that a model writes, each once."""
    return tuple(dict.fromkeys(direction.target for direction in directions))


def tags(directions: Iterable[Direction]) -> dict[str, str]:
    """The token that is learned for each language; none where there is but one to ask for."""
    languages = targets(directions)
    return {language: language_tag(language) for language in languages} if len(languages) > 1 else {}


def tag_ids(directions: Iterable[Direction], tokenizer: Tokenizer) -> dict[str, int]:
    """The id that asks for each language.

    Where there is but one to ask for, it is asked for if the tokenizer has a token for it: a model that began
    as one for several languages goes on as it has learned.
    """
    languages, found = targets(directions), {}
    for language in languages:
        token = language_tag(language)
        number = tokenizer.id(token) if token in tokenizer.special_tokens else None
        if number is not None:
            found[language] = number
        elif len(languages) > 1:
            raise ModelError(f"tokenizer: has no {token}; it belongs to a model for other languages")
    return found


def saved_corpora(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The corpora that a model's saved settings tell of, whatever else is in them; at least one."""
    data = settings.get("data")
    data = data if isinstance(data, Mapping) else {}
    corpora = data.get("corpora", [data])
    found = [one for one in corpora if isinstance(one, Mapping)] if isinstance(corpora, list) else []
    return found or [{}]


def saved_directions(settings: Mapping[str, Any]) -> tuple[Direction, ...]:
    """Those of a model by its saved settings."""
    found: dict[Direction, None] = {}
    for corpus in saved_corpora(settings):
        one = Direction(*(str(corpus.get(side, UNK)) for side in ("source", "target")))
        found[one] = None
        if corpus.get("both") is True:
            found[one.turned] = None
    return tuple(found)


def file_name(part: str, direction: Direction, directions: Sequence[Direction]) -> str:
    """Where a run keeps the pairs of a part; the direction is named where there are several."""
    return f"{part}.{direction}.tsv" if len(directions) > 1 else f"{part}.tsv"


def chosen(
    directions: Sequence[Direction],
    source: str | None = None,
    target: str | None = None,
    asked_by: tuple[str, str] = ("source", "target"),
) -> Direction:
    """The one direction between these languages; where there is none or several, all are named."""
    found = [one for one in directions if source in (None, one.source) and target in (None, one.target)]
    if len(found) == 1:
        return found[0]
    if found:
        raise TextError(f"{asked_by[0 if target else 1]}: name a language; {_offer(directions)}")
    asked = " ".join(f"{name} {code}" for name, code in zip(asked_by, (source, target), strict=True) if code)
    raise TextError(f"{asked}: {_offer(directions)} only{_meant(target or source or '')}")


def check_target(directions: Sequence[Direction], target: str | None, asked_by: str = "to") -> str:
    """The language to translate into: the one asked for, or the only one there is."""
    languages = targets(directions)
    if target is None:
        if len(languages) > 1:
            raise TextError(f"{asked_by}: name the language to translate into; {_offer(directions)}")
        return next(iter(languages))
    if target not in languages:
        raise TextError(f"{asked_by} {target}: {_offer(directions)} only{_meant(str(target))}")
    return target


def _offer(directions: Sequence[Direction]) -> str:
    return f"this model translates {', '.join(map(str, directions))}"


def _meant(word: str) -> str:
    near = closest_language(word)
    return did_you_mean(near if near != word else None)
