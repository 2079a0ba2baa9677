"""Translation speed on a GPU beside Hugging Face, in sentences per second.

Both run the same random weights in the shape of the base Transformer, in bf16: sources of 25 tokens,
translations of 32, in turn. Then a file: 100,000 English sentences of Tatoeba by the built-in model, from
text to text, with a beam of 5; Hugging Face translates every third of them, in batches sorted by length.

    python benchmarks/translate_gpu.py [--rounds 3] [--seconds 2] [--json FILE]
                                       [--parts cases file equal]
    python benchmarks/translate_gpu.py --small          (a smoke test on the CPU)

The part "equal" counts translations of the built-in model that differ from those of the plain search in fp32,
and in bf16 those that differ alone.

At batch 1 a step can take no less than reading the decoder's weights, at batch 512 no less than its products:
the shares of these limits are printed too.
"""

import argparse
import json
import lzma
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from measuring import Turns, about, memory_bandwidth, peak

import clearhead
from clearhead import assets
from clearhead.checkpoint import save_checkpoint
from clearhead.interop.exporting import token_names
from clearhead.interop.huggingface import export_model
from clearhead.interop.peers import Exported, load_huggingface
from clearhead.models import Translator, TranslatorConfig
from clearhead.models.engine import Engine
from clearhead.models.slots import SlotEngine
from clearhead.tasks.speed import Batch, Case, Decode, measure, speeds
from clearhead.tasks.translation.options import TranslateOptions
from clearhead.tasks.translation.search import search
from clearhead.tasks.translation.slots import search_all_in_slots
from clearhead.tasks.zoo import BUILT_IN
from clearhead.text.tokenizer import EOS, Tokenizer, TokenizerConfig

SOURCE, TARGET, BEAM = 25, 32, 4
VOCABULARY = {"cuda": 32_000, "cpu": 400}
SMALL = {"width": 32, "ffn_width": 64, "encoder_layers": 1, "decoder_layers": 1}
PARTS = ("cases", "file", "equal")
OURS, PEER = "clearhead bf16", "Hugging Face bf16"


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=2.0, help="of each model in a round, about")
    arguments.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    arguments.add_argument("--batches", nargs="+", type=int, default=[1, 64, 512])
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    arguments.add_argument("--small", action="store_true", help="a tiny shape on the CPU")
    options = arguments.parse_args()
    if not options.small and not torch.cuda.is_available():
        arguments.error("torch finds no GPU; --small runs a smoke test on the CPU")
    device = torch.device("cpu" if options.small else "cuda")
    torch.manual_seed(0)
    figures: dict[str, Any] = {"about": about(device)}
    print(figures["about"], flush=True)
    if "cases" in options.parts:
        figures["cases"] = cases(device, options.batches, options.rounds, options.seconds)
    if "file" in options.parts:
        figures["file"] = file(device, 60 if options.small else 100_000)
    if "equal" in options.parts:
        figures["equal"] = equal(device, 40 if options.small else 1000)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def cases(device: torch.device, batches: list[int], rounds: int, seconds: float) -> dict[str, Any]:
    shape, vocabulary = SMALL if device.type == "cpu" else {}, VOCABULARY[device.type]
    figures = {}
    with tempfile.TemporaryDirectory() as temporary:
        model, decoders = make_decoders(Path(temporary), device, vocabulary, shape)
        turns = Turns(device, 3, 5)
        limits = {"bytes": memory_bandwidth(turns), "flops": peak(turns)}
        print(f"memory {limits['bytes'] / 1e12:.2f} TB/s, products {limits['flops'] / 1e12:.0f} TFLOP/s")
        for case in [Case(batch, beam) for batch in batches for beam in (1, BEAM)]:
            figures[str(case)] = compare(decoders, case, rounds, seconds, vocabulary)
            rate = figures[str(case)][OURS]["sentences_per_second"]
            print(f"  of memory speed {rate / case.batch * TARGET * step_bytes(model) / limits['bytes']:.1%}")
            print(f"  of peak {rate * sentence_flops(model, case.beam) / limits['flops']:.1%}", flush=True)
    return figures


def make_decoders(
    folder: Path, device: torch.device, vocabulary: int, shape: dict[str, int]
) -> tuple[Translator, dict[str, Decode]]:
    model, tokenizer = make_model(folder / "ours", vocabulary, shape)
    export_model(folder / "ours", folder / "huggingface")
    exported = Exported(folder / "huggingface", True, token_names(tokenizer), (EOS,), device, 1, "bf16")
    return model, {OURS: ours(model.to(device)), PEER: load_huggingface(exported)}


def make_model(folder: Path, vocabulary: int, shape: dict[str, int]) -> tuple[Translator, Tokenizer]:
    """Writes a model with random weights to the folder."""
    words = [f"w{number}" for number in range(vocabulary - 4)]
    tokenizer = Tokenizer.train([" ".join(words)], TokenizerConfig(kind="word", vocabulary=vocabulary))
    config = TranslatorConfig.model_validate({"max_length": 256, "readout_bias": "learned", **shape})
    model = Translator(config, tokenizer.size).eval()
    with torch.no_grad():
        # No sentence ends by itself, so that all write as many tokens.
        model.readout_bias[EOS] = -1e4  # pyright: ignore[reportOptionalSubscript]
    languages = {"kind": "translation", "data": {"source": "en", "target": "de"}}
    save_checkpoint(folder, model, tokenizer, languages)
    return model, tokenizer


def ours(model: Translator) -> Decode:
    engine = Engine(model, "bf16")

    @torch.inference_mode()
    def decode(sources: Batch, beam: int, limits: tuple[int, int]) -> list[list[int]]:
        fast = engine.current()
        # On a CPU, for the smoke test.
        fast = fast if isinstance(fast, SlotEngine) else SlotEngine(fast.model)
        found = search_all_in_slots(fast, sources, [limits[1]] * len(sources), beam, 0.0)
        return [one.tokens for (one,) in found]

    return decode


def compare(
    decoders: dict[str, Decode], case: Case, rounds: int, seconds: float, vocabulary: int
) -> dict[str, dict[str, float]]:
    """The rates of both in turn."""
    batches = torch.randint(4, vocabulary, (16, case.batch, SOURCE - 1)).tolist()
    found = list(measure(decoders, batches, case.beam, lambda batch: (TARGET, TARGET), rounds, seconds))
    assert all(one.tokens == one.texts * TARGET for round_ in found for one in round_.values())
    measured = speeds(found)
    peer = measured[PEER].texts_per_second
    print(f"{case}: sentences/s, spread, times {PEER}")
    for name, speed in measured.items():
        rate = speed.texts_per_second
        print(f"  {name:24}{rate:11,.1f}{speed.spread(cpu=False):9.1%}{rate / peer:8.2f}x")
    return {
        name: {"sentences_per_second": speed.texts_per_second, "spread": speed.spread(cpu=False)}
        for name, speed in measured.items()
    }


def step_bytes(model: Translator) -> float:
    """What a decoding step must read of the weights, in bf16."""
    decoder = sum(parameter.numel() for parameter in model.decoder.parameters())
    return 2.0 * (decoder + model.readout_weight.numel())


def sentence_flops(model: Translator, beam: int) -> float:
    """The products with weights of a sentence: its source once, and each token of each hypothesis."""
    encoder = sum(parameter.numel() for parameter in model.encoder.parameters())
    return 2.0 * (SOURCE * encoder + TARGET * beam * step_bytes(model) / 2)


def file(device: torch.device, count: int) -> dict[str, float]:
    """Sentences per second of a file with the built-in model, tokenisation included."""
    with lzma.open(assets.path("data/tatoeba-en-de.tsv.xz"), "rt", encoding="utf-8") as lines:
        texts = list(dict.fromkeys(line.split("\t")[0] for line in lines))[:count]
    model = clearhead.load("en-de", device=device.type, precision="bf16")
    figures: dict[str, float] = {"sentences": len(texts)}
    translations: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        export_model(BUILT_IN["en-de-fr"], Path(temporary) / "huggingface")
        theirs = huggingface_file(Path(temporary) / "huggingface", model, device)
        for name, some, translate in (
            (OURS, texts, lambda some: [str(one) for one in model.translate(some)]),
            (PEER, texts[::3], theirs),
        ):
            translate(some[:1024])
            start = time.perf_counter()
            translations[name] = translate(some)
            figures[name] = len(some) / (time.perf_counter() - start)
    same = [one == other for one, other in zip(translations[OURS][::3], translations[PEER], strict=True)]
    print(f"a file of {len(texts):,} sentences, beam 5: sentences/s end to end")
    for name in (OURS, PEER):
        print(f"  {name:24}{figures[name]:11,.1f}{figures[name] / figures[PEER]:8.2f}x")
    print(f"  the same translation: {sum(same) / len(same):.1%}", flush=True)
    return {**figures, "same": sum(same) / len(same)}


def english_sentences(count: int) -> list[str]:
    """English test sentences of the built-in model."""
    lines = (BUILT_IN["en-de-fr"] / "test.en-de.tsv").read_text(encoding="utf-8").splitlines()[:count]
    return [line.split("\t")[0] for line in lines]


def equal(device: torch.device, count: int) -> dict[str, int]:
    """How many of the built-in model's translations change: in slots, and in bf16 in a batch."""
    texts, figures = english_sentences(count), {}
    plain = clearhead.load("en-de", device=device.type)
    sources = [plain.tag("de") + ids for ids in plain.encode(texts)]
    limits = [len(source) + 51 for source in sources]
    for beam in (1, 5):
        options = TranslateOptions(beam).resolved(plain.search)
        expected = search(plain.model, plain.tokenizer, sources, list(range(count)), options)
        with torch.inference_mode():
            penalty = options.length_penalty or 0.0
            found = search_all_in_slots(SlotEngine(plain.model), sources, limits, beam, penalty)
        pairs = zip(found, expected, strict=True)
        figures[f"fp32, beam {beam}"] = sum(one[0].tokens != other[0].tokens for one, other in pairs)
    narrow = clearhead.load("en-de", device=device.type, precision="bf16")
    batched = [str(one) for one in narrow.translate(texts)]
    alone = [str(narrow.translate(text)) for text in texts]
    figures["bf16, alone"] = sum(one != other for one, other in zip(batched, alone, strict=True))
    for name, differing in figures.items():
        print(f"{name}: {differing} of {count} translations differ", flush=True)
    return figures


def huggingface_file(folder: Path, model: Any, device: torch.device) -> Any:
    """Translates texts with Hugging Face: encoded at once, in batches sorted by length."""
    tokenizer = model.tokenizer
    exported = Exported(folder, True, token_names(tokenizer), (EOS,), device, 1, "bf16")
    decode = load_huggingface(exported)

    def translate(texts: list[str]) -> list[str]:
        sources = [model.tag("de") + ids for ids in model.encode(texts)]
        order = sorted(range(len(texts)), key=lambda number: len(sources[number]))
        found: dict[int, list[int]] = {}
        for first in range(0, len(order), 512):
            rows = order[first : first + 512]
            most = max(len(sources[row]) for row in rows) + 51
            written = decode([sources[row] for row in rows], 5, (0, most))
            found.update(zip(rows, written, strict=True))
        return [tokenizer.decode(found[row]) for row in range(len(texts))]

    return translate


if __name__ == "__main__":
    main()
