"""Reads the tokenizers of Hugging Face folders: tokenizer.json, or GPT-2's vocab.json and merges.txt."""

import json
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from clearhead.errors import ModelError
from clearhead.text import serialization as saved
from clearhead.text.kinds import TokenizerConfig

WHOLE, VOCABULARY, MERGES = "tokenizer.json", "vocab.json", "merges.txt"
MODEL, GENERATION = "config.json", "generation_config.json"
PLAIN = ("single_word", "lstrip", "rstrip", "normalized")
GPT2_SIGN = "<|endoftext|>"


def read_foreign(folder: Path, size: int) -> saved.Unpacked:
    """The library's tokenizer and what clearhead has to know of it, for a model with so many rows."""
    inner = _tokenizer(folder)
    signs = _signs(folder, inner, size)
    place = str(folder)
    if inner.get_vocab_size() and (highest := max(inner.get_vocab().values())) >= size:
        raise ModelError(
            f"{place}: the tokenizer has the id {highest}, and the model rows for {size} ids only"
        )
    description = json.loads(inner.to_str())
    by_bytes = "ByteLevel" in json.dumps([description["pre_tokenizer"], description["decoder"]])
    config = TokenizerConfig(kind="bytes" if by_bytes else "bpe", vocabulary=size, normalize=False)
    return saved.foreign(description, place), config, (), signs


def write_foreign(
    inner: tokenizers.Tokenizer, specials: tuple[str, ...], signs: saved.Signs
) -> dict[str, Any]:
    """The files of a tokenizer, by name; our special tokens are declared as such."""
    description = json.loads(inner.to_str())
    description["added_tokens"] += [
        {"id": number, "content": name, "special": True} | dict.fromkeys(PLAIN, False)
        for number, name in enumerate(specials)
    ]
    names = {
        f"{short}_token": str(inner.id_to_token(number))
        for short, number in (("bos", signs.start), ("eos", signs.end))
        if number is not None
    }
    if signs.leads:
        description["post_processor"] = _leading(names["bos_token"], signs.start)
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    return {WHOLE: description, "tokenizer_config.json": about | names}


def _leading(token: str, number: int | None) -> dict[str, Any]:
    """What puts a sign before every text."""
    sign, text = {"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    pair = [sign, text, {"Sequence": {"id": "B", "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": [sign, text],
        "pair": pair,
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; nothing where there is no such file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cut short or not JSON ({error}); copy it again") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path}: not an object of settings; copy it again")
    return content


def _tokenizer(folder: Path) -> tokenizers.Tokenizer:
    if (folder / WHOLE).is_file():
        try:
            return tokenizers.Tokenizer.from_file(str(folder / WHOLE))
        except Exception as error:
            raise ModelError(
                f"{folder / WHOLE}: the tokenizer in it is broken ({error}); copy it again"
            ) from None
    for name in (VOCABULARY, MERGES):
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: no tokenizer here; it needs {WHOLE}, or {VOCABULARY} and {MERGES}")
    try:
        model = models.BPE.from_file(str(folder / VOCABULARY), str(folder / MERGES))
    except Exception as error:
        raise ModelError(
            f"{folder / VOCABULARY}: not with {MERGES} a tokenizer ({error}); copy both again"
        ) from None
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    if inner.token_to_id(GPT2_SIGN) is not None:
        inner.add_special_tokens([AddedToken(GPT2_SIGN, normalized=False)])
    return inner


def _signs(folder: Path, inner: tokenizers.Tokenizer, size: int) -> saved.Signs:
    """The ids of the signs: those of the tokenizer's settings, but what ends a text as the model has it."""
    told = read_json(folder / MODEL)
    start = _named(folder, inner, "bos", size)
    start = next(iter(_ids(told.get("bos_token_id"), size)), None) if start is None else start
    end = _named(folder, inner, "eos", size)
    # Where both say something, the transformers library heeds the former.
    ends = _ids(read_json(folder / GENERATION).get("eos_token_id"), size) or _ids(
        told.get("eos_token_id"), size
    )
    if ends and end not in ends:
        end = ends[0]
    leads = start is not None and inner.encode("a").ids[:1] == [start]
    return saved.Signs(size=size, start=start, end=end, several=ends if len(ends) > 1 else (), leads=leads)


def _named(folder: Path, inner: tokenizers.Tokenizer, name: str, size: int) -> int | None:
    """The id of a sign that the settings of the tokenizer name."""
    said = read_json(folder / "tokenizer_config.json").get(f"{name}_token")
    token = said.get("content") if isinstance(said, dict) else said
    return next(iter(_ids(inner.token_to_id(token), size)), None) if isinstance(token, str) else None


def _ids(told: Any, size: int) -> tuple[int, ...]:
    """An id, or several, as far as the model has rows for them."""
    each = told if isinstance(told, list) else [told]
    return tuple(dict.fromkeys(one for one in each if isinstance(one, int) and 0 <= one < size))
