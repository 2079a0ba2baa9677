"""The captioner: fused = explicit, cached steps = a full pass, captions of one row = each alone."""

import pytest
import torch
from pydantic import ValidationError

from clearhead.checkpoint import check_sizes
from clearhead.data.caption_processor import CaptionProcessor
from clearhead.data.image_processor import ImageProcessor
from clearhead.decoding import Constraints, beam_search
from clearhead.errors import ModelError
from clearhead.inspection import capture
from clearhead.layers.layout import Documents, Plain
from clearhead.models import Captioner, CaptionerConfig, build
from clearhead.text.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig

VOCABULARY = 20
ENCODER = {
    "image_size": 16,
    "patches": {"kind": "convolutional", "channels": (8, 16)},
    "layers": 1,
    "width": 16,
    "ffn_width": 32,
    "attention": {"heads": 2},
    "head": {"pooling": "sequence"},
}
SMALL = {"width": 16, "ffn_width": 32, "attention": {"heads": 2}, "max_length": 12, "encoder": ENCODER}
VARIANTS = {
    "stem": {},
    "rotary": {"position": "rotary", "encoder": {**ENCODER, "position": "rotary"}},
    "class token": {
        "tied": "none",
        "encoder": {**ENCODER, "patches": {"kind": "linear"}, "head": {"pooling": "first"}},
    },
}


def captioner(**settings) -> Captioner:
    torch.manual_seed(0)
    return Captioner(CaptionerConfig.model_validate({**SMALL, **settings}), VOCABULARY).eval()


@pytest.fixture
def images() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(3, 3, 16, 16)


@pytest.fixture
def target() -> torch.Tensor:
    torch.manual_seed(2)
    tokens = torch.randint(4, VOCABULARY, (3, 7))
    tokens[:, 0] = BOS
    return tokens


@pytest.mark.parametrize("name", VARIANTS)
def test_fused_equals_explicit(name: str, images, target):
    model = captioner(**VARIANTS[name])
    fused = model(images, Plain(), target)
    with capture(model) as trace:
        explicit = model(images, Plain(), target)
    torch.testing.assert_close(fused, explicit)
    weights = trace["decoder.blocks.1.cross_attention.weights"]
    assert weights.shape == (3, 2, 7, model.config.encoder.max_positions)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 7))
    assert "encoder.encoder.blocks.0.attention.weights" in trace


@pytest.mark.parametrize("name", VARIANTS)
def test_cached_steps_equal_one_full_pass(name: str, images, target):
    model = captioner(**VARIANTS[name])
    full = model(images, Plain(), target)
    state = model.start(images)
    steps = torch.stack([model.step(tokens, state) for tokens in target.unbind(1)], 1)
    torch.testing.assert_close(steps, full)


def test_captions_in_one_row_equal_each_alone(images, target):
    model = captioner()
    row = torch.cat([target[0, :5], target[1, :4], target[2, :3]])[None]
    documents = torch.tensor([[1] * 5 + [2] * 4 + [3] * 3])
    positions = torch.tensor([[*range(5), *range(4), *range(3)]])
    batched = model(images[:1], Documents(documents, positions), row)[0]
    alone = [model(images[:1], Plain(), target[i : i + 1, :n])[0] for i, n in enumerate((5, 4, 3))]
    torch.testing.assert_close(batched, torch.cat(alone))


def test_the_beam_finds_for_each_image_what_it_finds_for_it_alone(images):
    model = captioner()

    def search(batch: torch.Tensor) -> list:
        start = torch.full((len(batch),), BOS)
        with torch.inference_mode():
            return beam_search(model.step, model.start(batch), Constraints(start, EOS, 8), beam=3, nbest=3)

    batched = search(images)
    for row, several in enumerate(batched):
        (alone,) = search(images[row : row + 1])
        assert [one.tokens for one in several] == [one.tokens for one in alone]


def test_the_caption_depends_on_the_image(images, target):
    model = captioner()
    one, other = model(images[:1], Plain(), target[:1]), model(images[1:2], Plain(), target[:1])
    assert (one - other).abs().max() > 1e-3


def test_words_are_predicted_from_the_image_alone(images):
    model = captioner()
    assert model.word_logits(model.encode(images)).shape == (3, VOCABULARY)


def test_widths_of_encoder_and_decoder_must_agree():
    with pytest.raises(ValidationError, match="the decoder's width is 32, the encoder's 16; make width"):
        CaptionerConfig.model_validate({**SMALL, "width": 32})


def test_an_encoder_far_beyond_the_weights_is_refused_before_it_is_built():
    config = CaptionerConfig.model_validate({**SMALL, "encoder": {**ENCODER, "layers": 9_000_000_000}})
    with pytest.raises(ModelError, match="describes 9,000,000,000 layers, but the weights are"):
        check_sizes(config, None, [(16, 16)], "config.toml")


def test_images_of_another_size_than_the_model_takes_are_refused():
    tokenizer = Tokenizer.train(["a dog"], TokenizerConfig(kind="word", vocabulary=8))
    config = CaptionerConfig.model_validate(SMALL)
    with pytest.raises(ModelError, match=r"image_size is 16, but processor\.json makes images of 32 pixels"):
        build(config, CaptionProcessor(ImageProcessor(32), tokenizer))


def test_the_processor_survives_saving(tmp_path):
    tokenizer = Tokenizer.train(["a dog runs"], TokenizerConfig(kind="word", vocabulary=8))
    made = CaptionProcessor(ImageProcessor(32, fit="squash"), tokenizer)
    made.save(tmp_path / "processor.json")
    loaded = CaptionProcessor.load(tmp_path / "processor.json")
    assert loaded.fingerprint == made.fingerprint
    assert loaded.image == made.image
    (tmp_path / "processor.json").write_text('{"image": {"size": 3}, "tokenizer": {}}')
    with pytest.raises(ModelError, match=r"processor\.json"):
        CaptionProcessor.load(tmp_path / "processor.json")
