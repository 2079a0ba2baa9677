"""The captioner: a vision Transformer reads an image, the translator's decoder describes it."""

from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor

from clearhead.data.caption_processor import CaptionProcessor
from clearhead.errors import ModelError
from clearhead.layers.attention import AttentionConfig
from clearhead.layers.block import BlockConfig, Source, Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.feedforward import ActivationKind
from clearhead.layers.layout import TextLayout
from clearhead.layers.mask import Mask
from clearhead.layers.norm import NormPosition
from clearhead.layers.patches import ConvStemConfig
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart
from clearhead.models.encoder_decoder import (
    EncoderDecoderConfig,
    TargetStates,
    TargetTokens,
    TransformerDecoding,
)
from clearhead.models.heads import Classifier, ClassifierConfig
from clearhead.models.state import TranslatorState
from clearhead.models.vit import ViT, ViTConfig
from clearhead.wording import counted

Images = Float[Tensor, "batch 3 size size"]
ImageStates = Float[Tensor, "batch positions width"]


class CaptionerConfig(EncoderDecoderConfig, BlockConfig):
    """The settings of a captioner; the defaults suit some thousand images of 96 pixels.

    Those at the top are the decoder's; the encoder is a vision Transformer of the same width.
    """

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {}

    kind: Literal["captioner"] = "captioner"
    width: PositiveInt = 192
    ffn_width: PositiveInt = 768
    attention: AttentionConfig = AttentionConfig(heads=3)
    decoder_layers: PositiveInt = 2
    activation: ActivationKind = "gelu_tanh"
    norm_position: NormPosition = "pre"
    dropout: float = Field(default=0.3, ge=0, lt=1)
    max_length: PositiveInt = 40
    """The most tokens of a caption, its special token included."""
    tied: Literal["target", "none"] = "target"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Whether embedding and readout share a matrix."""
    encoder: ViTConfig = ViTConfig(
        image_size=96,
        patches=ConvStemConfig(channels=(32, 64, 128), convolutions=2),
        layers=3,
        dropout=0.1,
        head=ClassifierConfig(pooling="sequence", dropout=0.1),
    )
    """Its head predicts which words the captions have, from the image alone."""

    @property
    def summary(self) -> str:
        """The main settings in words."""
        layers = f"{self.encoder.layers} + {self.decoder_layers} layers"
        heads = counted(self.attention.heads, "head")
        return f"width {self.width}, ffn_width {self.ffn_width}, {layers}, {heads}"

    def tensor_sizes(self, vocabulary: int) -> dict[str, int]:
        return super().tensor_sizes(vocabulary) | self.encoder.tensor_sizes(vocabulary)

    @model_validator(mode="after")
    def _check_widths(self) -> "CaptionerConfig":
        if self.encoder.width != self.width:
            raise ValueError(
                f"the decoder's width is {self.width}, the encoder's {self.encoder.width}; make width and "
                "encoder.width equal"
            )
        return self


class Captioner(TransformerDecoding):
    """A vision Transformer, and a decoder with cross-attention to its patches.

    The encoder's head names the words of the captions without their order, as in Joulin et al. 2016; training
    it beside the decoder teaches the encoder what there is to see.
    """

    Config = CaptionerConfig
    Processor = CaptionProcessor  # pyright: ignore[reportAssignmentType]
    config: CaptionerConfig

    def __init__(self, config: CaptionerConfig, vocabulary: int):
        super().__init__(config)
        words = Classifier(config.encoder.head, config.width, vocabulary)
        self.encoder = ViT(config.encoder, words)
        self.target_embedding = Embedding(
            vocabulary, config.width, config.position, config.max_positions, config.dropout
        )
        self.decoder = Stack(config, config.decoder_layers, cross=True)
        self._add_readout(vocabulary)

    @classmethod
    def build(cls, config: CaptionerConfig, processor: CaptionProcessor) -> "Captioner":  # pyright: ignore[reportIncompatibleMethodOverride]
        if processor.image.size != config.encoder.image_size:
            raise ModelError(
                f"model.encoder.image_size is {config.encoder.image_size}, but {processor.FILE} makes images "
                f"of {processor.image.size} pixels; the files belong to different models"
            )
        return cls(config, processor.size)

    def anatomy(self) -> Anatomy:
        config, sublayers = self.config, ("attention", "cross_attention", "feedforward")
        return Anatomy(
            embeddings={"image": "encoder.embedding", "target": "target_embedding"},
            stacks=(
                StackPart("encoder.encoder", "image", config.encoder.layers, ("attention", "feedforward")),
                StackPart("decoder", "target", config.decoder_layers, sublayers),
            ),
            attentions=(
                AttentionPart("encoder", "encoder.encoder", "attention", "image", "image", causal=False),
                AttentionPart("decoder", "decoder", "attention", "target", "target", causal=True),
                AttentionPart("cross", "decoder", "cross_attention", "target", "image", causal=False),
            ),
        )

    def encode(self, images: Images) -> ImageStates:
        """The last hidden state of each patch."""
        return self.encoder.states(images)

    def decode(self, encoded: ImageStates, layout: TextLayout, target: TargetTokens) -> TargetStates:
        """The decoder's states of captions; those in one row describe the same image."""
        x = self.target_embedding(target, layout.positions)
        source = Source([encoded] * self.config.decoder_layers, Mask())
        return self.decoder(x, layout.mask, layout.positions, source)

    def word_logits(self, encoded: ImageStates) -> Float[Tensor, "batch vocabulary"]:
        """The logits of the words that captions of the images have, in any order."""
        return self.encoder.head(encoded)

    def states(self, source: Images, layout: TextLayout, target: TargetTokens) -> TargetStates:
        """The decoder's last hidden state of each token of captions, which start with <s>."""
        return self.decode(self.encode(source), layout, target)

    def start(self, source: Images, lengths: Tensor | None = None) -> TranslatorState:
        """The state after encoding the images; the first `step` takes <s>.

        `lengths` is not used: all images have the same number of patches.
        """
        encoded = self.encode(source)
        lengths = torch.full((len(source),), encoded.shape[1], device=source.device)
        return TranslatorState(self.decoder.project_source(encoded, Mask()), lengths)
