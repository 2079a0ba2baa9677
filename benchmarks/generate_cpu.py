"""Generation speed compared with Hugging Face, in tokens per CPU-second.

Both models have the shape of GPT-2 (124M) and the same random weights, in fp32. In turn, both continue one
prompt greedily with a KV cache and must write the same tokens.

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
from clearhead.interop.architectures import architecture_of
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
    original = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    models = {"clearhead": clearhead(original), "Hugging Face generate": hugging_face(original)}
    prompt = torch.randint(0, VOCABULARY, (options.prompt,)).tolist()
    outputs = {name: run(prompt, 8) for name, run in models.items()}
    assert len(set(map(tuple, outputs.values()))) == 1, "the models write different tokens"
    rates: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(options.rounds):
        for name, run in models.items():
            start = time.process_time()
            run(prompt, options.tokens)
            rates[name].append(options.tokens / (time.process_time() - start))
    show(rates, options.threads)
    if options.json:
        options.json.write_text(json.dumps({"tokens": options.tokens, "rates": rates}, indent=1) + "\n")


def clearhead(original: transformers.GPT2LMHeadModel) -> Continue:
    """Our model with the same weights, run as `LanguageModel` runs it."""
    model = GPT(GPTConfig(), VOCABULARY).eval()
    weight_map = architecture_of({"model_type": "gpt2"}).weights
    tensors = {name: tensor for name, tensor in original.state_dict().items() if name != "lm_head.weight"}
    with torch.no_grad():
        weights = dict(model.named_parameters())
        for name, value in weight_map.from_huggingface(model, tensors, "GPT-2").items():
            weights[name].copy_(value)
    model = packed_copy(model, model.readout_weight)

    @torch.inference_mode()
    def run(prompt: list[int], tokens: int) -> list[int]:
        sliding = Sliding(model, len(prompt) + tokens)
        constraints = Constraints(1, torch.tensor([prompt[-1:]]), ENDLESS, tokens)
        loop = DecodeLoop(sliding.step, sliding.start([prompt]), constraints, most_probable)
        for _ in loop:
            pass
        return loop.tokens[0].tolist()

    return run


def hugging_face(model: transformers.GPT2LMHeadModel) -> Continue:
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0

    @torch.inference_mode()
    def run(prompt: list[int], tokens: int) -> list[int]:
        result = model.generate(
            torch.tensor([prompt]), max_new_tokens=tokens, do_sample=False, use_cache=True
        )
        return result[0, len(prompt) :].tolist()

    return run


def show(rates: dict[str, list[float]], threads: int) -> None:
    first = next(iter(rates))
    print(f"GPT-2 124M, fp32, {threads} thread(s), median of {len(rates[first])} rounds in turn\n")
    print("| model | tokens per CPU-second | clearhead is |\n|---|---|---|")
    for name, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(rates[first], values, strict=True))
        print(f"| {name} | {statistics.median(values):.1f} | {'' if name == first else f'{ratio:.2f}x'} |")


if __name__ == "__main__":
    main()
