"""Architectures of Hugging Face transformers that a translator can represent: Marian and Pegasus.

Both compute the same, except that Marian normalises after each sublayer and Pegasus before it.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.errors import ModelError
from clearhead.interop.architecture import ACTIVATIONS, Architecture, Files, activation_name, require
from clearhead.interop.weight_map import Tensors, WeightMap
from clearhead.layers.positions import sinusoids
from clearhead.models.translator import Translator, TranslatorConfig
from clearhead.text.huggingface import GENERATION, TOKENIZER, TOKENIZER_CONFIG, VOCABULARY, read_json
from clearhead.text.kinds import SPECIAL_TOKENS
from clearhead.text.languages import NAMES, language_tag
from clearhead.text.normalize import NORMALIZER
from clearhead.text.sentencepiece import read_sentencepiece, unigram_tokenizer
from clearhead.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerConfig

SOURCE_PIECES, TARGET_PIECES = "source.spm", "target.spm"
# The tokenizer of target texts in an export, if it differs from that of sources.
TARGET_TOKENIZER = "target_tokenizer.json"
# The part of tokenizer_config.json from which a tokenizer of ours is restored.
OWN = "clearhead"
# How Marian marks the target language in a source: >>de<<.
LANGUAGE_TAG = re.compile(r">>(\w+)<<")
# The key of a direction in task_specific_params, as T5 names them.
DIRECTION = re.compile(r"translation_(\w+)_to_(\w+)")
# A logit far below all others: Marian has one token for padding and start, and never generates it.
NEVER = -100.0
# The largest exponent that the settings of a search take.
MAX_LENGTH_PENALTY = 10
# Checkpoints may hold the matrix of all embeddings under any of these names.
EMBEDDINGS = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
BIAS = "final_logits_bias"
SPECIAL_IDS = {
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
    "forced_eos_token_id": EOS,
}


def _reader(norm_position: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    def read(given: Mapping[str, Any]) -> dict[str, Any]:
        settings = {"scale_embedding": False, "activation_function": "gelu", **given}
        heads, ffn_width = (
            settings.get("encoder_attention_heads", 16),
            settings.get("encoder_ffn_dim", 4096),
        )
        require(
            settings,
            {
                "scale_embedding": (True,),
                "activation_function": tuple(ACTIVATIONS),
                "share_encoder_decoder_embeddings": (True,),
                "tie_word_embeddings": (True,),
                "static_position_embeddings": (True,),
                "normalize_embedding": (False,),
                "normalize_before": (norm_position == "pre",),
                "add_final_layer_norm": (norm_position == "pre",),
                "decoder_attention_heads": (heads,),
                "decoder_ffn_dim": (ffn_width,),
            },
        )
        return {
            "width": settings.get("d_model", 1024),
            "ffn_width": ffn_width,
            "encoder_layers": settings.get("encoder_layers", 12),
            "decoder_layers": settings.get("decoder_layers", 12),
            "attention": {"heads": heads, "dropout": float(settings.get("attention_dropout", 0.0))},
            "activation": ACTIVATIONS[settings["activation_function"]],
            "norm_position": norm_position,
            "dropout": float(settings.get("dropout", 0.1)),
            "max_length": settings.get("max_position_embeddings", 1024),
            "readout_bias": "learned",
        }

    return read


def _write(config: TranslatorConfig) -> dict[str, Any]:
    require({"norm_epsilon": config.norm_epsilon}, {"norm_epsilon": (None, 1e-5)})
    heads, ffn_width = config.attention.heads, config.ffn_width
    return {
        "d_model": config.width,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": ffn_width,
        "decoder_ffn_dim": ffn_width,
        "activation_function": activation_name(config.activation, "relu"),
        "attention_dropout": config.attention.dropout,
        "dropout": config.dropout,
        "max_position_embeddings": config.max_length,
        "scale_embedding": True,
        "is_encoder_decoder": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
    }


def read_processor(folder: Path, settings: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that an export wrote, or one made of a pair of SentencePiece models, with our ids."""
    own = read_json(folder / TOKENIZER_CONFIG).get(OWN)
    if own:
        content = {"clearhead": own, "tokenizer": _without_normalizer(read_json(folder / TOKENIZER))}
        if target := read_json(folder / TARGET_TOKENIZER):
            content["target"] = target
        return Tokenizer.from_json(json.dumps(content), str(folder / TOKENIZER))
    for name in (SOURCE_PIECES, TARGET_PIECES, VOCABULARY):
        if not (folder / name).is_file():
            raise ModelError(
                f"{folder}: no tokenizer; it needs {SOURCE_PIECES}, {TARGET_PIECES} and {VOCABULARY}"
            )
    names = _names(folder, settings)
    config = TokenizerConfig(
        kind="unigram", vocabulary=max(len(names), 5), normalize=False, byte_fallback=False
    )
    special = tuple(name for name in names if name in SPECIAL_TOKENS or name != names[name])
    source, target = (
        unigram_tokenizer(read_sentencepiece(folder / name), list(names))
        for name in (SOURCE_PIECES, TARGET_PIECES)
    )
    return Tokenizer(source, config, special, target=target)


def _names(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Our tokens, in the order of their ids, each with its name in vocab.json."""
    vocabulary = read_json(folder / VOCABULARY)
    by_id = {number: name for name, number in vocabulary.items()}
    pad, eos = settings.get("pad_token_id"), settings.get("eos_token_id")
    start = settings.get("decoder_start_token_id", pad)
    special = dict(
        zip(SPECIAL_TOKENS, map(by_id.get, (pad, vocabulary.get("<unk>"), start, eos)), strict=True)
    )
    for token, name in special.items():
        if name is None:
            raise ModelError(
                f"{folder / VOCABULARY}: has no id for {token}; the files belong to different models"
            )
    tags = {
        language_tag(found[1]): name
        for name in vocabulary
        if (found := LANGUAGE_TAG.fullmatch(name)) and found[1] in NAMES
    }
    used = {*special.values(), *tags.values(), *special, *tags}
    return {**special, **tags} | {name: name for _, name in sorted(by_id.items()) if name not in used}


def write_processor(tokenizer: Tokenizer, config: TranslatorConfig) -> tuple[dict[str, Any], Files]:
    files, own = tokenizer.to_huggingface(token_types=0), json.loads(tokenizer.to_json())
    about = {
        name: value
        for name, value in files[TOKENIZER_CONFIG].items()
        if name not in ("cls_token", "sep_token")
    }
    about |= {
        "unk_token": SPECIAL_TOKENS[UNK],
        "pad_token": SPECIAL_TOKENS[PAD],
        "model_max_length": config.max_length,
        OWN: own[OWN],
    }
    settings = {"vocab_size": tokenizer.size, "decoder_vocab_size": tokenizer.size, **SPECIAL_IDS}
    target = {TARGET_TOKENIZER: own["target"]} if "target" in own else {}
    return settings, {TOKENIZER: _with_normalizer(files[TOKENIZER]), TOKENIZER_CONFIG: about, **target}


def _normalizer() -> dict[str, Any]:
    """The normalizer of all texts, as JSON."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.normalizer = NORMALIZER
    return json.loads(inner.to_str())["normalizer"]


def _with_normalizer(description: dict[str, Any]) -> dict[str, Any]:
    """The description of a tokenizer that normalizes texts as we do before it tokenizes them."""
    own = description.get("normalizer")
    return description | {
        "normalizer": {"type": "Sequence", "normalizers": [_normalizer(), *([own] if own else [])]}
    }


def _without_normalizer(description: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `_with_normalizer`."""
    normalizer = description.get("normalizer") or {}
    steps = normalizer.get("normalizers", [])
    if steps[:1] != [_normalizer()]:
        return description
    return description | {"normalizer": steps[1] if len(steps) > 1 else None}


def read_tensors(
    folder: Path, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The tensors with a row for each of our tokens."""
    name = next((name for name in EMBEDDINGS if name in tensors), None)
    if name is None:
        raise ModelError(f"{EMBEDDINGS[0]} is missing; copy the folder again")
    matrix = tensors[name]
    bias = tensors.get(BIAS, matrix.new_zeros(1, len(matrix)))
    found = {name: tensor for name, tensor in tensors.items() if name not in (*EMBEDDINGS, BIAS)}
    if not read_json(folder / TOKENIZER_CONFIG).get(OWN):
        vocabulary = read_json(folder / VOCABULARY)
        rows = torch.tensor([vocabulary[name] for name in _names(folder, settings).values()])
        if len(rows) and int(rows.max()) >= min(len(matrix), bias.shape[-1]):
            raise ModelError(
                f"{folder / VOCABULARY}: has id {int(rows.max())}, but the model has embeddings for "
                f"{len(matrix)} ids only"
            )
        matrix, bias = matrix[rows], bias[:, rows]
        bias[:, [PAD, BOS]] = NEVER
    return found | {EMBEDDINGS[0]: matrix, BIAS: bias}


def write_tensors(config: TranslatorConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with the tables of positions, which Pegasus would report as missing."""
    table = Tensors((), split_axis=1).write(sinusoids(torch.arange(config.max_length), config.width))
    return {
        **tensors,
        "model.encoder.embed_positions.weight": table,
        "model.decoder.embed_positions.weight": table.clone(),
    }


def read_task(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The directions of a model and its defaults for beam search."""
    generation = {**settings, **read_json(folder / GENERATION)}
    beam, length_penalty = generation.get("num_beams"), generation.get("length_penalty")
    search: dict[str, Any] = {}
    if isinstance(beam, int) and beam > 0:
        search["beam"] = beam
    # Our search has no negative exponents.
    if isinstance(length_penalty, int | float) and 0 <= length_penalty <= MAX_LENGTH_PENALTY:
        search["length_penalty"] = float(length_penalty)
    pairs = [{"source": source, "target": target} for source, target in _directions(folder, settings)]
    data = pairs[0] if len(pairs) == 1 else {"corpora": pairs}
    return {"data": data, **({"search": search} if search else {})}


def _directions(folder: Path, settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    named = [DIRECTION.fullmatch(name) for name in settings.get("task_specific_params") or {}]
    if found := [(one[1], one[2]) for one in named if one]:
        return found
    about = read_json(folder / TOKENIZER_CONFIG)
    source, target = (about.get(f"{side}_lang") for side in ("source", "target"))
    tags = [LANGUAGE_TAG.fullmatch(name) for name in read_json(folder / VOCABULARY)]
    targets = [one[1] for one in tags if one and one[1] in NAMES] or [target]
    if not isinstance(source, str) or not all(target in NAMES for target in targets):
        raise ModelError(
            f"{folder / TOKENIZER_CONFIG}: source_lang {source!r} and target_lang {target!r} are not "
            "languages; name them by codes such as en and de"
        )
    return [(source, str(target)) for target in targets]


def write_task(checkpoint: Checkpoint) -> tuple[dict[str, Any], Files]:
    """The directions of a model and the tags that select them, and its defaults for beam search."""
    data, search = (checkpoint.settings.get(name) or {} for name in ("data", "search"))
    directions: dict[str, dict[str, str]] = {}
    for corpus in data.get("corpora", [data]):
        pair = (corpus.get("source"), corpus.get("target"))
        for source, target in (pair, pair[::-1])[: 2 if corpus.get("both") else 1]:
            tag = f"<2{target}>"
            prefix = {} if checkpoint.processor.special_id(tag) is None else {"prefix": tag}
            directions[f"translation_{source}_to_{target}"] = prefix
    generation = {
        "num_beams": search.get("beam", 5),
        # A different formula with the same exponent.
        "length_penalty": search.get("length_penalty", 0.6),
        "max_length": checkpoint.model.config.max_length,  # pyright: ignore
        **SPECIAL_IDS,
    }
    return {"task_specific_params": directions}, {GENERATION: generation}


def _reads(path: str, *names: str) -> dict[str, Tensors]:
    """A linear layer, or several as one, with the stream as input."""
    return {
        f"{path}.weight": Tensors(tuple(f"{name}.weight" for name in names), split_axis=1),
        f"{path}.bias": Tensors(tuple(f"{name}.bias" for name in names)),
    }


def _adds(path: str, name: str) -> dict[str, Tensors]:
    """A linear layer that adds to the stream, or a norm of the stream."""
    return {f"{path}.{kind}": Tensors((f"{name}.{kind}",), split_axis=0) for kind in ("weight", "bias")}


def _attention(path: str, residual: str, name: str) -> dict[str, Tensors]:
    return {
        **_reads(f"{path}.project", *(f"{name}.{letter}_proj" for letter in "qkv")),
        **_adds(f"{path}.output", f"{name}.out_proj"),
        **_adds(f"{residual}.norm", f"{name}_layer_norm"),
    }


def _block(layer: str, cross: bool) -> dict[str, Tensors]:
    source = _attention("cross_attention", "cross_residual", f"{layer}encoder_attn") if cross else {}
    return {
        **_attention("attention", "attention_residual", f"{layer}self_attn"),
        **source,
        **_reads("feedforward.inner", f"{layer}fc1"),
        **_adds("feedforward.outer", f"{layer}fc2"),
        **_adds("feedforward_residual.norm", f"{layer}final_layer_norm"),
    }


WEIGHTS = WeightMap(
    "model.",
    {
        "source_embedding.weight": Tensors(("shared.weight",), split_axis=1),
        **_adds("encoder.norm", "encoder.layer_norm"),
        **_adds("decoder.norm", "decoder.layer_norm"),
    },
    {
        "encoder": _block("encoder.layers.{}.", cross=False),
        "decoder": _block("decoder.layers.{}.", cross=True),
    },
    {"readout_bias": Tensors((BIAS,), leading_axes=1)},
    # The positions follow from the settings.
    ignored=(r"model\.(encoder|decoder)\.embed_positions\.weight",),
)


def _row(model_type: str, class_name: str, norm_position: str) -> Architecture:
    return Architecture(
        model_type,
        class_name,
        "translation",
        Translator,
        _reader(norm_position),
        _write,
        WEIGHTS,
        read_processor,
        write_processor,
        read_tensors,
        write_tensors,
        read_task,
        write_task,
    )


TRANSLATORS = (
    _row("marian", "MarianMTModel", "post"),
    _row("pegasus", "PegasusForConditionalGeneration", "pre"),
)
