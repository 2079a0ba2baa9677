"""Folders as the transformers library writes them, one per architecture, and small translators of ours."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from clearhead.checkpoint import save_checkpoint
from clearhead.models import Translator, TranslatorConfig
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

TEXT = "To be, or not to be: that is the question; whether 'tis nobler… naïve café, 北京 🙂  two blanks\n"
VOCABULARY = 340
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "vocab_size": VOCABULARY,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
GPT2 = {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "vocab_size": VOCABULARY,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
MODELS = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2)),
    "gpt2, untied": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**GPT2, tie_word_embeddings=False, n_inner=40, activation_function="gelu")
    ),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, rms_norm_eps=1e-5)),
    "llama, tied": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            **SMALL,
            tie_word_embeddings=True,
            head_dim=6,
            attention_bias=True,
            mlp_bias=True,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        )
    ),
    "mistral": lambda: transformers.MistralForCausalLM(
        transformers.MistralConfig(**SMALL, sliding_window=5, head_dim=8)
    ),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SMALL, head_dim=8)),
}


def write_tokenizer(folder: Path, one_file: bool, adds_bos: bool = False) -> None:
    """Write a byte-level tokenizer: as tokenizer.json, or as vocab.json and merges.txt."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator([TEXT] * 3, trainer)
    if adds_bos:
        inner.post_processor = processors.TemplateProcessing(
            single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
        )
    if one_file:
        inner.save(str(folder / "tokenizer.json"))
    else:
        inner.model.save(str(folder))


@pytest.fixture(scope="package")
def folders(tmp_path_factory) -> dict[str, Path]:
    """A folder per architecture, with weights far from zero."""
    made = {}
    for name, make in MODELS.items():
        torch.manual_seed(1)
        model = make().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        made[name] = tmp_path_factory.mktemp("huggingface")
        model.save_pretrained(made[name])
        write_tokenizer(made[name], one_file=name != "gpt2")
    return made


def huggingface_model(folder: Path) -> transformers.PreTrainedModel:
    return transformers.AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.fixture(scope="session")
def write_translator() -> Callable[..., Translator]:
    """Writes a folder with a small random translator from English to German; returns the model."""

    @torch.no_grad()
    def write(
        folder: Path, texts: Sequence[str], settings: dict[str, Any], tags: Sequence[str] = ()
    ) -> Translator:
        tokenizer = Tokenizer.train(texts, TokenizerConfig(kind="word", vocabulary=60), tags)
        small = {"width": 24, "ffn_width": 40, "encoder_layers": 1, "decoder_layers": 2, "max_length": 20}
        config = TranslatorConfig.model_validate({**small, "attention": {"heads": 2}, **settings})
        torch.manual_seed(0)
        model = Translator(config, tokenizer.size).eval()
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        languages = {"kind": "translation", "data": {"source": "en", "target": "de"}}
        save_checkpoint(folder, model, tokenizer, languages)
        return model

    return write
