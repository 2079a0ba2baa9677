"""Architectures of Hugging Face transformers that an encoder can represent: BERT, RoBERTa and DistilBERT."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.interop.architecture import (
    ACTIVATIONS,
    Architecture,
    Files,
    activation_name,
    class_names,
    label_settings,
    layers,
    require,
    vocabulary_size,
)
from clearhead.interop.weight_map import Tensors, WeightMap
from clearhead.models.encoder import Encoder, EncoderConfig
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import Tokenizer

# What all three have in common.
BERT: dict[str, Any] = {
    "position": "learned",
    "norm_position": "post",
    "norm_epsilon": 1e-12,
    "embedding_norm": True,
}
# RoBERTa counts positions from here, because its padding token is 1.
FIRST_POSITION = 2
SINGLE_LABEL, MULTI_LABEL = "single_label_classification", "multi_label_classification"
# Tensors of heads that a checkpoint may hold besides the one its settings name.
OTHER_HEADS = (r".*position_ids", r"(\w+\.)?pooler\..*", r"cls\..*", r"lm_head\..*", r"vocab_.*")


@dataclass(frozen=True)
class Family:
    """What BERT, RoBERTa and DistilBERT call the same things."""

    model_type: str
    class_prefix: str
    read: Callable[[Mapping[str, Any]], dict[str, Any]]
    write: Callable[[EncoderConfig], dict[str, Any]]
    model: Mapping[str, Tensors]
    block: Mapping[str, Tensors]
    heads: dict[str, dict[str, Tensors]]
    """The tensors of the heads for masked tokens and classes."""
    pooler: str
    classifier_dropout: str
    """The setting in config.json."""


def _read_bert(settings: Mapping[str, Any]) -> dict[str, Any]:
    require(settings, {"hidden_act": tuple(ACTIVATIONS), "position_embedding_type": ("absolute",)})
    require(settings, {"is_decoder": (False,), "add_cross_attention": (False,)})
    return BERT | {
        "width": settings.get("hidden_size", 768),
        "ffn_width": settings.get("intermediate_size", 3072),
        "layers": settings.get("num_hidden_layers", 12),
        "attention": {
            "heads": settings.get("num_attention_heads", 12),
            "dropout": float(settings.get("attention_probs_dropout_prob", 0.1)),
        },
        "activation": ACTIVATIONS[settings.get("hidden_act", "gelu")],
        "norm_epsilon": float(settings.get("layer_norm_eps", 1e-12)),
        "dropout": float(settings.get("hidden_dropout_prob", 0.1)),
        "max_length": settings.get("max_position_embeddings", 512),
        "token_types": settings.get("type_vocab_size", 2),
    }


def _write_bert(config: EncoderConfig) -> dict[str, Any]:
    return {
        "hidden_size": config.width,
        "intermediate_size": config.ffn_width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.attention.heads,
        "attention_probs_dropout_prob": config.attention.dropout,
        "hidden_act": activation_name(config.activation, "gelu"),
        "layer_norm_eps": config.norm_epsilon or 1e-5,
        "hidden_dropout_prob": config.dropout,
        "max_position_embeddings": config.max_length,
        # BERT needs one type at least.
        "type_vocab_size": config.token_types or 1,
    }


def _read_roberta(settings: Mapping[str, Any]) -> dict[str, Any]:
    require(settings, {"hidden_act": ("gelu",), "pad_token_id": (FIRST_POSITION - 1,)})
    read = _read_bert(settings)
    return read | {"max_length": read["max_length"] - FIRST_POSITION}


def _write_roberta(config: EncoderConfig) -> dict[str, Any]:
    positions = config.max_length + FIRST_POSITION
    return _write_bert(config) | {
        "hidden_act": "gelu",
        "max_position_embeddings": positions,
        "pad_token_id": FIRST_POSITION - 1,
    }


def _read_distilbert(settings: Mapping[str, Any]) -> dict[str, Any]:
    require(settings, {"activation": tuple(ACTIVATIONS)})
    return BERT | {
        "width": settings.get("dim", 768),
        "ffn_width": settings.get("hidden_dim", 3072),
        "layers": settings.get("n_layers", 6),
        "attention": {
            "heads": settings.get("n_heads", 12),
            "dropout": float(settings.get("attention_dropout", 0.1)),
        },
        "activation": ACTIVATIONS[settings.get("activation", "gelu")],
        "dropout": float(settings.get("dropout", 0.1)),
        "max_length": settings.get("max_position_embeddings", 512),
    }


def _write_distilbert(config: EncoderConfig) -> dict[str, Any]:
    require({"norm_epsilon": config.norm_epsilon}, {"norm_epsilon": (BERT["norm_epsilon"],)})
    return {
        "dim": config.width,
        "hidden_dim": config.ffn_width,
        "n_layers": config.layers,
        "n_heads": config.attention.heads,
        "attention_dropout": config.attention.dropout,
        "activation": activation_name(config.activation, "gelu"),
        "dropout": config.dropout,
        "max_position_embeddings": config.max_length,
    }


def _transform(prefix: str, dense: str, norm: str) -> dict[str, Tensors]:
    return layers(("head.transform.dense", prefix + dense), ("head.transform.norm", prefix + norm))


def _readout(decoder: str, bias: str) -> dict[str, Tensors]:
    return {"head.weight": Tensors((f"{decoder}.weight",)), "head.bias": Tensors((bias,))}


EMBEDDING = {
    "embedding.weight": Tensors(("embeddings.word_embeddings.weight",)),
    "embedding.position.weight": Tensors(("embeddings.position_embeddings.weight",)),
    "embedding.type_weight": Tensors(("embeddings.token_type_embeddings.weight",)),
    **layers(("embedding.norm", "embeddings.LayerNorm")),
}
LAYER = "encoder.layer.{}."
BERT_BLOCK = layers(
    ("attention.project", tuple(f"{LAYER}attention.self.{name}" for name in ("query", "key", "value"))),
    ("attention.output", f"{LAYER}attention.output.dense"),
    ("attention_residual.norm", f"{LAYER}attention.output.LayerNorm"),
    ("feedforward.inner", f"{LAYER}intermediate.dense"),
    ("feedforward.outer", f"{LAYER}output.dense"),
    ("feedforward_residual.norm", f"{LAYER}output.LayerNorm"),
)
DISTILBERT_LAYER = "transformer.layer.{}."
DISTILBERT_BLOCK = layers(
    ("attention.project", tuple(f"{DISTILBERT_LAYER}attention.{letter}_lin" for letter in "qkv")),
    ("attention.output", f"{DISTILBERT_LAYER}attention.out_lin"),
    ("attention_residual.norm", f"{DISTILBERT_LAYER}sa_layer_norm"),
    ("feedforward.inner", f"{DISTILBERT_LAYER}ffn.lin1"),
    ("feedforward.outer", f"{DISTILBERT_LAYER}ffn.lin2"),
    ("feedforward_residual.norm", f"{DISTILBERT_LAYER}output_layer_norm"),
)
ROBERTA_EMBEDDING = EMBEDDING | {
    "embedding.position.weight": Tensors(
        ("embeddings.position_embeddings.weight",), unused_rows=FIRST_POSITION
    )
}
SPAN = {"span": layers(("head.readout", "qa_outputs"))}
FAMILIES = (
    Family(
        "bert",
        "Bert",
        _read_bert,
        _write_bert,
        EMBEDDING,
        BERT_BLOCK,
        {
            "masked_tokens": _transform("cls.predictions.transform.", "dense", "LayerNorm")
            | _readout("cls.predictions.decoder", "cls.predictions.bias"),
            "classifier": layers(("head.pooler", "bert.pooler.dense"), ("head.output", "classifier")),
        },
        "tanh",
        "classifier_dropout",
    ),
    Family(
        "roberta",
        "Roberta",
        _read_roberta,
        _write_roberta,
        ROBERTA_EMBEDDING,
        BERT_BLOCK,
        {
            "masked_tokens": _transform("lm_head.", "dense", "layer_norm")
            | _readout("lm_head.decoder", "lm_head.bias"),
            "classifier": layers(("head.pooler", "classifier.dense"), ("head.output", "classifier.out_proj")),
        },
        "tanh",
        "classifier_dropout",
    ),
    Family(
        "distilbert",
        "DistilBert",
        _read_distilbert,
        _write_distilbert,
        EMBEDDING,
        DISTILBERT_BLOCK,
        {
            "masked_tokens": _transform("vocab_", "transform", "layer_norm")
            | _readout("vocab_projector", "vocab_projector.bias"),
            "classifier": layers(("head.pooler", "pre_classifier"), ("head.output", "classifier")),
        },
        "relu",
        "seq_classif_dropout",
    ),
)


def _classifier(family: Family) -> Architecture:
    def read(settings: Mapping[str, Any]) -> dict[str, Any]:
        require(settings, {"problem_type": (None, SINGLE_LABEL, MULTI_LABEL)})
        config = family.read(settings)
        dropout = settings.get(family.classifier_dropout)
        head = {
            "kind": "classifier",
            "pooling": "first",
            "pooler": family.pooler,
            "dropout": config["dropout"] if dropout is None else float(dropout),
        }
        return config | {"head": head}

    def write(config: EncoderConfig) -> dict[str, Any]:
        return family.write(config) | {family.classifier_dropout: getattr(config.head, "dropout", None)}

    return _architecture(family, "classifier", "ForSequenceClassification", "classification", read, write)


def _masked(family: Family) -> Architecture:
    def read(settings: Mapping[str, Any]) -> dict[str, Any]:
        require(settings, {"tie_word_embeddings": (True,)})
        return family.read(settings) | {"head": {"kind": "masked_tokens", "transform": True}}

    return _architecture(family, "masked_tokens", "ForMaskedLM", "masked", read, family.write)


def _span(family: Family) -> Architecture:
    def read(settings: Mapping[str, Any]) -> dict[str, Any]:
        config = family.read(settings)
        dropout = settings.get("qa_dropout", 0.0)
        return config | {"head": {"kind": "span", "dropout": float(dropout), "order": "question_first"}}

    return _architecture(family, "span", "ForQuestionAnswering", "question_answering", read, family.write)


def _architecture(
    family: Family, head: str, class_name: str, task: str, read: Any, write: Any
) -> Architecture:
    tensors = (family.model, {"encoder": family.block}, (family.heads | SPAN)[head])
    weights = WeightMap(f"{family.model_type}.", *tensors, ignored=OTHER_HEADS)
    return Architecture(
        family.model_type,
        family.class_prefix + class_name,
        task,
        Encoder,
        read,
        write,
        weights,
        read_labelled_processor if head == "classifier" else read_processor,
        write_processor,
    )


def read_processor(folder: Path, settings: Mapping[str, Any]) -> TextProcessor:
    return TextProcessor(Tokenizer.from_huggingface(folder, vocabulary_size(settings)))


def read_labelled_processor(folder: Path, settings: Mapping[str, Any]) -> TextProcessor:
    multi_label = settings.get("problem_type") == MULTI_LABEL
    return TextProcessor(read_processor(folder, settings).tokenizer, class_names(settings), multi_label)


def write_processor(processor: TextProcessor, config: EncoderConfig) -> tuple[dict[str, Any], Files]:
    tokenizer = processor.tokenizer
    settings: dict[str, Any] = {
        "vocab_size": tokenizer.size,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
    }
    if processor.labels:
        settings["problem_type"] = MULTI_LABEL if processor.multi_label else SINGLE_LABEL
        settings |= label_settings(processor.labels)
    return settings, tokenizer.to_huggingface(config.token_types)


ENCODERS = tuple(
    make(family)
    for family in FAMILIES
    for make in (_masked, _classifier, _span)
    # RoBERTa has two end tokens between a question and a text.
    if (family.model_type, make) != ("roberta", _span)
)
