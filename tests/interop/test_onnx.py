"""A translator in ONNX gives the same logits and translations; the examples of docs/interop.md run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import clearhead
from clearhead.checkpoint import load_checkpoint
from clearhead.errors import ModelError
from clearhead.interop.onnx import export_onnx
from clearhead.models import Translator
from clearhead.text.tokenizer import BOS

PAGE = Path(__file__).parents[2] / "docs" / "interop.md"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
TEXTS = ["one two three", "four", "five six seven eight nine zero", "zero zero one"]


TRANSLATE_FILE = """
import json, sys
lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
Path(sys.argv[2]).write_text(json.dumps(translate([f"<2de>{line}" for line in lines])))
"""
EXPORT = """
import logging, sys
from pathlib import Path
from clearhead.interop.onnx import export_onnx

before = logging.getLogger("torch.onnx").level
for folder in map(Path, sys.argv[1:]):
    export_onnx(folder, folder / "onnx")
assert logging.getLogger("torch.onnx").level == before, "the level of the exporter's messages has changed"
"""
GROUPED: dict[str, Any] = {"heads": 2, "kv_heads": 1}
SETTINGS: list[dict[str, Any]] = [
    {
        "position": "rotary",
        "activation": "swiglu",
        "norm": "rms",
        "attention": GROUPED,
        "norm_position": "pre",
    },
    {
        "position": "alibi",
        "window": 3,
        "attention": {"heads": 2, "score": "additive"},
        "readout_bias": "learned",
    },
]


def run(code: str, *arguments: Path, folder: Path) -> None:
    """Runs Python in a process of its own: torch cannot trace the checks of shapes that tests add."""
    subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], check=True, cwd=folder, env=ENVIRONMENT
    )


def test_the_examples_of_the_page_run_and_translate_as_the_original_does(tmp_path):
    model = clearhead.load("en-de-fr")
    lines = (Path(model.folder or "") / "test.en-de.tsv").read_text().splitlines()[::10]
    texts = [line.split("\t")[0] for line in lines]
    assert len(texts) == 200
    (tmp_path / "lines.txt").write_text("\n".join(texts), encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    files = (tmp_path / "lines.txt", tmp_path / "translations.json")
    run("\n".join([*blocks, TRANSLATE_FILE]), *files, folder=tmp_path)
    ours = [str(one) for one in model.translate(texts, to="de", beam=1)]
    theirs = json.loads(files[1].read_text())
    differences = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    # Two tokens may be equally likely, up to rounding.
    assert len(differences) <= 1, differences


@pytest.fixture(scope="module")
def models(write_translator, tmp_path_factory) -> list[Path]:
    """The folder of a model with each of the settings, and in it the folder onnx."""
    folders = [tmp_path_factory.mktemp("translator") for _ in SETTINGS]
    for folder, settings in zip(folders, SETTINGS, strict=True):
        write_translator(folder, TEXTS, settings)
    run(EXPORT, *folders, folder=folders[0])
    return folders


@pytest.mark.parametrize("number", range(len(SETTINGS)))
@torch.no_grad()
def test_a_step_has_the_same_logits_whatever_the_settings(number, models):
    model, folder = load_checkpoint(models[number]).model, models[number] / "onnx"
    assert isinstance(model, Translator)
    encoder, decoder = (
        onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "decoder")
    )
    lengths, source = torch.tensor([7, 2, 4]), torch.randint(4, len(model.readout_weight), (3, 7))
    projected = encoder.run(None, {"source": source.numpy(), "lengths": lengths.numpy()})
    given = dict(zip(("source_keys", "source_values"), projected, strict=True)) | {"lengths": lengths.numpy()}
    keys = values = projected[0][:, :, :, :0]
    state, tokens = model.start(source, lengths), torch.full((3,), BOS)
    for _ in range(6):
        expected = model.step(tokens, state)
        step = {"tokens": tokens.numpy(), "keys": keys, "values": values}
        logits, keys, values = decoder.run(None, step | given)
        np.testing.assert_allclose(logits, expected.numpy(), atol=1e-4)
        tokens = expected.argmax(-1)
    assert json.loads((folder / "config.json").read_text())["decoder_start_token_id"] == BOS


def test_other_families_and_a_missing_package_are_named(babbler, number_model, tmp_path, monkeypatch):
    with pytest.raises(ModelError, match="a gpt cannot be exported to ONNX, only a translator"):
        export_onnx(babbler, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    expected = r"onnxscript is not installed; install it: pip install 'clearhead\[export\]'"
    with pytest.raises(ModelError, match=expected):
        export_onnx(number_model, tmp_path / "out")
    assert not (tmp_path / "out").exists()
