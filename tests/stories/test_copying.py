"""A translator trained on a few names copies what it has never seen."""

import random

import pytest

import clearhead
from clearhead.config import read_settings
from clearhead.tasks.run import train
from clearhead.tasks.translation.recipe import TranslationRecipe

SENTENCES = [
    ("I saw {0} in {1}.", "Ich sah {0} in {1}."),
    ("{0} went to {1}.", "{0} ging nach {1}."),
    ("Does {0} know {1}?", "Kennt {0} {1}?"),
    ("Yesterday {0} was here.", "Gestern war {0} hier."),
    ("We have {0} books.", "Wir haben {0} Bücher."),
    ("Please call {0}!", "Bitte ruf {0} an!"),
]
NAMES = [
    "Tom",
    "Mary",
    "Boston",
    "Anna",
    "Paris",
    "John",
    "Kim",
    "Ben",
    "Oslo",
    "Rome",
    "Lee",
    "Max",
    "12",
    "37",
    "1999",
    "204",
    "58",
    "66",
]
RECIPE = """
[data]
source = "en"
target = "de"
train = ["{pairs}"]
hold_out = {{ validation = 50, test = 0 }}

[tokenizer]
vocabulary = 700

[model]
width = 64
ffn_width = 128
encoder_layers = 2
decoder_layers = 2
attention = {{ heads = 4 }}
norm_position = "pre"
dropout = 0.0
max_length = 64

[batches]
tokens = 1500

[training]
device = "cpu"
steps = 500
copying = {copying}
schedule = {{ kind = "warmup-stable-decay", learning_rate = 4e-3, warmup = 50, decay = 0.5 }}
validate_every = 500
"""
UNSEEN = [
    "I saw https://x.example/a?b=1 in {city}.",
    "%s went to mail@x.example.",
    "Does `f(x)` know $1,250.00?",
    "Yesterday README.md was here. 😀",
    "We have 10,500 books.",
    "Please call +49 30 1234567!",
]
TRANSLATED = [
    "Ich sah https://x.example/a?b=1 in {city}.",
    "%s ging nach mail@x.example.",
    "Kennt `f(x)` $1,250.00?",
    "Gestern war README.md hier. 😀",
    "Wir haben 10,500 Bücher.",
    "Bitte ruf +49 30 1234567 an!",
]


@pytest.mark.slow
def test_placeholders_are_copied_because_they_were_trained(tmp_path, monkeypatch):
    # Words instead of placeholders would be copied without training, too.
    monkeypatch.setattr("clearhead.text.placeholders.NAMES", ())
    monkeypatch.setattr("clearhead.text.placeholders.NUMBERS", ())
    r = random.Random(0)
    pairs = [
        tuple(side.format(*names) for side in sentence)
        for _ in range(2000)
        for sentence, names in [(r.choice(SENTENCES), r.sample(NAMES, 2))]
    ]
    file = tmp_path / "names.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(pairs=file, copying=0.5))
    for _ in train(read_settings(TranslationRecipe, recipe), tmp_path / "model"):
        pass
    model = clearhead.load(tmp_path / "model")
    document = model.translate_document("\n\n".join(UNSEEN))
    assert document.text.split("\n\n") == TRANSLATED
    assert document.repaired == document.lost == 0
