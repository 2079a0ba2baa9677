"""An explanation is drawn and saved as what it holds, and sums up as it should."""

import json

import pytest
import torch

import clearhead
from clearhead.errors import SettingsError
from clearhead.inspection import Mute, intervene
from clearhead.inspection.explanation import Token
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.inspection.pictures.draw import Choice, Drawing, views
from clearhead.inspection.summaries import head_roles
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.load import load
from clearhead.text.tokenizer import BOS

TEXT = "three one four one"


@pytest.fixture(scope="module")
def model(many_model):
    return load(many_model)


@pytest.fixture(scope="module")
def explanation(model):
    return model.explain(TEXT, to="de")


@pytest.fixture(scope="module")
def continued(babbler):
    return load(babbler).explain("to be", tokens=3)


def test_every_view_of_both_kinds_of_model_can_be_drawn(explanation, continued):
    assert views(explanation) == [
        *("cross", "atlas", "head", "row", "residual", "lens", "beam", "positions", "neighbours")
    ]
    assert views(continued) == [name for name in views(explanation) if name not in ("cross", "beam")]
    for one in (explanation, continued):
        for view in views(one):
            picture = one.picture(view)
            assert one.text in picture.caption or view == "positions"
            assert picture.alt


def test_the_best_aligner_of_a_toy_links_each_word_with_its_own(explanation):
    words = Summaries(explanation).alignment()
    assert list(words.source) == ["three", "one", "four", "one"]
    assert list(words.target) == ["3", "1", "4", "1"]
    assert set(words.links) >= {(0, 0), (2, 2)}


def test_words_that_the_vocabulary_does_not_have_are_shown_as_the_text_has_them(model):
    explanation = model.explain("three 我 four 🙂", to="de", target="3 我")
    words = Summaries(explanation).alignment()
    assert list(words.source) == ["three", "我", "four", "🙂"]
    assert list(words.target) == ["3", "<unk>"]


def test_saved_numbers_are_those_of_the_trace(explanation, tmp_path):
    told = json.loads(explanation.save(tmp_path / "x.json").read_text())
    assert [
        Token(**{name: one[name] for name in one if name != "special"}) for one in told["source"]
    ] == list(explanation.source)
    assert [one["special"] for one in told["target"]] == [one.special for one in explanation.target]
    assert told["output"] == explanation.output == "3 1 4 1"
    assert [token["piece"] for token in told["source"]] == [token.piece for token in explanation.source]
    for kind in ("encoder", "decoder", "cross"):
        for head in told["attentions"][kind]:
            torch.testing.assert_close(
                torch.tensor(head["weights"]), explanation[head["name"]][head["head"]], atol=1e-6, rtol=0
            )
    assert told["alignment"]["links"]


def test_a_page_in_one_file_holds_the_text_and_the_model(explanation, tmp_path):
    page = explanation.save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert "clearhead-trace" in page
    assert TEXT in page
    assert f'"name": {json.dumps(explanation.name)}' in page


def test_a_folder_gets_every_picture(continued, tmp_path):
    continued.save(tmp_path / "all", view=None)
    assert {path.name for path in (tmp_path / "all").iterdir()} == {
        f"{name}.png" for name in views(continued)
    }


def test_a_text_of_signs_alone_has_every_picture_but_those_of_words(babbler, tmp_path):
    plain = load(babbler)
    signs = LanguageModel(plain.model, plain.tokenizer, lead=[BOS]).explain("")
    assert views(signs) == ["atlas", "head", "row", "residual", "lens", "positions"]
    with pytest.raises(SettingsError, match="view: 'neighbours' is not one of atlas, "):
        signs.save(tmp_path / "x.png", "neighbours")


@pytest.mark.gpu
def test_a_model_on_a_gpu_has_the_same_views(number_model, tmp_path):
    explanation = load(number_model, "cuda").explain(TEXT)
    for view in views(explanation):
        explanation.save(tmp_path / f"{view}.svg", view)


def test_what_cannot_be_saved_or_drawn_is_said_with_what_can(explanation, continued, tmp_path):
    with pytest.raises(SettingsError, match=r"x\.gif: cannot be written as \.gif; end it in \.png, \.svg"):
        explanation.save(tmp_path / "x.gif")
    with pytest.raises(SettingsError, match=r"there is no folder .*none; make it first"):
        explanation.save(tmp_path / "none" / "x.png")
    with pytest.raises(SettingsError, match="view: 'cross' is not one of atlas, head, row"):
        continued.picture("cross")
    with pytest.raises(SettingsError, match="head: 7 is not from 0 to 1, as cross has 2 of them"):
        explanation.picture("head", head=7)
    with pytest.raises(SettingsError, match="attention: 'left' is not one of encoder, decoder, cross"):
        explanation.picture("atlas", attention="left")
    with pytest.raises(SettingsError, match="query: 1 is not for the view lens; it goes with row"):
        explanation.picture("lens", query=1)
    with pytest.raises(SettingsError, match=r"head: 1 is for pictures; x\.json holds everything"):
        explanation.save(tmp_path / "x.json", head=1)
    with pytest.raises(SettingsError, match="query: 99 is not from 0 to 4"):
        explanation.picture("row", query=99)


def test_a_tensor_that_was_not_captured_is_named(model):
    few = model.explain(TEXT, to="de", names=["decoder.*.cross_attention.weights"])
    assert few.picture("cross").alt
    with pytest.raises(SettingsError, match=r"decoder\.blocks\.0\.attention\.weights: was not captured"):
        few.picture("atlas", attention="decoder")


def test_the_roles_of_a_layer_are_measured_once_for_all_layers_of_a_picture(explanation, monkeypatch):
    measured = []
    monkeypatch.setattr(
        "clearhead.inspection.explanation_summaries.head_roles",
        lambda weights: measured.append(1) or head_roles(weights),
    )
    drawing = Drawing(explanation, Choice(attention="encoder"))
    for _ in range(3):
        drawing.seen(0)
    assert len(measured) == len(drawing.summaries.paths("encoder"))


def test_a_notebook_shows_a_picture_with_words(explanation):
    shown = explanation._repr_html_()
    assert 'src="data:image/png;base64,' in shown
    assert "Word alignment by decoder.blocks.0.cross_attention" in shown


def test_the_last_row_of_the_lens_is_what_the_model_says(explanation, continued):
    for one in (explanation, continued):
        lens, logits = Summaries(one).lens(top=4), one["logits"]
        torch.testing.assert_close(lens.probabilities[-1], logits.softmax(-1).topk(4).values)
        said = [token.log_probability for token in one.target if token.log_probability is not None]
        torch.testing.assert_close(lens.wanted[-1][: len(said)].log(), torch.tensor(said))


def test_each_head_contributes_what_is_lost_when_it_is_muted(model, explanation):
    found = list(Summaries(explanation).contributions())
    assert len(found) == 6
    for one in found:
        with intervene(model.model, {f"{one.attention}.mixed": Mute([one.head])}):
            muted = model.explain(TEXT, to="de", target=explanation.output)
        assert one.change == pytest.approx(muted.log_probability - explanation.log_probability, abs=1e-4)


def test_what_a_sublayer_brought_and_the_stream_before_make_the_stream_after(explanation):
    """Of a model with its norms first, in which nothing else touches the stream."""
    brought = Summaries(explanation).brought("decoder")
    assert [one.kind for one in brought] == ["attention", "cross_attention", "feedforward"]
    stream = explanation["target_embedding.stream"]
    for one in brought:
        added = explanation[f"{one.name}.added"]
        torch.testing.assert_close(one.share, added.norm(dim=-1) / (added.norm(dim=-1) + stream.norm(dim=-1)))
        stream = stream + added
        torch.testing.assert_close(one.norm, stream.norm(dim=-1))


def test_a_model_knows_the_name_it_was_loaded_by(number_model):
    assert (
        clearhead.load(number_model)
        .explain("one two")
        .picture("cross")
        .caption.startswith(f"Model {number_model}, “one two”")
    )
