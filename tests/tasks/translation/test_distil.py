"""Translating with several teachers at once, for a student to learn from."""

import lzma
import math

import pytest
import torch
from distil import Ensemble, choose, distil, join, load_ensemble, main, overlap, plan

from clearhead.layers.layout import Padded
from clearhead.models.translator import Translator, TranslatorConfig
from clearhead.tasks.translation.search import Translation


@pytest.fixture
def teachers() -> list[Translator]:
    config = TranslatorConfig(
        width=16, ffn_width=32, encoder_layers=1, decoder_layers=1, attention={"heads": 2}, max_length=16
    )
    return [Translator(config, 20).eval() for _ in range(2)]


def test_an_ensemble_has_the_mean_of_all_probabilities(teachers):
    source, lengths = torch.randint(4, 20, (3, 5)), torch.tensor([5, 3, 4])
    target = torch.randint(4, 20, (3, 4))
    ensemble = Ensemble(teachers)
    state = ensemble.start(source, lengths)
    with torch.no_grad():
        steps = torch.stack([ensemble.step(tokens, state) for tokens in target.T], 1)
        logits = [teacher(source, Padded(lengths), target) for teacher in teachers]
    mean = sum(one.softmax(-1) for one in logits) / 2
    torch.testing.assert_close(steps, mean.log())
    assert steps.logsumexp(-1).abs().max() < 1e-5


def test_an_ensemble_reorders_the_states_of_all_models(teachers):
    source, lengths = torch.randint(4, 20, (3, 5)), torch.tensor([5, 3, 4])
    ensemble, rows = Ensemble(teachers), torch.tensor([2, 0])
    state = ensemble.start(source, lengths)
    with torch.no_grad():
        ensemble.step(torch.tensor([4, 5, 6]), state)
        state.select(rows)
        after = ensemble.step(torch.tensor([7, 8]), state)
        chosen = ensemble.start(source[rows], lengths[rows])
        ensemble.step(torch.tensor([6, 4]), chosen)
        torch.testing.assert_close(after, ensemble.step(torch.tensor([7, 8]), chosen))


def test_a_model_beside_itself_translates_as_it_does_alone(number_model):
    alone, both = load_ensemble([number_model], "cpu"), load_ensemble([number_model] * 2, "cpu")
    for one, other in zip(
        alone.translate(["one two"], beam=3), both.translate(["one two"], beam=3), strict=True
    ):
        assert one.text == other.text
        assert math.isclose(one.score, other.score, abs_tol=1e-5)


def test_where_people_translated_a_sentence_the_closest_hypothesis_is_chosen():
    texts = ("Guten Tag!", "Hallo zusammen!", "Hallo!")
    beam = tuple(Translation("Hello!", text, 0.0, complete=text != "Hallo!") for text in texts)
    found = Translation("Hello!", texts[0], 0.0, nbest=beam)
    assert choose(found, []) == "Guten Tag!"
    assert choose(found, ["Seid gegrüßt!", "Hallo ihr zusammen!"]) == "Hallo zusammen!"
    assert choose(found, ["Hallo!"]) == "Guten Tag!", "the third one was cut off"
    assert choose(Translation("Hello!", "", 0.0, nbest=beam[2:]), ["Hallo!"]) == ""
    assert overlap("a b c", "a b c") == 1
    assert overlap("a b c", "b c d") == pytest.approx(2 * 3 / 10)


def test_shares_of_the_work_give_every_sentence_once(number_model, tmp_path, monkeypatch):
    monkeypatch.setattr("distil.PART", 3)
    model = load_ensemble([number_model], "cpu")
    (direction,) = model.directions
    sources = ["one", "two", "one two", "three one", "two two one", "four three two", "one one one one"]
    (tmp_path / "parts").mkdir()
    parts = plan(sources, tmp_path / "parts", f"{direction}.2")
    assert sorted(source for _, part in parts for source in part) == sorted(sources)
    (tmp_path / "parts" / f"{direction}.2.9.3.0000.tsv").write_text("of another plan\t1\n")
    for number in (1, 2):
        for file, part in parts[number - 1 :: 2]:
            distil(model, direction, part, {}, 2, file)
    join(direction, tmp_path, ["one", "two"], [file for file, _ in parts])
    known, new = (tmp_path / f"{direction}{kind}.tsv.xz" for kind in ("", ".new"))
    text = "".join(lzma.decompress(file.read_bytes()).decode() for file in (known, new))
    found = [line.split("\t")[0] for line in text.splitlines()]
    assert found[:2] == ["one", "two"]
    assert sorted(found) == sorted(sources)


def test_without_time_all_directions_are_joined_and_named(multilingual_model, tmp_path, monkeypatch):
    command = ["distil.py", str(multilingual_model), "--out", str(tmp_path), "--minutes", "0"]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit, match=r"^(\w\w-\w\w, ){3}\w\w-\w\w: stopped after 0 minutes"):
        main()
    assert len(list(tmp_path.glob("*.new.tsv.xz"))) == 4
