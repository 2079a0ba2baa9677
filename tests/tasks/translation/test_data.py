"""Training, validation and test parts share no sentence, and token stores are made once."""

import json
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from clearhead.config import read_settings
from clearhead.data.cache import cache_folder
from clearhead.data.cleaning import Tally
from clearhead.data.sources import corpus
from clearhead.data.sources.corpus import Pair
from clearhead.errors import DataError
from clearhead.tasks.translation import data as preparation
from clearhead.tasks.translation.data import Corpus, learn_tokenizer, store, tally
from clearhead.tasks.translation.recipe import DataConfig, TranslationRecipe
from clearhead.text.kinds import PLACEHOLDERS
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

HELD_OUT = ("validation", "test")
PARTS = ("train", *HELD_OUT)


@pytest.fixture
def file(tmp_path) -> Path:
    """English sentences with one to three translations each, which are not adjacent."""
    rows = [
        f"sentence {number}\tSatz {number} {'so ' * (version + 1)}"
        for version in range(3)
        for number in range(300)
        if number % 3 >= version
    ]
    path = tmp_path / "pairs.tsv"
    path.write_text("en\tde\n" + "\n".join(rows))
    return path


def config(file: Path, source: str = "en", target: str = "de", **more) -> DataConfig:
    settings = {"hold_out": {"validation": 40, "test": 30}, **more}
    return DataConfig.model_validate({"source": source, "target": target, "train": [str(file)], **settings})


def parts(data: DataConfig, seed: int = 1) -> dict[str, list[Pair]]:
    corpus = Corpus(data, seed)
    return {part: list(corpus.pairs(part)) for part in PARTS}


def test_no_english_sentence_is_in_two_parts_in_either_direction(file):
    for source, target, english in (("en", "de", 0), ("de", "en", 1)):
        found = parts(config(file, source, target))
        assert (len(found["validation"]), len(found["test"])) == (40, 30)
        sentences = [{pair[english] for pair in found[part]} for part in PARTS]
        assert not sentences[0] & sentences[1]
        assert not sentences[0] & sentences[2]
        assert not sentences[1] & sentences[2]
        assert len(sentences[0]) < len(found["train"])


def test_both_directions_have_the_same_parts(file):
    forth, back = parts(config(file)), parts(config(file, "de", "en"))
    for part in PARTS:
        assert forth[part] == [Pair(pair.target, pair.source) for pair in back[part]]


def test_another_seed_holds_out_other_sentences(file):
    first, same, other = (parts(config(file), seed)["test"] for seed in (1, 1, 2))
    assert first == same
    assert set(first) != set(other)


def test_a_seed_of_its_own_keeps_the_held_out_sentences_when_the_seed_of_training_changes(file):
    data = config(file, hold_out={"validation": 40, "test": 30, "seed": 1})
    assert parts(data, 7)["test"] == parts(data, 8)["test"] == parts(config(file), 1)["test"]


def test_runs_that_differ_in_their_seed_share_their_pairs_if_the_split_has_its_own(file):
    shared = config(file, hold_out={"validation": 40, "test": 30, "seed": 1})
    assert Corpus(shared, 7).described == Corpus(shared, 8).described
    assert Corpus(config(file), 7).described != Corpus(config(file), 8).described


def test_nothing_is_held_out_for_parts_that_have_files(file, tmp_path):
    (tmp_path / "test.tsv").write_text("one\teins\n")
    found = parts(config(file, test=[str(tmp_path / "test.tsv")]))
    assert found["test"] == [Pair("one", "eins")]
    assert len(found["validation"]) == 40
    everything = parts(config(file, hold_out={"validation": 0, "test": 0}))
    assert everything["validation"] == everything["test"] == []
    assert len(everything["train"]) == 600


def test_validation_and_test_files_are_not_cleaned(file, tmp_path):
    (tmp_path / "odd.tsv").write_text("one\teins\none\teins\nTaxi\tTaxi\n\tzwei\nno\t" + "nein " * 300)
    odd = [Pair("one", "eins")] * 2 + [Pair("Taxi", "Taxi"), Pair("no", ("nein " * 300).strip())]
    named = [str(tmp_path / "odd.tsv")]
    found = parts(config(file, train=named, validation=named, test=named))
    assert found["validation"] == found["test"] == odd
    assert found["train"] == [Pair("one", "eins")]
    counts = Tally()
    list(Corpus(config(file, test=named), 1).pairs("test", counts))
    assert str(counts) == "5 pairs read, 4 kept; dropped: 1 empty"


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The files that were read, in order."""
    names = []

    def read_pairs(path, *others):
        names.append(Path(path).name)
        return corpus.read_pairs(path, *others)

    monkeypatch.setattr(preparation, "read_pairs", read_pairs)
    return names


def test_if_nothing_is_held_out_the_corpus_is_read_once(file, reads):
    whole = Corpus(config(file, hold_out={"validation": 0, "test": 0}), 1)
    assert len(list(whole.pairs("train"))) == 600
    assert not list(whole.pairs("validation"))
    assert reads == ["pairs.tsv"]


def test_held_out_parts_are_collected_while_the_training_part_is_read(file, reads):
    one = Corpus(config(file), 1)
    train = list(one.pairs("train"))
    assert len(reads) == 2  # to choose the split, and to apply it
    assert {"train": train} | {part: list(one.pairs(part)) for part in HELD_OUT} == parts(config(file))
    assert len(reads) == 4

    other = Corpus(config(file), 1)
    assert next(other.pairs("train")) == train[0]  # read in part only, so nothing is collected yet
    assert [list(other.pairs(part)) for part in HELD_OUT] == [list(one.pairs(part)) for part in HELD_OUT]
    assert len(reads) == 7


def test_holding_out_more_pairs_than_exist_is_refused(file):
    with pytest.raises(DataError, match="hold out fewer"):
        parts(config(file, hold_out={"validation": 500, "test": 500}))


def test_the_tally_counts_the_pairs_read(file):
    counts = Tally()
    list(Corpus(config(file), 1).pairs("train", counts))
    assert str(counts) == "600 pairs read, 600 kept"


@pytest.fixture
def recipe(file) -> TranslationRecipe:
    settings = {
        "data": config(file).model_dump(),
        "tokenizer": {"vocabulary": 80},
        "model": {"preset": "tiny", "max_length": 5},
    }
    return TranslationRecipe.model_validate(settings)


def test_the_tokenizer_is_trained_on_the_training_part_only(file, recipe):
    texts = parts(config(file))
    corpus = Corpus(recipe.data, 1)
    tokenizer = learn_tokenizer(corpus, recipe)
    assert tokenizer.fingerprint == learn_tokenizer(corpus, recipe).fingerprint
    file.write_text("en\tde\n" + "".join(f"{source}\t{target}\n" for source, target in texts["train"]))
    alone = Corpus(config(file, hold_out={"validation": 0, "test": 0}), 1)
    assert learn_tokenizer(alone, recipe).fingerprint == tokenizer.fingerprint


def test_a_store_is_made_once_and_holds_the_pairs_that_fit_into_the_model(
    file, recipe, tmp_path, monkeypatch
):
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    corpus = Corpus(recipe.data, 1)
    tokenizer = learn_tokenizer(corpus, recipe)
    pairs = store(corpus, "train", tokenizer, recipe)
    assert max(lengths.max() for lengths in pairs.lengths) == 4
    expected = [pair for pair in corpus.pairs("train") if max(map(len, map(tokenizer.encode, pair))) <= 4]
    assert [
        tuple(tokenizer.decode(side.tolist()) for side in pairs[row]) for row in range(len(pairs))
    ] == expected

    monkeypatch.setattr(preparation, "read_pairs", lambda *_: pytest.fail("read again"))
    assert len(store(Corpus(recipe.data, 1), "train", tokenizer, recipe)) == len(pairs)
    [folder] = [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]
    assert json.loads((folder / "meta.json").read_text())["content"]["part"] == "train"


def test_a_changed_file_makes_another_store(file, recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    tokenizer = learn_tokenizer(Corpus(recipe.data, 1), recipe)
    before = len(store(Corpus(recipe.data, 1), "train", tokenizer, recipe))
    file.write_text(file.read_text() + "\nsentence 999\tSatz 999")
    assert len(store(Corpus(recipe.data, 1), "train", tokenizer, recipe)) == before + 1


def rows(recipe: TranslationRecipe, tokenizer: Tokenizer) -> list[list[str]]:
    pairs = store(Corpus(recipe.data, 1), "train", tokenizer, recipe)
    return [[tokenizer.decode(side.tolist()) for side in pairs[row]] for row in range(len(pairs))]


def test_the_same_bytes_in_another_file_format_make_another_store(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    tokenizer = learn_tokenizer(Corpus(recipe.data, 1), recipe)
    for name in ("x.tsv", "x.csv"):
        (tmp_path / name).write_text("sentence,so\tSatz,1\n")

    def read(name: str) -> list[list[str]]:
        data = config(tmp_path / name, columns=(0, 1), hold_out={"validation": 0, "test": 0})
        return rows(recipe.model_copy(update={"data": data}), tokenizer)

    assert read("x.csv") == [["sentence", "so Satz"]] != read("x.tsv")
    assert len([path for path in (tmp_path / "cache").iterdir() if path.is_dir()]) == 2


def test_the_other_direction_and_a_new_version_make_other_stores(file, recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    tokenizer = learn_tokenizer(Corpus(recipe.data, 1), recipe)
    back = recipe.model_copy(update={"data": config(file, "de", "en")})
    assert rows(back, tokenizer) == [pair[::-1] for pair in rows(recipe, tokenizer)]
    monkeypatch.setattr(preparation, "PREPARATION", preparation.PREPARATION + 1)
    rows(recipe, tokenizer)
    assert len([path for path in (tmp_path / "cache").iterdir() if path.is_dir()]) == 3


def test_the_tally_of_a_store_counts_pairs_that_are_too_long(file, recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    one = Corpus(recipe.data, 1)
    tokenizer = learn_tokenizer(one, recipe)
    fitting = store(one, "train", tokenizer, recipe)
    train = len(list(one.pairs("train")))
    assert train > len(fitting)
    assert tally(fitting).dropped == {"too many tokens": train - len(fitting)}
    assert tally(fitting).kept == 600 - (train - len(fitting))
    assert str(tally(fitting)).startswith("600 pairs read, ")

    longer = recipe.model_copy(update={"model": recipe.model.model_copy(update={"max_length": 200})})
    file.write_text(file.read_text() + "\nsentence 1\t")
    again = store(Corpus(recipe.data, 1), "train", tokenizer, longer)
    assert str(tally(again)) == "601 pairs read, 600 kept; dropped: 1 empty"


def test_the_environment_sets_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CLEARHEAD_CACHE")
    assert cache_folder() == tmp_path / "clearhead"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "clearhead"


def with_more(file: Path, more: Path, **settings) -> DataConfig:
    """The corpus, and beside it another that is trained on only."""
    corpora = [
        {"source": "en", "target": "de", "both": True, "train": [str(file)]},
        {"source": "en", "target": "de", "train": [str(more)], "train_only": True},
    ]
    hold_out = {"validation": 40, "test": 30}
    return DataConfig.model_validate({"corpora": corpora, "hold_out": hold_out, **settings})


def test_a_corpus_to_train_on_only_changes_no_split_and_repeats_no_held_out_sentence(file, tmp_path):
    alone = parts(config(file))
    translated = tmp_path / "translated.tsv"
    translated.write_text("".join(f"sentence {number}\tSatz Nr. {number}\n" for number in range(400)))
    both = parts(with_more(file, translated))
    for part in HELD_OUT:
        assert both[part] == alone[part]
    held_out = {pair.source for part in HELD_OUT for pair in alone[part]}
    new = [pair for pair in both["train"] if "Nr." in pair.target]
    assert len(new) == 400 - len(held_out)
    assert not held_out & {pair.source for pair in new}


def test_a_repeated_corpus_is_repeated_in_training_alone(file):
    corpus = {"source": "en", "target": "de", "both": True, "train": [str(file)]}
    hold_out = {"validation": 40, "test": 30}

    def counted(repeat: int) -> dict[str, Counter]:
        config = DataConfig.model_validate({"corpora": [{**corpus, "repeat": repeat}], "hold_out": hold_out})
        split = Corpus(config, 1)
        return {part: Counter(one.pair for one in split.directed(part, {})) for part in PARTS}

    once, thrice = counted(1), counted(3)
    assert thrice["train"] == Counter({pair: 3 * count for pair, count in once["train"].items()})
    assert all(thrice[part] == once[part] for part in HELD_OUT)


def test_settings_for_training_pairs_leave_the_held_out_pairs_as_they_are(tmp_path):
    file = tmp_path / "pairs.tsv"
    ends = ("?\tQui est {n}?", ".\tC’est {n}.", "?\tC'est {n}.")
    file.write_text("".join(f"It is {n}{ends[n % 3].format(n=n)}\n" for n in range(300)), encoding="utf-8")
    plain = config(file, target="fr")
    strict = config(
        file,
        target="fr",
        cleaning={"drop_mismatched": True, "typeset_targets": True, "variants": 0.5},
    )
    before, after = parts(plain), parts(strict)
    for part in HELD_OUT:
        assert before[part] == after[part]
    kept = [pair for pair in before["train"] if pair.source.endswith("?") == pair.target.endswith("?")]
    assert after["train"] == kept
    assert len(kept) < len(before["train"])
    directed = [one.pair for one in Corpus(strict, 1).directed("train", {})]
    assert len(directed) > len(kept)
    targets = [pair.target for pair in directed]
    assert "’" not in "".join(targets)
    assert all(target.endswith((" ?", ".")) or target[-1].isdigit() for target in targets)
    assert [one.pair for one in Corpus(strict, 1).directed("test", {})] == before["test"]


@pytest.mark.slow
def test_the_built_in_translator_is_tested_on_the_same_sentences_as_its_first_edition():
    folder = resources.files("clearhead") / "assets/models/en-de-fr"
    recipe = read_settings(TranslationRecipe, Path("recipes/translation/en-de-fr-teacher.toml"))
    for direction, pairs in Corpus(recipe.data, recipe.training.seed).by_direction("test").items():
        lines = "".join(f"{source}\t{target}\n" for source, target in pairs)
        assert lines == (folder / f"test.{direction}.tsv").read_text(encoding="utf-8")


def test_a_tokenizer_with_bytes_has_placeholders(file, recipe):
    corpus = Corpus(recipe.data, 1)
    assert learn_tokenizer(corpus, recipe).placeholder_ids == ()
    larger = recipe.model_copy(update={"tokenizer": TokenizerConfig(vocabulary=600)})
    tokenizer = learn_tokenizer(corpus, larger)
    assert tokenizer.special_tokens[4:] == PLACEHOLDERS
    assert tokenizer.placeholder_ids == tuple(range(4, 12))


def test_an_unknown_header_of_one_of_several_corpora_names_the_setting_in_its_table(tmp_path):
    rows = "".join(f"{n},A man sees {n} dogs.,Ein Mann sieht {n} Hunde.\n" for n in range(9))
    (tmp_path / "x.csv").write_text("id,caption_a,caption_b\n" + rows)
    one = {"source": "en", "target": "de", "train": [str(tmp_path / "x.csv")]}
    other = {"source": "en", "target": "fr", "train": ["tatoeba-en-fr"]}
    with pytest.raises(DataError) as caught:
        list(Corpus(DataConfig.model_validate({"corpora": [one, other]}), seed=1).examples())
    assert str(caught.value).endswith('columns = ["caption_a", "caption_b"] in its [[data.corpora]]')
    named = one | {"columns": ["caption_a", "caption_b"]}
    pairs = list(Corpus(DataConfig.model_validate({"corpora": [named, other]}), seed=1).examples())
    assert len(pairs) == 9
