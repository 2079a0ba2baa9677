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
from collections.abc import Callable
from pathlib import Path

import torch
from measuring import about

import clearhead
from clearhead.checkpoint import save_checkpoint
from clearhead.decoding import Constraints, beam_search, greedy_search
from clearhead.interop.huggingface import export_model
from clearhead.models import Translator, TranslatorConfig
from clearhead.models.engine import Engine
from clearhead.tasks.zoo import BUILT_IN
from clearhead.text.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig

VOCABULARY, SOURCE, TARGET, BEAM = 32_000, 25, 32, 4
CASES = [(batch, beam) for beam in (1, BEAM) for batch in (1, 32)]
OURS, PEER = "clearhead int8", "CTranslate2 int8"
Run = Callable[[list[list[int]], int], None]


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=2.0, help="CPU-seconds of each model in a round")
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(about(torch.device("cpu")))
    with tempfile.TemporaryDirectory() as temporary:
        runs = make_runs(Path(temporary), options.threads)
        figures = {str(case): compare(runs, case, options.rounds, options.seconds) for case in CASES}
    figures["built-in"] = built_in(options.rounds)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def make_runs(folder: Path, threads: int) -> dict[str, Run]:
    """What translates a batch of ids with a beam, by name."""
    words = [f"w{number}" for number in range(VOCABULARY - 4)]
    tokenizer = Tokenizer.train([" ".join(words)], TokenizerConfig(kind="word", vocabulary=VOCABULARY))
    model = Translator(TranslatorConfig(max_length=256), tokenizer.size).eval()
    languages = {"kind": "translation", "data": {"source": "en", "target": "de"}}
    save_checkpoint(folder / "ours", model, tokenizer, languages)
    export_model(folder / "ours", folder / "huggingface")
    runs = {f"clearhead {name}": ours(model, name) for name in ("fp32", "int8")}
    runs[PEER] = ctranslate2_run(folder, tokenizer, threads)
    runs["Hugging Face fp32"] = huggingface_run(folder / "huggingface")
    return runs


def ours(model: Translator, precision: str) -> Run:
    engine = Engine(model, precision)  # pyright: ignore[reportArgumentType]

    @torch.inference_mode()
    def run(sources: list[list[int]], beam: int) -> None:
        fast, rows = engine.current(), len(sources)
        state = fast.start(torch.tensor(sources), torch.full((rows,), SOURCE))
        constraints = Constraints(torch.full((rows,), BOS), EOS, TARGET, suppressed_tokens=[EOS])
        if beam == 1:
            found = greedy_search(fast.step, state, constraints)
        else:
            found = [best[0] for best in beam_search(fast.step, state, constraints, beam)]
        assert all(len(one.tokens) == TARGET for one in found)

    return run


def ctranslate2_run(folder: Path, tokenizer: Tokenizer, threads: int) -> Run:
    import ctranslate2

    from clearhead.interop.ctranslate2 import export_ctranslate2

    export_ctranslate2(folder / "ours", folder / "ctranslate2", "int8")
    engine = ctranslate2.Translator(str(folder / "ctranslate2"), inter_threads=1, intra_threads=threads)
    names = {number: name for name, number in tokenizer.vocabulary().items()}

    def run(sources: list[list[int]], beam: int) -> None:
        texts = [[names[token] for token in source[:-1]] for source in sources]
        limits = {"min_decoding_length": TARGET, "max_decoding_length": TARGET}
        found = engine.translate_batch(texts, beam_size=beam, max_batch_size=len(texts), **limits)
        assert all(len(one.hypotheses[0]) == TARGET for one in found)

    return run


def huggingface_run(folder: Path) -> Run:
    import transformers

    transformers.logging.set_verbosity_error()
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()

    @torch.inference_mode()
    def run(sources: list[list[int]], beam: int) -> None:
        found = model.generate(
            torch.tensor(sources),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=TARGET,
            max_new_tokens=TARGET,
        )
        assert found.shape[1] >= TARGET

    return run


def compare(
    runs: dict[str, Run], case: tuple[int, int], rounds: int, seconds: float
) -> dict[str, list[float]]:
    """The rates of all in turn, without a first round in which steps are traced."""
    batch, beam = case
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            sentences, start = 0, time.process_time()
            while (spent := time.process_time() - start) < seconds:
                sources = torch.randint(4, VOCABULARY, (batch, SOURCE - 1)).tolist()
                run([[*source, EOS] for source in sources], beam)
                sentences += batch
            if number:
                rates[name].append(sentences / spent)
    peer = statistics.median(rates[PEER])
    print(f"batch {batch}, {'greedy' if beam == 1 else f'beam {beam}'}: sentences per CPU-second")
    for name, some in rates.items():
        middle = statistics.median(some)
        spread = (max(some) - min(some)) / middle
        print(f"  {name:24}{middle:9.2f}{spread:9.1%}{middle / peer:8.2f}x")
    return rates


def built_in(rounds: int) -> dict[str, float]:
    """Words per CPU-second of the built-in model on its test sentences, and the time of the first answer."""
    lines = (BUILT_IN["en-de-fr"] / "test.en-de.tsv").read_text(encoding="utf-8").splitlines()[:1000]
    texts = [line.split("\t")[0] for line in lines]
    words, figures = sum(len(text.split()) for text in texts), {}
    for precision in ("fp32", "int8"):
        model = clearhead.load("en-de", precision=precision)
        model.translate(texts[:200])
        start = time.process_time()
        model.translate(texts)
        figures[f"words per CPU-second, {precision}"] = words / (time.process_time() - start)
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


if __name__ == "__main__":
    main()
