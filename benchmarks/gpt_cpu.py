"""Shakespeare within nanoGPT's CPU budget: loss and CPU time of our recipe and of its own script.

Both train 4 layers of width 128 on the same split: 2000 steps of 12 rows of 64 characters on one thread.
Whole programs are timed: ours with tokenising, validation, card and curves, nanoGPT with its evaluations. The
loss is over all validation text in rows of 64, measured afterwards in the same way.

    python benchmarks/gpt_cpu.py [--nanogpt CHECKOUT] [--seeds 1] [--json FILE]

nanoGPT is not downloaded; without the folder of a checkout it is skipped.
"""

import argparse
import json
import lzma
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from clearhead.data.datasets import shipped_file

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "language" / "shakespeare-cpu.toml"
# The CPU settings of its README; the last checkpoint is kept even if it is not the best.
NANOGPT_ARGUMENTS = [
    "config/train_shakespeare_char.py",
    "--device=cpu",
    "--compile=False",
    "--eval_iters=20",
    "--log_interval=1",
    "--block_size=64",
    "--batch_size=12",
    "--n_layer=4",
    "--n_head=4",
    "--n_embd=128",
    "--max_iters=2000",
    "--lr_decay_iters=2000",
    "--dropout=0.0",
    "--always_save_checkpoint=True",
]
CONTEXT = 64


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--nanogpt", type=Path, help="folder of a karpathy/nanoGPT checkout")
    arguments.add_argument("--seeds", type=int, default=1, help="number of our runs")
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    options = arguments.parse_args()
    figures: dict = {"clearhead": [], "nanoGPT": None}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, options.seeds + 1):
            figures["clearhead"].append(ours(Path(folder), seed))
            print(line(f"clearhead, seed {seed}", figures["clearhead"][-1]), flush=True)
        if options.nanogpt and (options.nanogpt / "train.py").is_file():
            figures["nanoGPT"] = nanogpt(options.nanogpt, Path(folder))
            print(line("nanoGPT", figures["nanoGPT"]))
            share = figures["clearhead"][-1]["cpu_seconds"] / figures["nanoGPT"]["cpu_seconds"]
            print(f"clearhead takes {share:.2f} of nanoGPT's CPU time")
        else:
            print("nanoGPT          skipped: name a checkout with --nanogpt")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def line(name: str, figures: dict) -> str:
    loss, seconds = figures["loss"], figures["cpu_seconds"]
    return f"{name:20} validation loss {loss:.4f}   {seconds:6.1f} CPU-s"


def ours(folder: Path, seed: int) -> dict:
    """Our whole command; the loss is the one it records for the final weights."""
    out = folder / f"ours-{seed}"
    command = [sys.executable, "-m", "clearhead", "train", RECIPE, "--out", out]
    seconds = timed(
        [*command, "--set", f"training.seed={seed}"], ROOT, {"CLEARHEAD_CACHE": str(folder / "c")}
    )
    shutil.rmtree(folder / "c")
    final = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()][-1]
    assert final["kind"] == "final"
    return {"loss": final["loss"], "cpu_seconds": seconds}


def nanogpt(checkout: Path, folder: Path) -> dict:
    """Its script in a copy of the checkout; preparing the data is not timed."""
    copy = Path(shutil.copytree(checkout, folder / "nanoGPT", ignore=shutil.ignore_patterns(".git")))
    data = copy / "data" / "shakespeare_char"
    (data / "input.txt").write_bytes(lzma.decompress(shipped_file("shakespeare").read_bytes()))
    timed([sys.executable, "prepare.py"], data)
    seconds = timed([sys.executable, "train.py", *NANOGPT_ARGUMENTS, "--out_dir=out"], copy)
    return {"loss": nanogpt_loss(copy, data), "cpu_seconds": seconds}


def timed(command: list, folder: Path, variables: dict[str, str] | None = None) -> float:
    """CPU seconds of a command on one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **(variables or {})}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit status {ended.returncode}\n{ended.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@torch.no_grad()
def nanogpt_loss(copy: Path, data: Path) -> float:
    """Mean loss over all validation text, in rows that do not overlap."""
    import numpy as np

    sys.path.insert(0, str(copy))
    from model import GPT, GPTConfig  # pyright: ignore[reportMissingImports]

    saved = torch.load(copy / "out" / "ckpt.pt", map_location="cpu")
    model = GPT(GPTConfig(**saved["model_args"]))
    model.load_state_dict(saved["model"])
    model.eval()
    tokens = torch.from_numpy(np.fromfile(data / "val.bin", dtype=np.uint16).astype(np.int64))
    total = 0.0
    for start in range(0, len(tokens) - 1, CONTEXT):
        labels = tokens[start + 1 : start + 1 + CONTEXT]
        _, loss = model(tokens[None, start : start + len(labels)], labels[None])
        total += loss.item() * len(labels)
    return total / (len(tokens) - 1)


if __name__ == "__main__":
    main()
