"""Shared by all tests: one thread, checked shapes, a separate cache, and small trained models."""

import gc
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
import torch
from jaxtyping import install_import_hook

# Read when a kernel is defined, so before anything imports one.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

CHECKED = ["clearhead.decoding", "clearhead.layers", "clearhead.models"]
# torch.compile on a GPU cannot trace the checks.
if not torch.cuda.is_available():
    install_import_hook(CHECKED, "beartype.beartype")

torch.set_num_threads(1)
# A slow machine must not fail a test.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # torch's compiler warns about itself, and differently in each release: no reason for a test to fail.
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.filterwarnings("default"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    from clearhead import accel

    if item.get_closest_marker("accel") and not accel.enabled():
        pytest.skip("speed-ups are off (CLEARHEAD_ACCEL=off)")


DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture(scope="session")
def measuring_data() -> Path:
    """The folder of data sets that cannot be shipped; without it, the test is skipped."""
    folder = os.environ.get("CLEARHEAD_DATA") or Path(__file__).parents[2] / "shared" / "data"
    if not Path(folder).is_dir():
        pytest.skip("no evaluation data: name its folder in CLEARHEAD_DATA")
    return Path(folder)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder for the tests, separate from the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEARHEAD_CACHE", str(folder))
        yield folder


@pytest.fixture
def without_garbage_collection() -> Iterator[None]:
    """Only the last reference frees an object."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def numbers() -> Callable[[int], list[tuple[str, str]]]:
    """Makes pairs of a toy language: 'three one four' is '3 1 4'."""

    def make(count: int) -> list[tuple[str, str]]:
        rng = random.Random(0)
        found: dict[tuple[int, ...], None] = {}
        while len(found) < count:
            found[tuple(rng.randrange(10) for _ in range(rng.randint(2, 5)))] = None
        return [(" ".join(DIGITS[digit] for digit in line), " ".join(map(str, line))) for line in found]

    return make


@pytest.fixture(scope="session")
def number_recipe(numbers) -> Callable[..., Path]:
    """Writes a file of pairs and a recipe that trains on them in seconds; returns the recipe's path."""

    def make(folder: Path, steps: int = 200, more: str = "") -> Path:
        pairs = folder / "numbers.en-de.tsv"
        pairs.write_text("".join(f"{source}\t{target}\n" for source, target in numbers(400)))
        path = folder / "recipe.toml"
        path.write_text(RECIPE.format(pairs=pairs) + SMALL.format(steps=steps) + more)
        return path

    return make


def trained(recipe: Path, out: Path) -> Path:
    """Trains a recipe; returns the folder of the finished run."""
    from clearhead.config import read_settings
    from clearhead.tasks.run import train
    from clearhead.tasks.translation.recipe import TranslationRecipe

    for _ in train(read_settings(TranslationRecipe, recipe), out):
        pass
    return out


@pytest.fixture(scope="session")
def number_model(tmp_path_factory: pytest.TempPathFactory, number_recipe) -> Path:
    """The folder of a trained translator; a test that changes it must copy it first."""
    folder = tmp_path_factory.mktemp("numbers")
    return trained(number_recipe(folder), folder / "model")


@pytest.fixture(scope="session")
def first_edition_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small untrained translator with a tokenizer from before byte fallback."""
    from clearhead.checkpoint import save_checkpoint
    from clearhead.models import Translator, TranslatorConfig
    from clearhead.text.tokenizer import Tokenizer

    folder = tmp_path_factory.mktemp("first_edition") / "old"
    tokenizer = Tokenizer.load(Path(__file__).parent / "first_edition" / "en-de-fr.tokenizer.json")
    config = TranslatorConfig.model_validate({"preset": "tiny", "max_length": 30})
    settings = {"kind": "translation", "data": {"source": "en", "target": "fr"}}
    save_checkpoint(folder, Translator(config, tokenizer.size), tokenizer, settings)
    return folder


@pytest.fixture(scope="session")
def gpt_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small untrained GPT; its vocabulary is the characters of one line."""
    import tomli_w

    from clearhead.checkpoint import SETTINGS, WEIGHTS, save_weights, weights
    from clearhead.models import build, read_config
    from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

    folder = tmp_path_factory.mktemp("gpt")
    tokenizer = Tokenizer.train(["to be or not\n"], TokenizerConfig(kind="character", normalize=False))
    small = {
        "kind": "gpt",
        "width": 16,
        "ffn_width": 24,
        "layers": 1,
        "context_length": 32,
        "attention": {"heads": 2},
    }
    torch.manual_seed(0)
    model = build(read_config(small), tokenizer)
    (folder / SETTINGS).write_text(tomli_w.dumps({"model": small}))
    tokenizer.save(folder / Tokenizer.FILE)
    save_weights(weights(model), folder / WEIGHTS)
    return folder


@pytest.fixture(scope="session")
def multilingual_recipe(numbers) -> Callable[..., Path]:
    """Like `number_recipe`, for four directions: French writes 'c a d' where German writes '3 1 4'."""

    def make(folder: Path, steps: int = 300, more: str = "") -> Path:
        letters = str.maketrans("0123456789", "zabcdefghi")
        rows = {"de": numbers(400), "fr": [(a, b.translate(letters)) for a, b in numbers(500)[200:]]}
        for language, pairs in rows.items():
            file = folder / f"numbers.en-{language}.tsv"
            file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
        path = folder / "multilingual.toml"
        path.write_text(MULTILINGUAL.format(folder=folder) + SMALL.format(steps=steps) + more)
        return path

    return make


@pytest.fixture(scope="session")
def multilingual_model(tmp_path_factory: pytest.TempPathFactory, multilingual_recipe) -> Path:
    """The folder of a trained translator between English and two other languages, in both directions."""
    folder = tmp_path_factory.mktemp("multilingual")
    return trained(multilingual_recipe(folder), folder / "model")


@pytest.fixture(scope="session")
def exported_model(multilingual_model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The multilingual model in int8, as built-in models are."""
    from clearhead.tasks.export import export_int8

    folder = tmp_path_factory.mktemp("package") / "en-de-fr"
    export_int8(multilingual_model, folder)
    return folder


@pytest.fixture
def built_in_model(exported_model, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces the built-in translator by a small one, and removes the built-in GPT."""
    built_in = {"en-de-fr": exported_model, "shakespeare": exported_model / "none"}
    monkeypatch.setattr("clearhead.tasks.zoo.BUILT_IN", built_in)
    return exported_model


@pytest.fixture
def no_built_in_models(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes all built-in models."""
    built_in = {"en-de-fr": tmp_path / "none", "shakespeare": tmp_path / "none"}
    monkeypatch.setattr("clearhead.tasks.zoo.BUILT_IN", built_in)


# Names still used by tests of other rooms.
@pytest.fixture(scope="session")
def babbler(gpt_model) -> Path:
    return gpt_model


@pytest.fixture(scope="session")
def many_model(multilingual_model) -> Path:
    return multilingual_model


RECIPE = """
[data]
source = "en"
target = "de"
train = ["{pairs}"]
hold_out = {{ validation = 30, test = 40 }}
"""
MULTILINGUAL = """
[[data.corpora]]
source = "en"
target = "de"
both = true
train = ["{folder}/numbers.en-de.tsv"]

[[data.corpora]]
source = "en"
target = "fr"
both = true
train = ["{folder}/numbers.en-fr.tsv"]

[data.hold_out]
validation = 20
test = 30
"""
SMALL = """
[tokenizer]
kind = "word"
vocabulary = 40

[model]
width = 32
ffn_width = 64
encoder_layers = 1
decoder_layers = 1
attention = {{ heads = 2 }}
norm_position = "pre"
dropout = 0.0
max_length = 16

[batches]
tokens = 800

[training]
device = "cpu"
steps = {steps}
schedule = {{ kind = "warmup-stable-decay", learning_rate = 1e-2, warmup = 20, decay = 0.5 }}
report_every = 20
validate_every = 50
save_every = 25
"""
