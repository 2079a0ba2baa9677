"""Training speed beside other people's Transformers, in target tokens per second of processor time.

All models have the same shape, take the same batches in turn and do the whole step: forward, loss,
backward, Adam. The first table is fp32 at width 256; the second sets ours under bf16 autocast against
Hugging Face in fp32 at width 512. The lengths are those of Multi30k where CLEARHEAD_DATA has it, else of
the shipped Tatoeba.

    python benchmarks/train_cpu.py [--threads 1] [--rounds 8] [--tokens 2048] [--json FILE]
"""

import argparse
import json
import os
import statistics
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data.batch import PairBatch
from clearhead.data.batching import Batches, BatchingConfig
from clearhead.data.corpus import read_pairs
from clearhead.data.datasets import shipped_file
from clearhead.data.pair import Pair
from clearhead.data.store import PairStore
from clearhead.layers.layout import Padded
from clearhead.layers.positions import sinusoids
from clearhead.models.translator import Translator, TranslatorConfig
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.training.loss import smoothed_loss
from clearhead.training.optimizer import AdamConfig, Optimizer

VOCABULARY, LAYERS, SIZE, DROPOUT, SMOOTHING, LONGEST, RATE = 8000, 3, 64, 0.1, 0.1, 256, 1e-4
Step = Callable[[PairBatch], None]
Contestant = tuple[nn.Module, Step]


@dataclass(frozen=True)
class Shape:
    width: int

    @property
    def heads(self) -> int:
        return self.width // SIZE

    @property
    def hidden(self) -> int:
        return 4 * self.width


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=8)
    arguments.add_argument("--tokens", type=int, default=2048, help="budget of a batch")
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    corpus, pairs = read_corpus()
    batches = list(islice(make_batches(pairs, options.tokens), options.rounds))
    tokens = statistics.median(batch.tokens for batch in batches)
    padding = statistics.mean(batch.padding for batch in batches)
    print(
        f"{corpus}: {len(batches)} batches of about {tokens:.0f} target tokens, {padding:.1%} padding, ",
        end="",
    )
    print(f"{options.threads} thread(s)\n", flush=True)
    first = {
        "clearhead": ours,
        "torch nn.Transformer": torchs,
        "Hugging Face Marian": marians,
        "x-transformers": xs,
    }
    second = {"clearhead, bf16": ours_bf16, "clearhead": ours, "Hugging Face Marian": marians}
    tables = [
        table(Shape(256), first, batches),
        table(Shape(512), second, batches[: max(1, len(batches) // 2)]),
    ]
    if options.json:
        options.json.write_text(json.dumps({"corpus": corpus, "tables": tables}, indent=1) + "\n")


def read_corpus() -> tuple[str, list[Pair]]:
    """Multi30k English-German where it lies, else shipped pairs."""
    place = os.environ.get("CLEARHEAD_DATA") or Path(__file__).parents[2] / "shared" / "data"
    archive = Path(place) / "multi30k" / "multi30k-task1-raw.tar.xz"
    if not archive.is_file():
        return "Tatoeba", list(islice(read_pairs(shipped_file("tatoeba-en-de"), ("en", "de")), 30000))
    with tarfile.open(archive) as files:
        sides = [_lines(files, f"train.{language}") for language in ("en", "de")]
    return "Multi30k", [Pair(*pair) for pair in zip(*sides, strict=True)]


def _lines(files: tarfile.TarFile, name: str) -> list[str]:
    content = files.extractfile(name)
    assert content is not None
    return content.read().decode("utf-8").splitlines()


def make_batches(pairs: list[Pair], tokens: int) -> Iterator[PairBatch]:
    texts = [text for pair in pairs for text in pair]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(kind="bpe", vocabulary=VOCABULARY))
    ids = tokenizer.encode_batch(texts)
    return Batches(PairStore.of(ids[::2], ids[1::2]), BatchingConfig(tokens=tokens), seed=0).epoch(0)


def table(shape: Shape, makers: dict[str, Callable[[Shape], Contestant]], batches: list[PairBatch]) -> dict:
    """Measures the models in turn on every batch, prints their medians and gives them back."""
    steps: dict[str, Step] = {}
    sizes, skipped = {}, {}
    for name, make in makers.items():
        torch.manual_seed(0)
        try:
            model, steps[name] = make(shape)
            sizes[name] = sum(p.numel() for p in model.parameters() if p.requires_grad)
        except ImportError as error:
            skipped[name] = str(error)
    for step in steps.values():
        step(batches[0])
    rates: dict[str, list[float]] = {name: [] for name in steps}
    for number, batch in enumerate(batches):
        names = list(steps)
        # Whoever comes first finds the caches of another: everyone does in turn.
        for name in names[number % len(names) :] + names[: number % len(names)]:
            start = time.process_time()
            steps[name](batch)
            rates[name].append(batch.tokens / (time.process_time() - start))
    mine = rates[next(iter(steps))]
    print(f"width {shape.width}, {LAYERS}+{LAYERS} layers, hidden {shape.hidden}, {VOCABULARY} words")
    print(f"  {'model':24}{'parameters':>12}{'tokens/CPU-s':>14}{'ours is':>10}")
    figures = {}
    for name, theirs in rates.items():
        ratio = statistics.median(own / other for own, other in zip(mine, theirs, strict=True))
        figures[name] = {"tokens_per_cpu_second": statistics.median(theirs), "ratio_of_ours": ratio}
        print(f"  {name:24}{sizes[name]:12,}{statistics.median(theirs):14.0f}{ratio:9.2f}x")
    for name, reason in skipped.items():
        print(f"  {name:24}  skipped: {reason}")
    print()
    return {"width": shape.width, "models": figures, "skipped": skipped}


def ours(shape: Shape, autocast: Callable = nullcontext) -> Contestant:
    settings = {
        "width": shape.width,
        "hidden": shape.hidden,
        "attention": {"heads": shape.heads},
        "encoder_layers": LAYERS,
        "decoder_layers": LAYERS,
        "dropout": DROPOUT,
        "longest": LONGEST,
    }
    model = Translator(TranslatorConfig.model_validate(settings), VOCABULARY)
    optimizer = Optimizer(model, AdamConfig())

    def step(batch: PairBatch) -> None:
        with autocast():
            states = model.states(batch.source, Padded(batch.source_lengths), batch.inputs)
            loss = smoothed_loss(states, model.readout_weight, batch.labels, SMOOTHING)
        (loss / batch.tokens).backward()
        optimizer.step(RATE)
        optimizer.zero_grad()

    return model, step


def ours_bf16(shape: Shape) -> Contestant:
    return ours(shape, lambda: torch.autocast("cpu", torch.bfloat16))


def trained(model: nn.Module, logits: Callable[[PairBatch], Tensor]) -> Contestant:
    """The usual step of a peer; its Adam is fused as ours is."""
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(batch: PairBatch) -> None:
        F.cross_entropy(
            logits(batch).flatten(0, 1), batch.labels.flatten(), ignore_index=0, label_smoothing=SMOOTHING
        ).backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step


def hidden_cells(cells: Tensor, lengths: Tensor) -> Tensor:
    return torch.arange(cells.shape[1]) >= lengths[:, None]


def torchs(shape: Shape) -> Contestant:
    model = nn.Transformer(
        shape.width, shape.heads, LAYERS, LAYERS, shape.hidden, DROPOUT, batch_first=True, norm_first=False
    )
    model.register_module("embedding", nn.Embedding(VOCABULARY, shape.width))
    waves = sinusoids(torch.arange(LONGEST), shape.width)
    # Like ours, it drops where the paper does: not the weights of attention, nothing inside the feed-forward.
    for part in model.modules():
        if isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0
        elif isinstance(part, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            part.dropout.p = 0.0

    def embed(words: Tensor) -> Tensor:
        return F.dropout(model.embedding(words) * shape.width**0.5 + waves[: words.shape[1]], DROPOUT)  # pyright: ignore

    def logits(batch: PairBatch) -> Tensor:
        padding = hidden_cells(batch.source, batch.source_lengths)
        future = torch.ones(batch.inputs.shape[1], batch.inputs.shape[1], dtype=torch.bool).triu(1)
        states = model(
            embed(batch.source),
            embed(batch.inputs),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return states @ model.embedding.weight.T  # pyright: ignore

    return trained(model, logits)


def marians(shape: Shape) -> Contestant:
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=shape.width,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.hidden,
        decoder_ffn_dim=shape.hidden,
        max_position_embeddings=LONGEST,
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
        keep = (~hidden_cells(batch.source, batch.source_lengths)).long()
        return model(input_ids=batch.source, attention_mask=keep, decoder_input_ids=batch.inputs).logits

    return trained(model, logits)


def xs(shape: Shape) -> Contestant:
    from x_transformers import Decoder, Encoder, TransformerWrapper

    same = {
        "dim": shape.width,
        "depth": LAYERS,
        "heads": shape.heads,
        "attn_dim_head": SIZE,
        "attn_flash": True,
        "ff_dropout": DROPOUT,
    }
    ends = {"num_tokens": VOCABULARY, "max_seq_len": LONGEST, "emb_dropout": DROPOUT}
    encoder = TransformerWrapper(attn_layers=Encoder(**same), **ends)
    decoder = TransformerWrapper(attn_layers=Decoder(cross_attend=True, **same), tie_embedding=True, **ends)
    encoder.token_emb = decoder.token_emb
    encoder.to_logits = nn.Identity()
    model = nn.ModuleList([encoder, decoder])

    def logits(batch: PairBatch) -> Tensor:
        keep = ~hidden_cells(batch.source, batch.source_lengths)
        states = encoder(batch.source, mask=keep, return_embeddings=True)
        return decoder(batch.inputs, context=states, context_mask=keep)

    return trained(model, logits)


if __name__ == "__main__":
    main()
