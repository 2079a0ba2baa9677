"""Generation speed on a CPU beside CTranslate2 and Hugging Face, in tokens per CPU-second.

All run the same random weights in the shape of GPT-2 (124M), exported by `clearhead export`. In turn, they
continue prompts greedily with a KV cache; in fp32, they must write the same tokens.

    python benchmarks/generate_cpu.py [--threads 1] [--rounds 5] [--seconds 2] [--tokens 64] [--json FILE]
"""

import argparse
import json
import tempfile
from pathlib import Path

import torch
from measuring import about

from clearhead.checkpoint import save_checkpoint
from clearhead.interop.ctranslate2 import export_ctranslate2
from clearhead.interop.exporting import token_names
from clearhead.interop.huggingface import export_model
from clearhead.interop.peers import Exported, load_ctranslate2, load_huggingface
from clearhead.models import GPT, GPTConfig
from clearhead.tasks.benchmark import LanguageSpeed
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.speed import Case, Decode, measure, speeds
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

VOCABULARY, PROMPT, BATCHES = 50257, 32, 64
CASES = [Case(1), Case(8)]
OURS, PEER = "clearhead int8", "CTranslate2 int8"


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=2.0, help="of each model in a round, about")
    arguments.add_argument("--tokens", type=int, default=64)
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    machine = about(torch.device("cpu"))
    print(machine)
    with tempfile.TemporaryDirectory() as temporary:
        decoders = make_decoders(Path(temporary), options.threads)
        check_equal(decoders)
        figures = {str(case): compare(decoders, case, options) for case in CASES}
    if options.json:
        record = {"about": machine, "tokens": options.tokens, "tokens per CPU-second": figures}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


def make_decoders(folder: Path, threads: int) -> dict[str, Decode]:
    words = [f"w{number}" for number in range(VOCABULARY - 4)]
    tokenizer = Tokenizer.train([" ".join(words)], TokenizerConfig(kind="word", vocabulary=VOCABULARY))
    model = GPT(GPTConfig(), tokenizer.size).eval()
    save_checkpoint(folder / "ours", model, tokenizer, {"kind": "language"})
    export_model(folder / "ours", folder / "huggingface")
    export_ctranslate2(folder / "ours", folder / "ctranslate2-fp32", "fp32")
    export_ctranslate2(folder / "ours", folder / "ctranslate2-int8", "int8")

    def ours(precision: str) -> Decode:
        language = LanguageModel(model, tokenizer)
        language.precision = precision  # pyright: ignore[reportAttributeAccessIssue]
        return LanguageSpeed(language).decode

    def exported(name: str, precision: str) -> Exported:
        names, device = token_names(tokenizer), torch.device("cpu")
        return Exported(folder / name, False, names, tuple(tokenizer.eos_ids), device, threads, precision)

    return {
        "clearhead fp32": ours("fp32"),
        OURS: ours("int8"),
        "CTranslate2 fp32": load_ctranslate2(exported("ctranslate2-fp32", "fp32")),
        PEER: load_ctranslate2(exported("ctranslate2-int8", "int8")),
        "Hugging Face fp32": load_huggingface(exported("huggingface", "fp32")),
    }


def prompts(batches: int, rows: int) -> list[list[list[int]]]:
    return torch.randint(4, VOCABULARY, (batches, rows, PROMPT)).tolist()


def check_equal(decoders: dict[str, Decode]) -> None:
    """All models write the same tokens in fp32."""
    (batch,) = prompts(1, 4)
    outputs = [decode(batch, 1, (8, 8)) for name, decode in decoders.items() if name.endswith("fp32")]
    assert outputs[0] == outputs[1] == outputs[2], "the models write different tokens"


def compare(decoders: dict[str, Decode], case: Case, options: argparse.Namespace) -> dict[str, list[float]]:
    """The rates of all in turn."""
    tokens, batches = options.tokens, prompts(BATCHES, case.batch)
    limits = tokens, tokens
    found = list(measure(decoders, batches, 1, lambda batch: limits, options.rounds, options.seconds))
    assert all(one.tokens == one.texts * tokens for round_ in found for one in round_.values())
    measured = speeds(found)
    peer = measured[PEER].tokens_per_cpu_second
    print(f"batch {case.batch}: tokens per CPU-second, median of {options.rounds}")
    for name, speed in measured.items():
        rate = speed.tokens_per_cpu_second
        print(f"  {name:24}{rate:9.1f}{speed.spread(cpu=True):9.1%}{rate / peer:8.2f}x")
    return {name: [one.tokens / one.cpu_seconds for one in some.rounds] for name, some in measured.items()}


if __name__ == "__main__":
    main()
