"""The vision Transformer: an encoder whose tokens are patches of an image (Dosovitskiy et al. 2021)."""

from typing import Any, ClassVar, Literal

from jaxtyping import Float
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from clearhead.data.image_processor import ImageProcessor
from clearhead.errors import ModelError
from clearhead.layers.attention import AttentionConfig
from clearhead.layers.block import BlockConfig, Init, Stack
from clearhead.layers.feedforward import ActivationKind
from clearhead.layers.mask import Mask
from clearhead.layers.norm import NormPosition
from clearhead.layers.patches import LinearPatchesConfig, PatchEmbedding, PatchesConfig, Rotary2d
from clearhead.layers.positions import PositionKind
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart
from clearhead.models.heads import ClassifierConfig, StatesHead, make_head

Images = Float[Tensor, "batch 3 size size"]
States = Float[Tensor, "batch positions width"]


class ViTConfig(BlockConfig):
    """The settings of a vision Transformer; the defaults suit some ten thousand images of 32 pixels."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {}

    kind: Literal["vit"] = "vit"
    image_size: PositiveInt = 32
    """Height and width of the images, in pixels."""
    patches: PatchesConfig = LinearPatchesConfig()
    layers: PositiveInt = 6
    width: PositiveInt = 192
    ffn_width: PositiveInt = 768
    attention: AttentionConfig = AttentionConfig(heads=3)
    position: PositionKind = "learned"
    """rotary turns half of each head with the row, the other half with the column."""
    rotary_base: float = Field(default=100.0, gt=1)
    activation: ActivationKind = "gelu_tanh"
    norm_position: NormPosition = "pre"
    init: Init = "xavier"
    dropout: float = Field(default=0.0, ge=0, lt=1)
    head: ClassifierConfig = ClassifierConfig(pooling="first", dropout=0.0)
    """Where its pooling is first, a class token comes before the patches."""

    @property
    def side(self) -> int:
        """Patches in a row, and rows of patches."""
        return self.image_size // self.patches.reduction

    @property
    def class_tokens(self) -> int:
        """1 if a class token comes before the patches, else 0."""
        return int(self.head.pooling == "first")

    @property
    def max_positions(self) -> int:
        return self.class_tokens + self.side**2

    def tensor_sizes(self, vocabulary: int) -> dict[str, int]:
        # There is no vocabulary: what a processor calls its size is that of images.
        return super().tensor_sizes(0) | self.patches.tensor_sizes(self.width)

    @model_validator(mode="after")
    def _check_grid(self) -> "ViTConfig":
        if self.image_size % self.patches.reduction:
            raise ValueError(
                f"image_size {self.image_size} is not divisible by {self.patches.reduction}, "
                "the pixels that a patch is wide"
            )
        if self.position == "rotary" and self.head_size % 4:
            raise ValueError(
                f"rotary positions on a grid need a head size that 4 divides, not {self.head_size}"
            )
        if self.position == "alibi":
            raise ValueError(
                "position 'alibi' needs a line of tokens; use 'learned', 'rotary' or 'sinusoidal'"
            )
        return self


class ViT(nn.Module):
    """Patches with positions, a stack in which all attend to all, and a head."""

    Config = ViTConfig
    Processor = ImageProcessor

    def __init__(self, config: ViTConfig, head: nn.Module | None = None):
        super().__init__()
        self.config = config
        class_token = bool(config.class_tokens)
        self.embedding = PatchEmbedding(
            config.patches, config.width, config.position, config.max_positions, class_token, config.dropout
        )
        relative = None
        if config.position == "rotary":
            relative = Rotary2d(config.head_size, config.side, class_token, config.rotary_base)
        self.encoder = Stack(config, config.layers, relative=relative)
        self.head = head or StatesHead()

    @classmethod
    def build(cls, config: ViTConfig, processor: ImageProcessor) -> "ViT":
        if processor.size != config.image_size:
            raise ModelError(
                f"model.image_size is {config.image_size}, but {processor.FILE} makes images of "
                f"{processor.size} pixels; the files belong to different models"
            )
        model = cls(config)
        model.head = make_head(config.head, config.width, processor, model)
        return model

    def anatomy(self) -> Anatomy:
        return Anatomy(
            embeddings={"image": "embedding"},
            stacks=(StackPart("encoder", "image", self.config.layers, ("attention", "feedforward")),),
            attentions=(AttentionPart("encoder", "encoder", "attention", "image", "image", causal=False),),
            readout=None,
        )

    def states(self, images: Images) -> States:
        """The last hidden state of the class token, if there is one, and of each patch, row by row."""
        return self.encoder(self.embedding(images), Mask())

    def forward(self, images: Images) -> Tensor:
        """What the head reads out of images."""
        return self.head(self.states(images))
