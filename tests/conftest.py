"""Shared by all tests: one thread, checked shapes, a cache of their own, and a toy translator."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
import torch
from jaxtyping import install_import_hook

CHECKED = ["clearhead.decoding", "clearhead.layers", "clearhead.models"]
# The compiler of passes on a GPU does not see through the checks.
if not torch.cuda.is_available():
    install_import_hook(CHECKED, "beartype.beartype")

torch.set_num_threads(1)
# A busy machine is no mistake.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture(scope="session")
def measuring_data() -> Path:
    """The folder of data sets that may not be shipped; tests that want it are skipped without it."""
    place = os.environ.get("CLEARHEAD_DATA") or Path(__file__).parents[2] / "shared" / "data"
    if not Path(place).is_dir():
        pytest.skip("no measuring data: name its folder in CLEARHEAD_DATA")
    return Path(place)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Token stores made by tests never meet those of the user."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEARHEAD_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def numbers() -> Callable[[int], list[tuple[str, str]]]:
    """So many pairs of a toy language: 'three one four' is '3 1 4'."""

    def make(count: int) -> list[tuple[str, str]]:
        chance = random.Random(0)
        found: dict[tuple[int, ...], None] = {}
        while len(found) < count:
            found[tuple(chance.randrange(10) for _ in range(chance.randint(2, 5)))] = None
        return [(" ".join(DIGITS[digit] for digit in line), " ".join(map(str, line))) for line in found]

    return make


@pytest.fixture(scope="session")
def number_recipe(numbers) -> Callable[..., Path]:
    """Writes a file of pairs and a recipe that learns them in seconds; gives the recipe's place."""

    def make(folder: Path, steps: int = 200, more: str = "") -> Path:
        pairs = folder / "numbers.en-de.tsv"
        pairs.write_text("".join(f"{source}\t{target}\n" for source, target in numbers(400)))
        path = folder / "recipe.toml"
        path.write_text(RECIPE.format(pairs=pairs) + SMALL.format(steps=steps) + more)
        return path

    return make


def trained(recipe: Path, out: Path) -> Path:
    """The folder of a finished run."""
    from clearhead.config import read_settings
    from clearhead.tasks.run import train
    from clearhead.tasks.translation.recipe import TranslationRecipe

    for _ in train(read_settings(TranslationRecipe, recipe), out):
        pass
    return out


@pytest.fixture(scope="session")
def number_model(tmp_path_factory: pytest.TempPathFactory, number_recipe) -> Path:
    """The folder of a trained translator; a test that changes something in it makes a copy first."""
    folder = tmp_path_factory.mktemp("numbers")
    return trained(number_recipe(folder), folder / "model")


@pytest.fixture(scope="session")
def babbler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small GPT that has learned nothing; it knows the characters of a line."""
    import tomli_w

    from clearhead.checkpoint import SETTINGS, WEIGHTS, save_weights, weights
    from clearhead.models import build, read_config
    from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

    folder = tmp_path_factory.mktemp("babbler")
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
def many_recipe(numbers) -> Callable[..., Path]:
    """Like `number_recipe`, for four directions: French writes 'c a d' where German writes '3 1 4'."""

    def make(folder: Path, steps: int = 300, more: str = "") -> Path:
        letters = str.maketrans("0123456789", "zabcdefghi")
        rows = {"de": numbers(400), "fr": [(a, b.translate(letters)) for a, b in numbers(500)[200:]]}
        for language, pairs in rows.items():
            file = folder / f"numbers.en-{language}.tsv"
            file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
        path = folder / "many.toml"
        path.write_text(MANY.format(folder=folder) + SMALL.format(steps=steps) + more)
        return path

    return make


@pytest.fixture(scope="session")
def many_model(tmp_path_factory: pytest.TempPathFactory, many_recipe) -> Path:
    """The folder of a trained translator between English and two other languages, in both directions."""
    folder = tmp_path_factory.mktemp("many")
    return trained(many_recipe(folder), folder / "model")


@pytest.fixture(scope="session")
def box_stand_in(many_model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy in the form in which the package holds its model."""
    from clearhead.tasks.export import export_int8

    folder = tmp_path_factory.mktemp("package") / "en-de-fr"
    export_int8(many_model, folder)
    return folder


@pytest.fixture
def boxed(box_stand_in, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package with the toy in it."""
    built_in = {"en-de-fr": box_stand_in, "shakespeare": box_stand_in / "none"}
    monkeypatch.setattr("clearhead.tasks.zoo.BUILT_IN", built_in)
    return box_stand_in


@pytest.fixture
def unboxed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package without a model in it."""
    built_in = {"en-de-fr": tmp_path / "no box", "shakespeare": tmp_path / "no box"}
    monkeypatch.setattr("clearhead.tasks.zoo.BUILT_IN", built_in)


RECIPE = """
[data]
source = "en"
target = "de"
train = ["{pairs}"]
hold_out = {{ validation = 30, test = 40 }}
"""
MANY = """
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
