"""Pictures, files and summaries of explanations."""

import json

import pytest
import torch

import clearhead
from clearhead.errors import SettingsError
from clearhead.inspection import Mute, intervene
from clearhead.inspection.explanation import Token
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.inspection.pictures.context import PictureContext, Selection
from clearhead.inspection.pictures.draw import views
from clearhead.inspection.summaries import head_roles
from clearhead.tasks.language.model import LanguageModel, PromptFormat
from clearhead.text.tokenizer import BOS

TEXT = "three one four one"


@pytest.fixture(scope="module")
def model(many_model):
    return clearhead.load(many_model)


@pytest.fixture(scope="module")
def explanation(model):
    return model.explain(TEXT, to="de")


@pytest.fixture(scope="module")
def continued(babbler):
    return clearhead.load(babbler).explain("to be", tokens=3)


def test_every_view_of_both_models_can_be_drawn(explanation, continued):
    assert views(explanation) == [
        *("cross", "atlas", "head", "row", "residual", "lens", "gradient", "beam", "positions", "neighbours")
    ]
    no_source = ("cross", "gradient", "beam")
    assert views(continued) == [name for name in views(explanation) if name not in no_source]
    for one in (explanation, continued):
        for view in views(one):
            picture = one.picture(view)
            assert one.text in picture.caption or view == "positions"
            assert picture.alt


def test_the_best_aligner_links_each_word_with_its_translation(explanation):
    words = Summaries(explanation).alignment()
    assert list(words.source) == ["three", "one", "four", "one"]
    assert list(words.target) == ["3", "1", "4", "1"]
    assert set(words.links) >= {(0, 0), (2, 2)}


def test_unknown_words_are_spelled_as_in_the_text(model):
    explanation = model.explain("three 我 four 🙂", to="de", target="3 我")
    words = Summaries(explanation).alignment()
    assert list(words.source) == ["three", "我", "four", "🙂"]
    assert list(words.target) == ["3", "<unk>"]


def test_saved_numbers_are_those_of_the_trace(explanation, tmp_path):
    saved = json.loads(explanation.save(tmp_path / "x.json").read_text())
    assert [
        Token(**{name: one[name] for name in one if name != "special"}) for one in saved["sides"]["source"]
    ] == list(explanation.source)
    assert [one["special"] for one in saved["sides"]["target"]] == [one.special for one in explanation.target]
    assert saved["output"] == explanation.output == "3 1 4 1"
    assert [token["piece"] for token in saved["sides"]["source"]] == [
        token.piece for token in explanation.source
    ]
    for kind in ("encoder", "decoder", "cross"):
        for head in saved["attentions"][kind]:
            torch.testing.assert_close(
                torch.tensor(head["weights"]), explanation[head["name"]][head["head"]], atol=1e-6, rtol=0
            )
    assert saved["alignment"]["links"]


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


def test_a_text_of_special_tokens_has_no_pictures_of_words(babbler, tmp_path):
    plain = clearhead.load(babbler)
    special = LanguageModel(plain.model, plain.tokenizer, prompt_format=PromptFormat(start=(BOS,))).explain(
        ""
    )
    assert views(special) == ["atlas", "head", "row", "residual", "lens", "positions"]
    with pytest.raises(SettingsError, match="view: 'neighbours' is not one of atlas, "):
        special.save(tmp_path / "x.png", "neighbours")


@pytest.mark.gpu
def test_a_model_on_a_gpu_has_the_same_views(number_model, tmp_path):
    explanation = clearhead.load(number_model, "cuda").explain(TEXT)
    for view in views(explanation):
        explanation.save(tmp_path / f"{view}.svg", view)


def test_errors_in_saving_and_drawing_name_the_valid_choices(explanation, continued, tmp_path):
    with pytest.raises(SettingsError, match=r"x\.gif: cannot write \.gif files; use \.png, \.svg"):
        explanation.save(tmp_path / "x.gif")
    with pytest.raises(SettingsError, match=r"there is no folder .*none; create it first"):
        explanation.save(tmp_path / "none" / "x.png")
    with pytest.raises(SettingsError, match="view: 'cross' is not one of atlas, head, row"):
        continued.picture("cross")
    with pytest.raises(SettingsError, match="head: 7 is out of range; cross has heads 0 to 1"):
        explanation.picture("head", head=7)
    with pytest.raises(SettingsError, match="attention: 'left' is not one of encoder, decoder, cross"):
        explanation.picture("atlas", attention="left")
    with pytest.raises(SettingsError, match="query: 1 does not apply to the view lens; it applies to row"):
        explanation.picture("lens", query=1)
    with pytest.raises(SettingsError, match=r"head: 1 applies to pictures only; x\.json holds everything"):
        explanation.save(tmp_path / "x.json", head=1)
    with pytest.raises(SettingsError, match="query: 99 is out of range; the text has positions 0 to 4"):
        explanation.picture("row", query=99)


def test_drawing_a_missing_tensor_names_it(model):
    few = model.explain(TEXT, to="de", names=["decoder.*.cross_attention.weights"])
    assert few.picture("cross").alt
    with pytest.raises(SettingsError, match=r"decoder\.blocks\.0\.attention\.weights: was not captured"):
        few.picture("atlas", attention="decoder")


def test_roles_are_measured_once_per_layer(explanation, monkeypatch):
    measured = []
    monkeypatch.setattr(
        "clearhead.inspection.explanation_summaries.head_roles",
        lambda weights: measured.append(1) or head_roles(weights),
    )
    context = PictureContext(explanation, Selection(attention="encoder"))
    for _ in range(3):
        context.attention(0)
    assert len(measured) == len(context.summaries.paths("encoder"))


def test_a_notebook_shows_a_picture_with_alt_text(explanation):
    html = explanation._repr_html_()
    assert 'src="data:image/png;base64,' in html
    assert "Word alignment by decoder.blocks.0.cross_attention" in html


def test_the_last_row_of_the_lens_is_the_output_distribution(explanation, continued):
    for one in (explanation, continued):
        lens, logits = Summaries(one).lens(top=4), one["logits"]
        torch.testing.assert_close(lens.probabilities[-1], logits.softmax(-1).topk(4).values)
        expected = [token.log_prob for token in one.target if token.log_prob is not None]
        torch.testing.assert_close(lens.next_probabilities[-1][: len(expected)].log(), torch.tensor(expected))


def test_the_contribution_of_a_head_is_the_change_when_it_is_muted(model, explanation):
    found = list(Summaries(explanation).contributions())
    assert len(found) == 6
    for one in found:
        with intervene(model.model, {f"{one.attention}.head_output": Mute([one.head])}):
            muted = model.explain(TEXT, to="de", target=explanation.output)
        assert one.change == pytest.approx(muted.sum_log_prob - explanation.sum_log_prob, abs=1e-4)


def test_residual_contributions_add_up_to_the_stream(explanation):
    """In a pre-norm model, where nothing else changes the stream."""
    contributions = Summaries(explanation).residual_contributions("decoder")
    assert [one.kind for one in contributions] == ["attention", "cross_attention", "feedforward"]
    stream = explanation["target_embedding.stream"]
    for one in contributions:
        added = explanation[f"{one.name}.added"]
        torch.testing.assert_close(one.share, added.norm(dim=-1) / (added.norm(dim=-1) + stream.norm(dim=-1)))
        stream = stream + added
        torch.testing.assert_close(one.norm, stream.norm(dim=-1))


def test_captions_start_with_the_name_of_the_model(number_model):
    assert (
        clearhead.load(number_model)
        .explain("one two")
        .picture("cross")
        .caption.startswith(f"Model {number_model}, “one two”")
    )
