"""Captioners are trained, resumed, saved, loaded, used, explained and evaluated."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import ValidationError

import clearhead
from clearhead.checkpoint import WEIGHTS
from clearhead.errors import DataError, SettingsError, TextError, TrainingError
from clearhead.inspection.pictures.draw import views
from clearhead.tasks.captioning.data import CaptionRows, Corpus, word_weights
from clearhead.tasks.events import Note
from clearhead.tasks.run import resume, train
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

from ..conftest import finish, interrupted_at, metrics
from .conftest import COLOURS, SIDES, picture, recipe, write_captions, write_images


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def image(colour: str = "red", side: str = "left") -> np.ndarray:
    return picture(colour, side, np.random.default_rng(7))


def test_a_trained_captioner_says_what_it_sees(trained: Path):
    model = clearhead.load(trained)
    shown = [(colour, side) for colour in COLOURS for side in SIDES]
    found = model.caption([image(*one) for one in shown])
    right = [
        colour in str(one) and side in str(one) for (colour, side), one in zip(shown, found, strict=True)
    ]
    assert sum(right) >= 7, [*zip(shown, map(str, found), strict=True)]
    assert all(one.complete and one.score < 0 for one in found)
    assert model.caption(image()) == model.caption([image()])[0]
    assert model.caption([]) == []


def test_a_beam_gives_several_captions_best_first(trained: Path):
    found = clearhead.load(trained).caption(image(), beam=4, nbest=3)
    scores = [one.score for one in found.nbest]
    assert len({one.text for one in found.nbest}) == 3
    assert scores == sorted(scores, reverse=True)
    assert found.text == found.nbest[0].text
    with pytest.raises(SettingsError, match="nbest: 5 should be from 1 to the beam, 2"):
        clearhead.load(trained).caption(image(), beam=2, nbest=5)


@pytest.mark.accel
@pytest.mark.parametrize("beam", [1, 3])
def test_captions_are_decoded_by_a_copy_and_are_those_of_the_model(trained: Path, photos: Path, beam: int):
    captioner = clearhead.load(trained)
    images = sorted(photos.glob("test/*.png"))
    assert captioner.engine is not captioner.model
    # Steps are traced after many of them.
    fast = [captioner.caption(images, beam=beam) for _ in range(4)][-1]
    captioner.model.tap = lambda name, value: value
    assert captioner.engine is captioner.model
    plain = captioner.caption(images, beam=beam)
    assert list(map(str, fast)) == list(map(str, plain))
    assert [one.score for one in fast] == pytest.approx([one.score for one in plain], abs=1e-4)


def test_evaluation_falls_with_shuffled_images(trained: Path, photos: Path):
    model = clearhead.load(trained)
    record = model.evaluate(trained, data=str(photos / "test" / "test.tsv")).record
    assert record["images"] == 40
    assert record["bleu_4"] > record["shuffled_bleu_4"] + 10
    assert record["bleu_4"] > record["constant"]["bleu_4"] + 10
    assert record["cider_d"] > 2
    assert 0 < record["person_bleu_4"] < 100
    assert record["words"]["references"] == pytest.approx((5 + 6 + 9) / 3)
    (photos / "elsewhere").mkdir(exist_ok=True)
    write_captions(photos / "elsewhere" / "some.tsv", [("0-3.png", "a red wall"), ("0-4.png", "a blue wall")])
    images_of_the_recipe = model.evaluate(trained, data=str(photos / "elsewhere" / "some.tsv"))
    assert images_of_the_recipe.record["images"] == 2
    held_out = model.evaluate(trained)
    assert held_out.record["images"] == 16
    assert any("shuffled images" in line for line in held_out.lines)


def test_captions_in_the_wrong_order_teach_nothing_about_images(photos: Path, tmp_path: Path):
    rows = [line.split("\t") for line in (photos / "captions.tsv").read_text().splitlines()]
    names = sorted({name for name, _ in rows})
    other = dict(zip(names, np.random.default_rng(0).permutation(names).tolist(), strict=True))
    mixed = write_captions(tmp_path / "mixed.tsv", [(other[name], text) for name, text in rows])
    data = {"captions": [str(mixed)], "images": str(photos)}
    finish(train(recipe(photos, data=data), tmp_path / "r"))
    record = (
        clearhead.load(tmp_path / "r").evaluate(tmp_path / "r", data=str(photos / "test/test.tsv")).record
    )
    assert abs(record["bleu_4"] - record["shuffled_bleu_4"]) < 8
    assert record["bleu_4"] < record["constant"]["bleu_4"] + 8


def test_a_resumed_run_ends_with_the_same_bits(photos: Path, tmp_path: Path):
    short = {"training": {"steps": 12, "validate_every": 6, "save_every": 6}, "validation": {"images": 4}}
    changes = {**short, "augmentation": {"rand_augment": {"operations": 1}, "erase": 0.5}}
    assert not finish(train(recipe(photos, **changes), tmp_path / "whole")).interrupted
    assert interrupted_at({5}, train(recipe(photos, **changes), tmp_path / "parts")).interrupted
    finish(resume(tmp_path / "parts"))
    assert digest(tmp_path / "parts") == digest(tmp_path / "whole")
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")


@pytest.mark.gpu
def test_a_captioner_learns_on_a_gpu_by_recorded_passes(photos: Path, tmp_path: Path):
    on_gpu = {"device": "cuda", "precision": "bf16", "compile": "on"}
    finish(train(recipe(photos, training=on_gpu), tmp_path / "r"))
    assert metrics(tmp_path / "r")[-1]["bleu"] > 30


def test_changed_captions_are_noticed_on_resume(photos: Path, tmp_path: Path):
    rows = write_images(tmp_path / "own", 30)
    write_captions(tmp_path / "own" / "captions.tsv", rows)
    changes = {"training": {"steps": 8, "validate_every": 4, "save_every": 4}, "validation": {"images": 2}}
    interrupted_at({3}, train(recipe(tmp_path / "own", **changes), tmp_path / "r"))
    # A picture of another run, say, in the same folder changes nothing.
    (tmp_path / "own" / "curves.png").write_bytes((tmp_path / "own" / "0-0.png").read_bytes())
    interrupted_at({5}, resume(tmp_path / "r"))
    write_captions(tmp_path / "own" / "captions.tsv", rows[:-1])
    with pytest.raises(TrainingError, match="data: the files have changed"):
        finish(resume(tmp_path / "r"))


def test_an_explanation_shows_where_each_word_looks(trained: Path, tmp_path: Path):
    model = clearhead.load(trained)
    path = tmp_path / "red.png"
    Image.fromarray(image()).save(path)
    found = model.explain(str(path))
    assert found.text == str(path)
    assert found.output == str(model.caption(str(path)))
    assert found.difference < 1e-4
    weights = found["decoder.blocks.0.cross_attention.weights"]
    assert weights.shape == (2, len(found.target), 16)
    assert found.images["image"].grid == (4, 4)
    assert torch.equal(found.images["image"].pixels, torch.from_numpy(image()))
    assert "regions" in views(found)
    assert found.tree is not None
    drawn = found.picture("regions")
    assert "red" in drawn.alt
    drawn.save(tmp_path / "regions.png")
    given = model.explain(image(), target="a green wall")
    assert given.output == "a green wall"
    assert given.sum_log_prob < found.sum_log_prob
    with pytest.raises(TextError, match="target: is blank"):
        model.explain(image(), target=" ")


def test_the_encoder_names_the_words_of_an_image(trained: Path):
    model = clearhead.load(trained)
    right = sum(
        max(COLOURS, key=lambda other: model.words(image(colour, side), 60)[other]) == colour
        for colour in COLOURS
        for side in SIDES
    )
    assert right >= 7


def test_the_card_and_the_metrics_report_bleu(trained: Path):
    card = (trained / "README.md").read_text()
    assert "Held out from training: 16 images." in card
    assert "BLEU" in card
    final = metrics(trained)[-1]
    assert final["bleu"] > 30


def test_captions_without_images_and_the_reverse_are_left_out_and_counted(tmp_path: Path):
    rows = write_images(tmp_path, 30)
    (tmp_path / "alone.png").write_bytes((tmp_path / "0-0.png").read_bytes())
    (tmp_path / "broken.png").write_text("this is no image")
    more = [("gone.png", "a dog"), ("broken.png", "a cat"), ("0-1.png", " . ")]
    long = [("0-2.png", "very " * 50)]
    write_captions(tmp_path / "captions.tsv", [*rows, *more, *long])
    changes = {"training": {"steps": 2, "validate_every": 2}, "validation": {"images": 2}}
    notes = [one.text for one in train(recipe(tmp_path, **changes), tmp_path / "r") if isinstance(one, Note)]
    [note] = [text for text in notes if "left out" in text]
    for part in (
        "captioned images that are not there: 1 (gone.png)",
        "images without a caption: 1,",
        "damaged images: 1 (broken.png)",
        "captions without words: 1,",
        "captions with too many tokens: 1",
    ):
        assert part in note
    assert "images to train on: 27 with" in note


def test_a_folder_without_the_images_is_named(tmp_path: Path):
    rows = write_images(tmp_path / "elsewhere", 3)
    write_captions(tmp_path / "captions.tsv", rows)
    (tmp_path / "elsewhere").rename(tmp_path / ".hidden")
    with pytest.raises(
        DataError, match=r"none of its 3 images, such as 0-0\.png, .* --set data\.images=FOLDER"
    ):
        Corpus.read(recipe(tmp_path).data, 1)


def test_lists_of_names_make_the_parts(photos: Path, tmp_path: Path):
    def listed(part: str, names: list[str]) -> str:
        (tmp_path / part).write_text("\n".join(names) + "\n")
        return str(tmp_path / part)

    parts = {
        "train": listed("train", ["0-0.png", "0-1.png"]),
        "validation": listed("validation", ["0-2.png", "missing.png"]),
        "test": listed("test", ["0-3.png"]),
    }
    corpus = Corpus.read(recipe(photos, data=parts).data, 1)
    assert [list(part.captions) for part in (corpus.train, corpus.validation, corpus.test)] == [
        ["0-0.png", "0-1.png"],
        ["0-2.png"],
        ["0-3.png"],
    ]
    with pytest.raises(DataError, match=r"0-0\.png is also an image of another part"):
        Corpus.read(recipe(photos, data={**parts, "test": parts["train"]}).data, 1)
    with pytest.raises(DataError, match=r"none of its 1 names, such as x\.png, is an image with a caption"):
        Corpus.read(recipe(photos, data={**parts, "test": listed("other", ["x.png"])}).data, 1)


def test_captions_fill_rows_and_an_image_with_many_gets_several(photos: Path):
    captions = [[[5, 6, 7], [8, 9]], [[5] * 6, [6] * 6], [[7] * 20]]
    rows = CaptionRows(captions, max_tokens=9, row_length=8)
    assert rows.images.tolist() == [0, 1, 1]
    assert rows.too_long == 1
    inputs, labels, documents, positions = rows.cells
    assert inputs[0].tolist() == [2, 5, 6, 7, 2, 8, 9, 0]
    assert labels[0].tolist() == [5, 6, 7, 3, 8, 9, 3, -1]
    assert documents[0].tolist() == [1, 1, 1, 1, 2, 2, 2, 0]
    assert positions[0].tolist() == [0, 1, 2, 3, 0, 1, 2, 0]


def test_rare_words_say_more_about_an_image_than_common_ones():
    texts = ["a red dog", "a green dog", "a blue cat", "a white hat"]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(kind="word", vocabulary=30))
    rows = CaptionRows([[tokenizer.encode(text)] for text in texts], 9, 10)
    weights = word_weights(rows, tokenizer)

    def weight(word: str) -> float:
        return float(weights[tokenizer.id(word) or 0])

    assert weight("a") == 0
    assert 0 < weight("dog") < weight("red") == weight("hat")
    assert weights[:4].sum() == 0
    labels = torch.from_numpy(rows.cells[1]).long()
    assert float(weights[labels[labels > 3]].mean()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batches": {"row_length": 8}}, r"row_length 8 is below model\.max_length 16"),
        ({"augmentation": {"mixup": 0.5}}, "a caption describes one image"),
        ({"validation": {"images": 0}}, r"training\.monitor is 'bleu', but validation\.images is 0"),
        ({"data": {"captions": []}}, "is empty; name a file"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(photos: Path, changes: dict, message: str):
    with pytest.raises(ValidationError, match=message):
        recipe(photos, **changes)
