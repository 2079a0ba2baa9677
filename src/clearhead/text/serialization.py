"""Tokenizers as JSON: the library's own description, and beside it the part that clearhead adds."""

import json
from typing import Annotated, Any

import tokenizers
from pydantic import ConfigDict, Field

from clearhead.config import S, Settings, parse_settings
from clearhead.errors import ModelError, SettingsError
from clearhead.text.kinds import SPECIAL_TOKENS, TokenizerConfig

FORMAT = 1


def _named(name: str, default: Any) -> Any:
    """A field that has another name in files."""
    return Field(default, validation_alias=name, serialization_alias=name)


class SpecialIds(Settings):
    """The special tokens of an imported tokenizer, by id."""

    model_config = ConfigDict(populate_by_name=True)
    size: int
    """Number of ids that the model has embeddings for."""
    bos: int | None = _named("start", None)
    eos: int | None = _named("end", None)
    several_eos: Annotated[tuple[int, ...], Field(strict=False)] = _named("several", ())
    """All ids that end a text, if there is more than one."""
    adds_bos: bool = _named("leads", False)
    """Whether every text begins with `bos`."""
    mask: int | None = None


def dumps(
    inner: tokenizers.Tokenizer,
    config: TokenizerConfig,
    special_tokens: tuple[str, ...],
    imported: SpecialIds | None,
    added_tokens: tuple[str, ...] = (),
    target: tokenizers.Tokenizer | None = None,
) -> str:
    about: dict[str, Any] = {
        "format": FORMAT,
        "specials": special_tokens,
        "settings": config.model_dump(exclude_none=True),
    }
    if imported:
        about["signs"] = imported.model_dump(exclude_defaults=True, by_alias=True)
    if added_tokens:
        about["added"] = added_tokens
    content = {"clearhead": about, "tokenizer": json.loads(inner.to_str())}
    if target:
        content["target"] = json.loads(target.to_str())
    return json.dumps(content, ensure_ascii=False)


Parts = tuple[
    tokenizers.Tokenizer,
    TokenizerConfig,
    tuple[str, ...],
    SpecialIds | None,
    tuple[str, ...],
    tokenizers.Tokenizer | None,
]


def loads(text: str, path: str) -> Parts:
    """The arguments of `dumps`; a ModelError names the path."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cut short or not JSON ({error}); copy the file again") from None
    about = content.get("clearhead") if isinstance(content, dict) else None
    if not isinstance(about, dict):
        raise ModelError(f"{path}: not a clearhead tokenizer; use the one that was saved with the model")
    if about.get("format") != FORMAT:
        raise ModelError(f"{path}: format {about.get('format')!r} is not {FORMAT}; use a newer clearhead")
    settings = about.get("settings")
    # Tokenizers older than byte fallback do not name it.
    known = {"byte_fallback": False} | settings if isinstance(settings, dict) else settings
    config = _settings(TokenizerConfig, known, path)
    imported = _settings(SpecialIds, about["signs"], path) if "signs" in about else None
    inner = library_tokenizer(content.get("tokenizer"), path, imported is not None)
    target = library_tokenizer(content["target"], path, imported is not None) if "target" in content else None
    if target and target.get_vocab() != inner.get_vocab():
        raise ModelError(f"{path}: source and target have different tokens; copy the file again")
    special_tokens = _special_tokens(about.get("specials"), inner, path)
    added_tokens = _added_tokens(about.get("added", []), inner, path)
    return inner, config, special_tokens, imported, added_tokens, target


def library_tokenizer(description: Any, path: str, imported: bool = False) -> tokenizers.Tokenizer:
    """The library's tokenizer, which neither adds special tokens to texts nor finds any in them.

    An imported one keeps its special tokens, but no text can produce them.
    """
    if not isinstance(description, dict):
        raise ModelError(f"{path}: the tokenizer itself is missing; copy the file again")
    disabled = {"truncation": None, "padding": None, "post_processor": None}
    special = {} if imported else {"added_tokens": []}
    try:
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(description | disabled | special))
    except Exception as error:
        raise ModelError(f"{path}: the tokenizer in it is broken ({error}); copy the file again") from None
    tokenizer.encode_special_tokens = imported
    return tokenizer


def _settings(kind: type[S], values: Any, path: str) -> S:
    try:
        return parse_settings(kind, values)
    except SettingsError as error:
        raise ModelError(f"{path}: settings of another clearhead version: {error.problems[0]}") from None


def _special_tokens(names: Any, inner: tokenizers.Tokenizer, path: str) -> tuple[str, ...]:
    """The special tokens, which must have the ids that every model expects."""
    if not isinstance(names, list) or (names and tuple(names[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS):
        raise ModelError(f"{path}: special tokens are not {' '.join(SPECIAL_TOKENS)}; copy the file again")
    for number, name in enumerate(names):
        if not isinstance(name, str) or inner.token_to_id(name) != number:
            raise ModelError(f"{path}: special token {name!r} does not have id {number}; copy the file again")
    return tuple(names)


def _added_tokens(names: Any, inner: tokenizers.Tokenizer, path: str) -> tuple[str, ...]:
    """The special tokens that were added later, at any ids."""
    if not isinstance(names, list):
        raise ModelError(f"{path}: the added special tokens are not a list; copy the file again")
    for name in names:
        if not isinstance(name, str) or inner.token_to_id(name) is None:
            raise ModelError(f"{path}: the added special token {name!r} has no id; copy the file again")
    return tuple(names)
