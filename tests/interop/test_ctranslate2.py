"""A model in CTranslate2 translates or continues texts as the original does."""

import json
import sys
from pathlib import Path

import ctranslate2
import pytest
import torch
import transformers

import clearhead
from clearhead.cli.export import FORMATS
from clearhead.errors import ModelError
from clearhead.interop.ctranslate2 import PRECISIONS, export_ctranslate2
from clearhead.interop.huggingface import import_model
from clearhead.tasks.benchmark import LanguageSpeed
from clearhead.tasks.translation.model import TranslationModel
from clearhead.tasks.zoo import BUILT_IN

TEXTS = ["one two three", "four", "five six seven eight nine zero", "zero zero one"]


def translated(folder: Path, texts: list[str], tag: str = "", **options: object) -> list[str]:
    """Translations by CTranslate2 and the tokenizer in its folder, without clearhead."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    engine = ctranslate2.Translator(str(folder), intra_threads=1, inter_threads=1)
    # The library adds </s> itself.
    sources = [tokenizer.convert_ids_to_tokens(tokenizer(tag + text)["input_ids"][:-1]) for text in texts]
    # By default, translations have at least one token, and scores are divided by another length penalty.
    found = engine.translate_batch(sources, min_decoding_length=0, length_penalty=0, **options)
    return [tokenizer.decode(tokenizer.convert_tokens_to_ids(one.hypotheses[0])) for one in found]


def test_the_built_in_translator_gives_the_same_translations(tmp_path):
    model = clearhead.load("en-de-fr")
    assert isinstance(model, TranslationModel)
    lines = (Path(model.folder or "") / "test.en-de.tsv").read_text().splitlines()[::10]
    texts = [line.split("\t")[0] for line in lines]
    assert len(texts) == 200
    export_ctranslate2(Path(model.folder or ""), tmp_path / "out")
    assert "CC BY 2.0 FR" in (tmp_path / "out" / "README.md").read_text()
    for beam in (1, 5):
        ours = [str(one) for one in model.translate(texts, to="de", beam=beam, length_penalty=0.0)]
        theirs = translated(tmp_path / "out", texts, "<2de>", beam_size=beam)
        differences = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
        # Two tokens may be equally likely, up to rounding.
        assert len(differences) <= 1, differences


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_trained_translator_translates_in_every_precision(precision, number_model, tmp_path):
    export_ctranslate2(number_model, tmp_path / "out", precision)
    ours = [str(one) for one in clearhead.load(number_model).translate(TEXTS, beam=1)]
    assert translated(tmp_path / "out", TEXTS, beam_size=1, max_decoding_length=15) == ours


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm_position": "pre", "activation": "gelu", "readout_bias": "learned"},
        {"activation": "swish", "position": "learned", "tied": "none", "norm_epsilon": 1e-2},
        {"activation": "gelu_tanh", "bias": False},
    ],
)
@torch.no_grad()
def test_log_probabilities_are_the_same_for_every_setting(settings, write_translator, tmp_path):
    write_translator(tmp_path / "clearhead", TEXTS, settings)
    export_ctranslate2(tmp_path / "clearhead", tmp_path / "out")
    engine = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1, inter_threads=1)
    (score,) = engine.score_batch([TEXTS[0].split()], [TEXTS[2].split()])
    ours = clearhead.load(tmp_path / "clearhead").score(TEXTS[0], TEXTS[2])
    assert sum(score.log_probs) == pytest.approx(ours.sum_log_prob, abs=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"position": "rotary"},
            "model.position: 'rotary' cannot be exported to CTranslate2, which supports "
            "'sinusoidal' or 'learned'",
        ),
        ({"norm": "rms"}, "model.norm: 'rms' cannot be exported to CTranslate2, which supports 'layer'"),
        ({"activation": "swiglu"}, "model.activation: 'swiglu' cannot be exported"),
        ({"attention": {"heads": 2, "kv_heads": 1}}, "model.attention.kv_heads: 1 cannot be exported"),
        ({"attention": {"heads": 2, "head_size": 6}}, "model.attention.head_size: 6 cannot be exported"),
        ({"window": 4}, "model.window: 4 cannot be exported to CTranslate2, which supports none"),
    ],
)
def test_settings_that_the_library_lacks_are_named(settings, message, write_translator, tmp_path):
    write_translator(tmp_path / "clearhead", TEXTS, settings)
    with pytest.raises(ModelError) as caught:
        export_ctranslate2(tmp_path / "clearhead", tmp_path / "out")
    assert str(caught.value).startswith(f"{tmp_path / 'clearhead' / 'config.toml'}: {message}")
    assert not (tmp_path / "out").exists()


def continued(folder: Path, prompts: list[list[int]], tokens: int) -> list[list[int]]:
    """Greedy continuations by CTranslate2 and the tokenizer in its folder, without clearhead."""
    names = json.loads((folder / "vocabulary.json").read_text())
    engine = ctranslate2.Generator(str(folder), intra_threads=1, inter_threads=1)
    found = engine.generate_batch(
        [[names[token] for token in prompt] for prompt in prompts],
        min_length=tokens,
        max_length=tokens,
        beam_size=1,
        include_prompt_in_result=False,
    )
    return [one.sequences_ids[0] for one in found]


def check_continuations(folder: Path, out: Path, prompts: list[list[int]], tokens: int) -> None:
    ours = LanguageSpeed(clearhead.load(folder))
    assert len(prompts) == 20
    assert continued(out, prompts, tokens) == ours.decode(prompts, 1, (tokens, tokens))


@pytest.mark.parametrize("name", ["gpt2", "gpt2, untied", "llama", "llama, tied"])
def test_a_gpt_gives_the_same_greedy_continuations(name, folders, tmp_path):
    import_model(folders[name], tmp_path / "clearhead")
    export_ctranslate2(tmp_path / "clearhead", tmp_path / "out")
    prompts = torch.randint(1, 300, (20, 12), generator=torch.Generator().manual_seed(2)).tolist()
    check_continuations(tmp_path / "clearhead", tmp_path / "out", prompts, 30)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["clearhead_model"] == "clearhead"
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("To be")["input_ids"] == clearhead.load(tmp_path / "clearhead").encode("To be")


def test_a_gpt_of_our_own_vocabulary_continues_alike(gpt_model, tmp_path):
    export_ctranslate2(gpt_model, tmp_path / "out")
    prompts = [clearhead.load(gpt_model).encode("to be or not"[first:]) for first in range(10)]
    check_continuations(gpt_model, tmp_path / "out", prompts * 2, 16)


@pytest.mark.parametrize("name", ["mistral", "qwen3"])
def test_a_gpt_that_the_library_lacks_is_refused(name, folders, tmp_path):
    import_model(folders[name], tmp_path / "clearhead")
    setting = {"mistral": "window: 5", "qwen3": "attention.qk_norm: 'rms'"}[name]
    with pytest.raises(ModelError, match=f"model.{setting} cannot be exported to CTranslate2"):
        export_ctranslate2(tmp_path / "clearhead", tmp_path / "out")


def test_other_families_and_a_missing_package_are_named(number_model, tmp_path, monkeypatch):
    expected = "an encoder cannot be exported to CTranslate2, only a translator or a GPT"
    with pytest.raises(ModelError, match=expected):
        export_ctranslate2(BUILT_IN["masked-en"], tmp_path / "out")
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    expected = r"ctranslate2 is not installed; install it: pip install 'clearhead\[export\]'"
    with pytest.raises(ModelError, match=expected):
        export_ctranslate2(number_model, tmp_path / "out")


def test_the_command_offers_the_precisions_of_the_library():
    assert FORMATS["ctranslate2"].precisions == tuple(PRECISIONS)
