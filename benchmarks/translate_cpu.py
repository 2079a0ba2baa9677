"""Translation speed on a CPU beside CTranslate2 and Hugging Face, in sentences per CPU-second.

All run the same random weights in the shape of the base Transformer, exported by `clearhead export`: sources
of 25 tokens, translations of 32, one thread, in turn. Then the built-in model: words per CPU-second, and the
time of the first answer of a new process.

    python benchmarks/translate_cpu.py [--threads 1] [--rounds 5] [--seconds 2] [--json FILE]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from measuring import about

import clearhead
from clearhead.checkpoint import save_checkpoint
from clearhead.decoding import Constraints, beam_search, greedy_search
from clearhead.interop.ctranslate2 import export_ctranslate2
from clearhead.interop.exporting import token_names
from clearhead.interop.huggingface import export_model
from clearhead.interop.peers import Exported, load_ctranslate2, load_huggingface
from clearhead.models import Translator, TranslatorConfig
from clearhead.models.engine import Engine
from clearhead.tasks.speed import Batch, Case, Decode, measure, speeds
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.mixing import training_pairs
from clearhead.tasks.zoo import BUILT_IN
from clearhead.text.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig

VOCABULARY, SOURCE, TARGET, BEAM, BATCHES = 32_000, 25, 32, 4, 64
CASES = [Case(batch, beam) for beam in (1, BEAM) for batch in (1, 32)]
OURS, PEER = "clearhead int8", "CTranslate2 int8"


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument(
        "--seconds", type=float, default=2.0, help="seconds of each model in a round, about"
    )
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(about(torch.device("cpu")))
    with tempfile.TemporaryDirectory() as temporary:
        decoders = make_decoders(Path(temporary), options.threads)
        figures = {str(case): compare(decoders, case, options.rounds, options.seconds) for case in CASES}
    figures["built-in"] = built_in(options.rounds)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def make_decoders(folder: Path, threads: int) -> dict[str, Decode]:
    words = [f"w{number}" for number in range(VOCABULARY - 4)]
    tokenizer = Tokenizer.train([" ".join(words)], TokenizerConfig(kind="word", vocabulary=VOCABULARY))
    model = Translator(TranslatorConfig(max_length=256), tokenizer.size).eval()
    languages = {"kind": "translation", "data": {"source": "en", "target": "de"}}
    save_checkpoint(folder / "ours", model, tokenizer, languages)
    export_model(folder / "ours", folder / "huggingface")
    export_ctranslate2(folder / "ours", folder / "ctranslate2", "int8")

    def exported(name: str, precision: str) -> Exported:
        names, device = token_names(tokenizer), torch.device("cpu")
        return Exported(folder / name, True, names, (EOS,), device, threads, precision)

    return {
        "clearhead fp32": ours(model, "fp32"),
        OURS: ours(model, "int8"),
        PEER: load_ctranslate2(exported("ctranslate2", "int8")),
        "Hugging Face fp32": load_huggingface(exported("huggingface", "fp32")),
    }


def ours(model: Translator, precision: str) -> Decode:
    engine = Engine(model, precision)  # pyright: ignore[reportArgumentType]

    @torch.inference_mode()
    def decode(sources: Batch, beam: int, limits: tuple[int, int]) -> list[list[int]]:
        fast, rows = engine.current(), len(sources)
        ids = torch.tensor([[*source, EOS] for source in sources])
        state = fast.start(ids, torch.full((rows,), SOURCE))
        # The end is suppressed, because peers must write as many tokens.
        constraints = Constraints(torch.full((rows,), BOS), EOS, limits[1], suppressed_tokens=[EOS])
        if beam == 1:
            found = greedy_search(fast.step, state, constraints)
        else:
            found = [best[0] for best in beam_search(fast.step, state, constraints, beam)]
        return [one.tokens for one in found]

    return decode


def compare(decoders: dict[str, Decode], case: Case, rounds: int, seconds: float) -> dict[str, list[float]]:
    """The rates of all in turn."""
    batches = torch.randint(4, VOCABULARY, (BATCHES, case.batch, SOURCE - 1)).tolist()
    found = list(measure(decoders, batches, case.beam, lambda batch: (TARGET, TARGET), rounds, seconds))
    assert all(one.tokens == one.texts * TARGET for round_ in found for one in round_.values())
    measured = speeds(found)
    peer = measured[PEER].texts_per_cpu_second
    print(f"{case}: sentences per CPU-second")
    for name, speed in measured.items():
        rate = speed.texts_per_cpu_second
        print(f"  {name:24}{rate:9.2f}{speed.spread(cpu=True):9.1%}{rate / peer:8.2f}x")
    return {name: [one.texts / one.cpu_seconds for one in some.rounds] for name, some in measured.items()}


def built_in(rounds: int) -> dict[str, float]:
    """Words per CPU-second of the built-in model on its test sentences, and the time of the first answer."""
    lines = (BUILT_IN["en-de-fr"] / "test.en-de.tsv").read_text(encoding="utf-8").splitlines()[:1000]
    texts = [line.split("\t")[0] for line in lines]
    words, figures = sum(len(text.split()) for text in texts), {}
    models = {precision: clearhead.load("en-de", precision=precision) for precision in ("fp32", "int8")}
    models["int8, shortlist"] = clearhead.load("en-de", precision="int8")
    models["int8, shortlist"].shortlist = learned_shortlist()
    for name, model in models.items():
        model.translate(texts[:200])
        start = time.process_time()
        model.translate(texts)
        figures[f"words per CPU-second, {name}"] = words / (time.process_time() - start)
    waits = []
    for _ in range(rounds):
        start = time.perf_counter()
        command = [sys.executable, "-m", "clearhead", "translate", "Where is the station?"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        waits.append(time.perf_counter() - start)
    figures["seconds to the first answer"] = statistics.median(waits)
    print("built-in model, beam 5")
    for name, value in figures.items():
        print(f"  {name:36}{value:9.2f}")
    return figures


def learned_shortlist() -> clearhead.Shortlist:
    """The built-in model's shortlist for German, from its training pairs."""
    pairs = training_pairs(BUILT_IN["en-de-fr"], [Direction("en", "de")])
    return clearhead.Shortlist.learn(clearhead.load("en-de").tokenizer, pairs)


if __name__ == "__main__":
    main()
