"""A tokenizer as JSON: the library's own description, and beside it what clearhead has to know."""

import json
from typing import Annotated, Any

import tokenizers
from pydantic import Field

from clearhead.config import S, Settings, parse_settings
from clearhead.errors import ModelError, SettingsError
from clearhead.text.kinds import SPECIALS, TokenizerConfig

FORMAT = 1


class Signs(Settings):
    """What a tokenizer that was made elsewhere has in the place of special tokens, by id."""

    size: int
    """As many ids as a model has rows for."""
    start: int | None = None
    end: int | None = None
    several: Annotated[tuple[int, ...], Field(strict=False)] = ()
    """All that end a text, `end` among them, where it is not the only one."""
    leads: bool = False
    """Whether every text begins with `start`."""

    @property
    def ends(self) -> tuple[int, ...]:
        """All that end a text."""
        return self.several or (() if self.end is None else (self.end,))


def pack(
    inner: tokenizers.Tokenizer, config: TokenizerConfig, specials: tuple[str, ...], signs: Signs | None
) -> str:
    about = {"format": FORMAT, "specials": specials, "settings": config.model_dump(exclude_none=True)}
    if signs:
        about["signs"] = signs.model_dump(exclude_defaults=True)
    return json.dumps({"clearhead": about, "tokenizer": json.loads(inner.to_str())}, ensure_ascii=False)


Unpacked = tuple[tokenizers.Tokenizer, TokenizerConfig, tuple[str, ...], Signs | None]


def unpack(text: str, place: str) -> Unpacked:
    """What `pack` was given; raises a ModelError that names the place."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{place}: cut short or not JSON ({error}); copy the file again") from None
    about = content.get("clearhead") if isinstance(content, dict) else None
    if not isinstance(about, dict):
        raise ModelError(f"{place}: not a tokenizer of clearhead; use the one that was saved with the model")
    if about.get("format") != FORMAT:
        raise ModelError(f"{place}: format {about.get('format')!r} is not {FORMAT}; use a newer clearhead")
    config = _settings(TokenizerConfig, about.get("settings"), place)
    signs = _settings(Signs, about["signs"], place) if "signs" in about else None
    inner = (foreign if signs else bare)(content.get("tokenizer"), place)
    specials = _specials(about.get("specials"), inner, place)
    return inner, config, specials, signs


def bare(description: Any, place: str = "tokenizer") -> tokenizers.Tokenizer:
    """The library's tokenizer without what it would add to texts, cut from them or look for in them."""
    return _without(description, {"added_tokens": []}, place)


def foreign(description: Any, place: str = "tokenizer") -> tokenizers.Tokenizer:
    """The same of one that was made elsewhere: it keeps its signs, but no text can produce them."""
    tokenizer = _without(description, {}, place)
    tokenizer.encode_special_tokens = True
    return tokenizer


def _without(description: Any, other: dict[str, Any], place: str) -> tokenizers.Tokenizer:
    if not isinstance(description, dict):
        raise ModelError(f"{place}: the tokenizer itself is missing; copy the file again")
    nothing = {"truncation": None, "padding": None, "post_processor": None}
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(description | nothing | other))
    except Exception as error:
        raise ModelError(f"{place}: the tokenizer in it is broken ({error}); copy the file again") from None


def _settings(kind: type[S], values: Any, place: str) -> S:
    try:
        return parse_settings(kind, values)
    except SettingsError as error:
        raise ModelError(f"{place}: settings of another clearhead: {error.problems[0]}") from None


def _specials(names: Any, inner: tokenizers.Tokenizer, place: str) -> tuple[str, ...]:
    """The special tokens, which must be where every model expects them."""
    if not isinstance(names, list) or (names and tuple(names[: len(SPECIALS)]) != SPECIALS):
        raise ModelError(f"{place}: special tokens are not {' '.join(SPECIALS)}; copy the file again")
    for number, name in enumerate(names):
        if not isinstance(name, str) or inner.token_to_id(name) != number:
            raise ModelError(
                f"{place}: special token {name!r} does not have id {number}; copy the file again"
            )
    return tuple(names)
