"""A GPT with 124 million parameters on a GPU, compared with nanoGPT and Hugging Face in one run.

Training: rows of 1024 tokens, batches of 32 and 64, bf16 autocast, AdamW, gradient clipping, no dropout; the
peers are compiled. Decoding: one greedy text and 64 in bf16; the peak is the speed of reading all weights
once per step. Hugging Face runs as it comes, and compiled with a static cache.

    python benchmarks/gpt_gpu.py [--nanogpt CHECKOUT] [--json FILE] [--parts train decode]
    python benchmarks/gpt_gpu.py --small          (a smoke test on the CPU)

nanoGPT is not downloaded; without the folder of a checkout it is skipped.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from measuring import OURS, Step, Turns, about, memory_bandwidth, peak, table
from torch import nn

from clearhead.data.batch import CropBatch
from clearhead.decoding import Constraints, DecodeLoop, most_probable
from clearhead.models.engine import Engine
from clearhead.models.gpt import GPT, GPTConfig
from clearhead.tasks.language.task import language_loss
from clearhead.training import Trainer, TrainingConfig
from clearhead.training.optimizer import AdamWConfig
from clearhead.training.schedule import ConstantSchedule

LEARNING_RATE, DECAY, BETAS, CLIP_NORM = 1e-4, 0.1, (0.9, 0.95), 1.0


@dataclass(frozen=True)
class Bench:
    """The shape that is measured, and how."""

    turns: Turns
    batches: tuple[int, ...]
    layers: int
    heads: int
    width: int
    positions: int
    vocabulary: int
    decoded: int
    texts: tuple[int, ...]

    def config(self, **settings: Any) -> GPTConfig:
        shape = {
            "layers": self.layers,
            "width": self.width,
            "ffn_width": 4 * self.width,
            "context_length": self.positions,
        }
        return GPTConfig.model_validate({**shape, "attention": {"heads": self.heads}, **settings})


FULL = Bench(
    Turns(torch.device("cuda"), 5, 10), (32, 64), 12, 12, 768, 1024, 50_304, decoded=256, texts=(1, 64)
)
SMALL = Bench(Turns(torch.device("cpu"), 2, 1), (2,), 1, 2, 32, 32, 300, decoded=16, texts=(1, 2))
Maker = Callable[[], Step]


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--nanogpt", type=Path, help="folder of a karpathy/nanoGPT checkout")
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    arguments.add_argument("--small", action="store_true", help="a tiny shape on the CPU")
    arguments.add_argument("--parts", nargs="+", default=["train", "decode"], choices=["train", "decode"])
    options = arguments.parse_args()
    if not options.small and not torch.cuda.is_available():
        arguments.error("torch finds no GPU; --small runs a smoke test on the CPU")
    bench = SMALL if options.small else FULL
    torch.set_float32_matmul_precision("high")
    figures: dict[str, Any] = {"about": about(bench.turns.device), "peak": peak(bench.turns)}
    print(f"{figures['about']}; matrix products reach {figures['peak'] / 1e12:.0f} TFLOP/s\n")
    for part in options.parts:
        figures[part] = {"train": train, "decode": decode}[part](bench, figures["peak"], options.nanogpt)
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1) + "\n")


def train(bench: Bench, peak: float, checkout: Path | None) -> list[dict]:
    tables = []
    for rows in bench.batches:
        tokens = torch.randint(bench.vocabulary, (rows, bench.positions + 1))
        makers: dict[str, Maker] = {OURS: lambda tokens=tokens: ours(bench, tokens)}
        makers["nanoGPT, compiled"] = lambda tokens=tokens: nanogpt(bench, tokens, checkout)
        makers["Hugging Face GPT-2, compiled"] = lambda tokens=tokens: hugging_face(bench, tokens)
        title = f"training, {rows} rows of {bench.positions} tokens"
        tables.append(table(title, bench.turns, makers, peak, flops_per_token(bench)))
    return tables


def flops_per_token(bench: Bench) -> float:
    """Forward and backward: products with weights, and those of queries, keys and values."""
    weights = bench.layers * 12 * bench.width**2 + bench.vocabulary * bench.width
    return 6.0 * weights + 12.0 * bench.layers * bench.width * bench.positions


def ours(bench: Bench, tokens: torch.Tensor) -> Step:
    # Like nanoGPT: no biases, exact GELU.
    model = GPT(bench.config(bias=False, activation="gelu"), bench.vocabulary)
    config = TrainingConfig(
        steps=1 << 40,
        schedule=ConstantSchedule(learning_rate=LEARNING_RATE),
        optimizer=AdamWConfig(weight_decay=DECAY, betas=BETAS),
        clip_norm=CLIP_NORM,
        precision="bf16",
    )
    batch = CropBatch(tokens.pin_memory() if bench.turns.device.type == "cuda" else tokens)
    reports = Trainer(model, language_loss, config).steps(repeat(batch))

    def step() -> int:
        next(reports)
        return batch.tokens

    return step


def nanogpt(bench: Bench, tokens: torch.Tensor, checkout: Path | None) -> Step:
    """Its model, its optimizer and the step of its train.py."""
    if checkout is None:
        raise ImportError("name a checkout with --nanogpt")
    sys.path.insert(0, str(checkout))
    import model as theirs  # pyright: ignore[reportMissingImports]

    shape = {"n_layer": bench.layers, "n_head": bench.heads, "n_embd": bench.width, "bias": False}
    config = theirs.GPTConfig(block_size=bench.positions, vocab_size=bench.vocabulary, dropout=0.0, **shape)
    model = theirs.GPT(config).to(bench.turns.device)
    optimizer = model.configure_optimizers(DECAY, LEARNING_RATE, BETAS, bench.turns.device.type)
    compiled = torch.compile(model)
    return peer(bench, tokens, model, optimizer, lambda x, y: compiled(x, y)[1])


def hugging_face(bench: Bench, tokens: torch.Tensor) -> Step:
    model = huggingface_gpt2(bench).to(bench.turns.device)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=LEARNING_RATE,
        betas=BETAS,
        weight_decay=DECAY,
        fused=bench.turns.device.type == "cuda",
    )

    @torch.compile
    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(input_ids=x).logits.flatten(0, 1), y.flatten())

    return peer(bench, tokens, model, optimizer, loss)


def huggingface_gpt2(bench: Bench) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=bench.vocabulary,
        n_positions=bench.positions,
        n_embd=bench.width,
        n_layer=bench.layers,
        n_head=bench.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    return GPT2LMHeadModel(config).train()


def peer(
    bench: Bench,
    tokens: torch.Tensor,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Step:
    tokens = tokens.to(bench.turns.device)
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step() -> int:
        with torch.autocast(bench.turns.device.type, torch.bfloat16):
            value = loss(x, y)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return y.numel()

    return step


def decode(bench: Bench, peak: float, checkout: Path | None) -> list[dict]:
    """Tokens per second of one text and of many, relative to memory bandwidth."""
    weights = bench.layers * 12 * bench.width**2 + bench.vocabulary * bench.width
    turns = Turns(bench.turns.device, bench.turns.rounds, 1)
    tables = []
    for rows in bench.texts:
        makers: dict[str, Maker] = {
            OURS: lambda rows=rows: our_decoding(bench, rows),
            "Hugging Face, as it comes": lambda rows=rows: huggingface_decoding(bench, rows),
            "Hugging Face, static, compiled": lambda rows=rows: huggingface_decoding(
                bench, rows, cache_implementation="static"
            ),
        }
        title = f"decoding in bf16, batch {rows} (peak: memory bandwidth)"
        tables.append(table(title, turns, makers, memory_bandwidth(bench.turns), 2.0 * weights / rows))
    return tables


def our_decoding(bench: Bench, rows: int) -> Step:
    model = Engine(GPT(bench.config(), bench.vocabulary).to(bench.turns.device).eval(), "bf16").current()
    prompt = torch.zeros(rows, 8, dtype=torch.long, device=bench.turns.device)

    @torch.inference_mode()
    def step() -> int:
        state = model.start(prompt[:, :-1], None, bench.decoded + 8)
        constraints = Constraints(prompt[:, -1:], end=-1, max_length=bench.decoded)
        return rows * sum(1 for _ in DecodeLoop(model.step, state, constraints, most_probable))

    return step


def huggingface_decoding(bench: Bench, rows: int, **settings: Any) -> Step:
    # Without the reset, it would be compiled for any batch size, which is slower.
    torch.compiler.reset()
    model = huggingface_gpt2(bench).to(bench.turns.device, torch.bfloat16).eval()
    prompt = torch.zeros(rows, 8, dtype=torch.long, device=bench.turns.device)
    limits = {"max_new_tokens": bench.decoded, "min_new_tokens": bench.decoded, "do_sample": False}

    def step() -> int:
        mask = torch.ones_like(prompt)
        found = model.generate(prompt, attention_mask=mask, **limits, **settings)
        return rows * (found.shape[1] - prompt.shape[1])

    return step


if __name__ == "__main__":
    main()
