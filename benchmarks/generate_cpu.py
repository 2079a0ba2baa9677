"""Generation speed beside Hugging Face, in tokens per second of processor time.

Both models have the shape of GPT-2 (124M) and the same random weights, in fp32; both continue the same prompt
greedily with a cache, in turn, and must write the same words.

    python benchmarks/generate_cpu.py [--threads 1] [--rounds 5] [--tokens 64] [--prompt 32] [--json FILE]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

from clearhead.accel.packing import packed_copy
from clearhead.decoding import Constraints, DecodeLoop, most_probable
from clearhead.interop.architectures import family_of
from clearhead.interop.weight_map import ours
from clearhead.models import GPT, GPTConfig
from clearhead.tasks.language.sliding_window import Sliding

VOCABULARY = 50257
ENDLESS = -1
Continue = Callable[[list[int], int], list[int]]


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--tokens", type=int, default=64)
    arguments.add_argument("--prompt", type=int, default=32)
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    contestants = {"clearhead": clearhead(theirs), "Hugging Face generate": hugging_face(theirs)}
    prompt = torch.randint(0, VOCABULARY, (options.prompt,)).tolist()
    said = {name: run(prompt, 8) for name, run in contestants.items()}
    assert len(set(map(tuple, said.values()))) == 1, "the models do not write the same words"
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name, run in contestants.items():
            begun = time.process_time()
            run(prompt, options.tokens)
            rates[name].append(options.tokens / (time.process_time() - begun))
    show(rates, options.threads)
    if options.json:
        options.json.write_text(json.dumps({"tokens": options.tokens, "rates": rates}, indent=1) + "\n")


def clearhead(theirs: transformers.GPT2LMHeadModel) -> Continue:
    """Our model with their weights, as `LanguageModel` runs it."""
    model = GPT(GPTConfig(), VOCABULARY).eval()
    family = family_of({"model_type": "gpt2"})
    tensors = {name: tensor for name, tensor in theirs.state_dict().items() if name != "lm_head.weight"}
    with torch.no_grad():
        weights = dict(model.named_parameters())
        for name, value in ours(family, model, tensors, "theirs").items():
            weights[name].copy_(value)
    model = packed_copy(model, model.readout_weight)

    @torch.inference_mode()
    def run(prompt: list[int], tokens: int) -> list[int]:
        sliding = Sliding(model, len(prompt) + tokens)
        constraints = Constraints(torch.tensor([prompt[-1:]]), ENDLESS, tokens)
        walk = DecodeLoop(sliding.step, sliding.start([prompt]), constraints, most_probable)
        for _ in walk:
            pass
        return walk.tokens[0].tolist()

    return run


def hugging_face(model: transformers.GPT2LMHeadModel) -> Continue:
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0

    @torch.inference_mode()
    def run(prompt: list[int], tokens: int) -> list[int]:
        words = model.generate(torch.tensor([prompt]), max_new_tokens=tokens, do_sample=False, use_cache=True)
        return words[0, len(prompt) :].tolist()

    return run


def show(rates: dict[str, list[float]], threads: int) -> None:
    first = next(iter(rates))
    print(f"GPT-2 124M, fp32, {threads} thread(s), median of {len(rates[first])} rounds in turn\n")
    print("| model | tokens per CPU-second | clearhead is |\n|---|---|---|")
    for name, found in rates.items():
        ratio = statistics.median(a / b for a, b in zip(rates[first], found, strict=True))
        print(f"| {name} | {statistics.median(found):.1f} | {'' if name == first else f'{ratio:.2f}x'} |")


if __name__ == "__main__":
    main()
