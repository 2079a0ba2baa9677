"""Other libraries that decode our models: each runs what `export` writes for it."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clearhead.interop.ctranslate2 import PRECISIONS, export_ctranslate2
from clearhead.interop.huggingface import DTYPES, export_model

Decode = Callable[[Sequence[list[int]], int, tuple[int, int]], list[list[int]]]
"""Takes a batch of ids, the size of the beam, and the fewest and most tokens to write; returns the tokens."""


@dataclass(frozen=True)
class Exported:
    """A model that was exported for a library, and how to run it."""

    folder: Path
    translates: bool
    """Whether it has an encoder; otherwise it continues texts."""
    names: Sequence[str]
    """The token of each id."""
    ends: tuple[int, ...]
    """The ids that end a text."""
    device: torch.device
    threads: int
    precision: str


@dataclass(frozen=True)
class Peer:
    """A library that decodes: its package, how to install it, and its precisions by type of device."""

    name: str
    package: str
    install: str
    precisions: Mapping[str, tuple[str, ...]]
    export: Callable[[Path, Path, str], Any]
    load: Callable[[Exported], Decode]

    @property
    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None


def load_ctranslate2(exported: Exported) -> Decode:
    """Decoding with CTranslate2."""
    import ctranslate2

    options = {
        "device": exported.device.type,
        "compute_type": PRECISIONS[exported.precision] or "float32",
        "inter_threads": 1,
        "intra_threads": exported.threads,
    }
    names, ids = exported.names, {name: number for number, name in enumerate(exported.names)}
    if exported.translates:
        translator: Any = ctranslate2.Translator(str(exported.folder), **options)

        def translate(batch: Sequence[list[int]], beam: int, limits: tuple[int, int]) -> list[list[int]]:
            found = translator.translate_batch(
                [[names[token] for token in row] for row in batch],
                beam_size=beam,
                length_penalty=0,
                min_decoding_length=limits[0],
                max_decoding_length=limits[1],
            )
            return [[ids[token] for token in one.hypotheses[0]] for one in found]

        return translate
    generator: Any = ctranslate2.Generator(str(exported.folder), **options)

    def generate(batch: Sequence[list[int]], beam: int, limits: tuple[int, int]) -> list[list[int]]:
        found = generator.generate_batch(
            [[names[token] for token in row] for row in batch],
            beam_size=beam,
            length_penalty=0,
            min_length=limits[0],
            max_length=limits[1],
            include_prompt_in_result=False,
        )
        return [one.sequences_ids[0] for one in found]

    return generate


def load_huggingface(exported: Exported) -> Decode:
    """Decoding with transformers' own `generate`."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    kind = transformers.AutoModelForSeq2SeqLM if exported.translates else transformers.AutoModelForCausalLM
    dtype = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}[exported.precision]
    loaded: Any = kind.from_pretrained(exported.folder, dtype=DTYPES[dtype])
    model = loaded.eval().to(exported.device)
    # Otherwise, the last of the most tokens would be an end.
    model.generation_config.forced_eos_token_id = None
    end, starts = (exported.ends[:1], 1) if exported.translates else ((), 0)

    @torch.inference_mode()
    def decode(batch: Sequence[list[int]], beam: int, limits: tuple[int, int]) -> list[list[int]]:
        rows = [[*row, *end] for row in batch]
        width = max(map(len, rows))
        padding = [[0] * (width - len(row)) for row in rows]
        ones = [[1] * len(row) for row in rows]
        if exported.translates:
            padded, mask = _joined(rows, padding), _joined(ones, padding)
        else:
            padded, mask = _joined(padding, rows), _joined(padding, ones)
        found = model.generate(
            torch.tensor(padded, device=exported.device),
            attention_mask=torch.tensor(mask, device=exported.device),
            num_beams=beam,
            do_sample=False,
            length_penalty=0.0,
            min_new_tokens=limits[0],
            max_new_tokens=limits[1],
            **({} if exported.translates else {"pad_token_id": 0}),
        )
        return [_until(row, exported.ends) for row in found[:, starts or width :].tolist()]

    return decode


def _joined(left: Sequence[list[int]], right: Sequence[list[int]]) -> list[list[int]]:
    return [[*one, *other] for one, other in zip(left, right, strict=True)]


def _until(tokens: list[int], ends: Sequence[int]) -> list[int]:
    """The tokens before the first end."""
    return tokens[: next((number for number, token in enumerate(tokens) if token in ends), None)]


PEERS = (
    Peer(
        "CTranslate2",
        "ctranslate2",
        "pip install 'clearhead[export]'",
        {"cpu": ("fp32", "int8"), "cuda": ("bf16",)},
        export_ctranslate2,
        load_ctranslate2,
    ),
    Peer(
        "Hugging Face",
        "transformers",
        "pip install transformers",
        {"cpu": ("fp32",), "cuda": ("bf16",)},
        lambda folder, out, precision: export_model(folder, out),
        load_huggingface,
    ),
)
