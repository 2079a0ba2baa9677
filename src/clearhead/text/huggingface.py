"""Tokenizers of Hugging Face folders: tokenizer.json, GPT-2's vocab.json and merges.txt, BERT's vocab.txt."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from clearhead.errors import ModelError
from clearhead.text import serialization
from clearhead.text.kinds import KindName, TokenizerConfig

TOKENIZER, VOCABULARY, MERGES = "tokenizer.json", "vocab.json", "merges.txt"
CONFIG, GENERATION, TOKENIZER_CONFIG = "config.json", "generation_config.json", "tokenizer_config.json"
TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")
WORD_PIECES = "vocab.txt"
GPT2_EOS = "<|endoftext|>"
PADDING = ("[PAD]", "<pad>")
BERT_TOKENS = {"cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
# The kind that an imported tokenizer counts as, by the library's model.
KINDS: dict[str, KindName] = {"WordPiece": "wordpiece", "Unigram": "unigram"}


def read_huggingface(folder: Path, size: int) -> serialization.Parts:
    """The parts of the tokenizer in a folder, for a model with embeddings for `size` ids."""
    inner = _tokenizer(folder)
    special = _special_ids(folder, inner, size)
    if inner.get_vocab_size() and (highest := max(inner.get_vocab().values())) >= size:
        raise ModelError(
            f"{folder}: the tokenizer has id {highest}, but the model has embeddings for {size} ids only"
        )
    description = json.loads(inner.to_str())
    byte_level = "ByteLevel" in json.dumps([description["pre_tokenizer"], description["decoder"]])
    kind = "bytes" if byte_level else KINDS.get(description["model"].get("type"), "bpe")
    spells = kind in ("bpe", "unigram") and bool(description["model"].get("byte_fallback"))
    config = TokenizerConfig(kind=kind, vocabulary=size, normalize=False, byte_fallback=spells)
    library_tokenizer = serialization.library_tokenizer(description, str(folder), imported=True)
    return library_tokenizer, config, (), special, (), None


def huggingface_files(
    inner: tokenizers.Tokenizer,
    special_tokens: Mapping[str, int],
    ids: serialization.SpecialIds,
    token_types: int | None = None,
) -> dict[str, Any]:
    """The files of a tokenizer, by name, with our special tokens declared as such."""
    description = json.loads(inner.to_str())
    description["added_tokens"] += [
        {"id": number, "content": name, "special": True} | dict.fromkeys(TOKEN_FLAGS, False)
        for name, number in special_tokens.items()
    ]
    names: dict[str, Any] = {
        f"{short}_token": str(inner.id_to_token(number))
        for short, number in {"bos": ids.bos, "eos": ids.eos, "mask": ids.mask}.items()
        if number is not None
    }
    start = names.get("bos_token") if ids.adds_bos else None
    end = None if token_types is None else names.get("eos_token")
    if start or end:
        description["post_processor"] = _post_processor(inner, start, end)
    if end:
        pads = (token for token in PADDING if inner.token_to_id(token) is not None)
        names |= {"cls_token": names.get("bos_token", end), "sep_token": end, "pad_token": next(pads, end)}
        types = ["token_type_ids"] if token_types else []
        names["model_input_names"] = ["input_ids", *types, "attention_mask"]
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    return {TOKENIZER: description, TOKENIZER_CONFIG: about | names}


def _post_processor(inner: tokenizers.Tokenizer, start: str | None, end: str | None) -> dict[str, Any]:
    """Adds a token before each text, and one after it; with an end, the second text of a pair has type 1."""

    def special(token: str | None, number: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": token, "type_id": number}}] if token else []

    def text(name: str, number: int) -> list[dict[str, Any]]:
        return [{"Sequence": {"id": name, "type_id": number}}, *special(end, number)]

    single = [*special(start, 0), *text("A", 0)]
    tokens = {token: inner.token_to_id(token) for token in (start, end) if token}
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *text("B", 1 if end else 0)],
        "special_tokens": {
            token: {"id": token, "ids": [number], "tokens": [token]} for token, number in tokens.items()
        },
    }


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if there is no such file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cut short or not JSON ({error}); copy it again") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path}: not a JSON object; copy it again")
    return content


def _tokenizer(folder: Path) -> tokenizers.Tokenizer:
    if (folder / TOKENIZER).is_file():
        try:
            return tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:
            raise ModelError(
                f"{folder / TOKENIZER}: the tokenizer in it is broken ({error}); copy it again"
            ) from None
    if (folder / WORD_PIECES).is_file():
        return _word_pieces(folder)
    for name in (VOCABULARY, MERGES):
        if not (folder / name).is_file():
            raise ModelError(
                f"{folder}: no tokenizer; it needs {TOKENIZER}, or {VOCABULARY} and {MERGES}, "
                f"or {WORD_PIECES}"
            )
    try:
        model = models.BPE.from_file(str(folder / VOCABULARY), str(folder / MERGES))
    except Exception as error:
        raise ModelError(
            f"{folder / VOCABULARY}: does not form a tokenizer with {MERGES} ({error}); copy both again"
        ) from None
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    if inner.token_to_id(GPT2_EOS) is not None:
        inner.add_special_tokens([AddedToken(GPT2_EOS, normalized=False)])
    return inner


def _word_pieces(folder: Path) -> tokenizers.Tokenizer:
    """BERT's tokenizer, from a file with a token per line (Devlin et al. 2019)."""
    settings = read_json(folder / TOKENIZER_CONFIG)
    try:
        inner = tokenizers.Tokenizer(models.WordPiece.from_file(str(folder / WORD_PIECES), unk_token="[UNK]"))
    except Exception as error:
        raise ModelError(f"{folder / WORD_PIECES}: cannot be read ({error}); copy it again") from None
    vocabulary = inner.get_vocab()
    if missing := [token for token in BERT_TOKENS.values() if token not in vocabulary]:
        raise ModelError(
            f"{folder / WORD_PIECES}: has no {missing[0]}, as the vocabulary of a BERT does; copy it again"
        )
    tokens = {name: (token, vocabulary[token]) for name, token in BERT_TOKENS.items()}
    inner.normalizer = normalizers.BertNormalizer(
        lowercase=bool(settings.get("do_lower_case", True)),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    inner.post_processor = processors.BertProcessing(tokens["sep"], tokens["cls"])
    inner.add_special_tokens([AddedToken(token, normalized=False) for token, _ in tokens.values()])
    return inner


def _special_ids(folder: Path, inner: tokenizers.Tokenizer, size: int) -> serialization.SpecialIds:
    """The special ids of the tokenizer's settings, except that the model's settings decide on eos."""
    config = read_json(folder / CONFIG)
    bos = _configured_id(folder, inner, "bos", size)
    bos = next(iter(_ids(config.get("bos_token_id"), size)), None) if bos is None else bos
    bos = _configured_id(folder, inner, "cls", size) if bos is None else bos
    eos = _configured_id(folder, inner, "eos", size)
    eos = _configured_id(folder, inner, "sep", size) if eos is None else eos
    # The transformers library prefers generation_config.json.
    generation = read_json(folder / GENERATION)
    every_eos = _ids(generation.get("eos_token_id"), size) or _ids(config.get("eos_token_id"), size)
    if every_eos and eos not in every_eos:
        eos = every_eos[0]
    return serialization.SpecialIds(
        size=size,
        bos=bos,
        eos=eos,
        several_eos=every_eos if len(every_eos) > 1 else (),
        mask=_configured_id(folder, inner, "mask", size),
        adds_bos=bos is not None and inner.encode("a").ids[:1] == [bos],
    )


def _configured_id(folder: Path, inner: tokenizers.Tokenizer, name: str, size: int) -> int | None:
    """The id of a special token that the tokenizer's settings name."""
    value = read_json(folder / TOKENIZER_CONFIG).get(f"{name}_token", BERT_TOKENS.get(name))
    token = value.get("content") if isinstance(value, dict) else value
    return next(iter(_ids(inner.token_to_id(token), size)), None) if isinstance(token, str) else None


def _ids(value: Any, size: int) -> tuple[int, ...]:
    """One id or a list of ids, without those that the model has no embeddings for."""
    ids = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(one for one in ids if isinstance(one, int) and 0 <= one < size))
