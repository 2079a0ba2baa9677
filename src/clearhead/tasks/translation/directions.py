"""Translation directions, and the tags that select a target language (Johnson et al. 2017)."""

import re
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
    """The tag of each target language; empty if there is only one."""
    languages = targets(directions)
    return {language: language_tag(language) for language in languages} if len(languages) > 1 else {}


def has_tags(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer belongs to a model for several target languages."""
    return any(
        re.fullmatch(r"<2\w+>", token) for token in (*tokenizer.special_tokens, *tokenizer.added_tokens)
    )


def tag_ids(directions: Iterable[Direction], tokenizer: Tokenizer) -> dict[str, int]:
    """The id of the tag of each target language.

    A single target language has one only if the tokenizer has its tag, from a model for several languages.
    """
    languages, found = targets(directions), {}
    for language in languages:
        token = language_tag(language)
        number = tokenizer.special_id(token)
        if number is not None:
            found[language] = number
        elif len(languages) > 1:
            raise ModelError(f"tokenizer: has no {token}; it belongs to a model for other languages")
    return found


def saved_directions(settings: Mapping[str, Any]) -> tuple[Direction, ...]:
    """The directions of a model, by its saved settings, which may be incomplete; at least one."""
    data = settings.get("data")
    data = data if isinstance(data, Mapping) else {}
    corpora = data.get("corpora", [data])
    corpora = [one for one in corpora if isinstance(one, Mapping)] if isinstance(corpora, list) else []
    found: dict[Direction, None] = {}
    for corpus in corpora or [{}]:
        one = Direction(*(str(corpus.get(side, UNK)) for side in ("source", "target")))
        found[one] = None
        if corpus.get("both") is True:
            found[one.turned] = None
    return tuple(found)


def file_name(part: str, direction: Direction, directions: Sequence[Direction]) -> str:
    """The file for the pairs of a part; it names the direction if there are several."""
    return f"{part}.{direction}.tsv" if len(directions) > 1 else f"{part}.tsv"


def chosen(
    directions: Sequence[Direction],
    source: str | None = None,
    target: str | None = None,
    settings: tuple[str, str] = ("source", "target"),
) -> Direction:
    """The one direction between these languages; otherwise a TextError that lists all directions.

    `settings` are the names of the two options, for the error.
    """
    found = [one for one in directions if source in (None, one.source) and target in (None, one.target)]
    if len(found) == 1:
        return found[0]
    if found:
        raise TextError(f"{settings[0 if target else 1]}: name a language; {_available(directions)}")
    given = " ".join(f"{name} {code}" for name, code in zip(settings, (source, target), strict=True) if code)
    raise TextError(f"{given}: {_available(directions)} only{_suggested(target or source or '')}")


def check_target(directions: Sequence[Direction], target: str | None, setting: str = "to") -> str:
    """The language to translate into: the given one, or the only one; `setting` is the name of the option."""
    languages = targets(directions)
    if target is None:
        if len(languages) > 1:
            raise TextError(f"{setting}: name the language to translate into; {_available(directions)}")
        return next(iter(languages))
    if target not in languages:
        raise TextError(f"{setting} {target}: {_available(directions)} only{_suggested(str(target))}")
    return target


def _available(directions: Sequence[Direction]) -> str:
    return f"this model translates {', '.join(map(str, directions))}"


def _suggested(word: str) -> str:
    near = closest_language(word)
    return did_you_mean(near if near != word else None)
