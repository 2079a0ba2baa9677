"""The peers in one shape, and the texts that all models are measured on."""

import os
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data.batch import PairBatch
from clearhead.data.datasets import shipped_file
from clearhead.data.pair import Pair
from clearhead.data.sources.corpus import read_pairs
from clearhead.data.store import PairStore
from clearhead.layers.positions import sinusoids
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

HEAD_SIZE, DROPOUT, LABEL_SMOOTHING, LEARNING_RATE = 64, 0.1, 0.1, 1e-4
Logits = Callable[[PairBatch], Tensor]
Peer = tuple[nn.Module, Logits]


@dataclass(frozen=True)
class Shape:
    width: int
    layers: int
    vocabulary: int
    max_length: int = 256

    @property
    def heads(self) -> int:
        return self.width // HEAD_SIZE

    @property
    def ffn_width(self) -> int:
        return 4 * self.width

    def __str__(self) -> str:
        return (
            f"width {self.width}, {self.layers}+{self.layers} layers, feed-forward width {self.ffn_width}, "
            f"{self.vocabulary:,} tokens"
        )

    @property
    def settings(self) -> dict:
        """The shape as settings of a translator."""
        return {
            "width": self.width,
            "ffn_width": self.ffn_width,
            "attention": {"heads": self.heads},
            "encoder_layers": self.layers,
            "decoder_layers": self.layers,
            "dropout": DROPOUT,
            "max_length": self.max_length,
        }


def multi30k() -> list[Pair] | None:
    """Multi30k English-German, if CLEARHEAD_DATA has it."""
    folder = os.environ.get("CLEARHEAD_DATA") or Path(__file__).parents[2] / "shared" / "data"
    archive = Path(folder) / "multi30k" / "multi30k-task1-raw.tar.xz"
    if not archive.is_file():
        return None
    with tarfile.open(archive) as files:
        sides = [_lines(files, f"train.{language}") for language in ("en", "de")]
    return [Pair(*pair) for pair in zip(*sides, strict=True)]


def tatoeba(count: int) -> list[Pair]:
    """Shipped pairs, sampled evenly because the file is sorted by length."""
    pairs = list(read_pairs(shipped_file("tatoeba-en-de"), ("en", "de")))
    return list(islice(pairs[:: max(1, len(pairs) // count)], count))


def tokenised(pairs: list[Pair], vocabulary: int) -> PairStore:
    texts = [text for pair in pairs for text in pair]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(kind="bpe", vocabulary=vocabulary))
    ids = tokenizer.encode_batch(texts)
    return PairStore.of(ids[::2], ids[1::2])


def _lines(files: tarfile.TarFile, name: str) -> list[str]:
    content = files.extractfile(name)
    assert content is not None
    return content.read().decode("utf-8").splitlines()


def smoothed_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The usual loss of the peers' users, over all logits at once."""
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten().long(), ignore_index=0, label_smoothing=LABEL_SMOOTHING
    )


def _padding_mask(cells: Tensor, lengths: Tensor) -> Tensor:
    return torch.arange(cells.shape[1], device=cells.device) >= lengths[:, None]


def nn_transformer(shape: Shape) -> Peer:
    model = nn.Transformer(
        shape.width,
        shape.heads,
        shape.layers,
        shape.layers,
        shape.ffn_width,
        DROPOUT,
        batch_first=True,
        norm_first=False,
    )
    model.register_module("embedding", nn.Embedding(shape.vocabulary, shape.width))
    model.register_buffer("waves", sinusoids(torch.arange(shape.max_length), shape.width))
    # Dropout as in the paper and in clearhead: none on attention weights or inside the feed-forward.
    for part in model.modules():
        if isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0
        elif isinstance(part, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            part.dropout.p = 0.0

    def embed(tokens: Tensor) -> Tensor:
        waves = model.waves[: tokens.shape[1]]  # pyright: ignore
        return F.dropout(model.embedding(tokens) * shape.width**0.5 + waves, DROPOUT)  # pyright: ignore

    def logits(batch: PairBatch) -> Tensor:
        mask = _padding_mask(batch.source, batch.source_lengths)
        # Without a mask, faster kernels apply.
        padding = mask if batch.source_tokens < batch.source.numel() else None
        size = batch.inputs.shape[1]
        future = torch.ones(size, size, dtype=torch.bool, device=batch.source.device).triu(1)
        states = model(
            embed(batch.source),
            embed(batch.inputs),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return F.linear(states, model.embedding.weight)  # pyright: ignore

    return model, logits


def marian(shape: Shape) -> Peer:
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=shape.vocabulary,
        d_model=shape.width,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.ffn_width,
        decoder_ffn_dim=shape.ffn_width,
        max_position_embeddings=shape.max_length,
        activation_function="relu",
        scale_embedding=True,
        dropout=DROPOUT,
        pad_token_id=0,
        eos_token_id=3,
        bos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
        use_cache=False,
    )
    model = MarianMTModel(config).train()

    def logits(batch: PairBatch) -> Tensor:
        keep = (~_padding_mask(batch.source, batch.source_lengths)).long()
        padded = batch.source_tokens < batch.source.numel()
        return model(
            input_ids=batch.source, attention_mask=keep if padded else None, decoder_input_ids=batch.inputs
        ).logits

    return model, logits


def x_transformer(shape: Shape) -> Peer:
    from x_transformers import Decoder, Encoder, TransformerWrapper

    shared = {
        "dim": shape.width,
        "depth": shape.layers,
        "heads": shape.heads,
        "attn_dim_head": HEAD_SIZE,
        "attn_flash": True,
        "ff_dropout": DROPOUT,
    }
    ends = {"num_tokens": shape.vocabulary, "max_seq_len": shape.max_length, "emb_dropout": DROPOUT}
    encoder = TransformerWrapper(attn_layers=Encoder(**shared), **ends)
    decoder = TransformerWrapper(attn_layers=Decoder(cross_attend=True, **shared), tie_embedding=True, **ends)
    encoder.token_emb = decoder.token_emb
    encoder.to_logits = nn.Identity()

    def logits(batch: PairBatch) -> Tensor:
        keep = ~_padding_mask(batch.source, batch.source_lengths)
        states = encoder(batch.source, mask=keep, return_embeddings=True)
        return decoder(batch.inputs, context=states, context_mask=keep)

    return nn.ModuleList([encoder, decoder]), logits
