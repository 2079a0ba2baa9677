"""Small models of images: vision Transformers, and one outside the package that writes about an image."""

from typing import Any

import torch
from torch import Tensor, nn

from clearhead.data.image_processor import ImageProcessor
from clearhead.inspection.image import PatchImage, patch_image
from clearhead.layers.block import Source, Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.mask import Causal, Mask
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart
from clearhead.models.vit import ViT, ViTConfig

GRID, PATCH, WIDTH = (4, 4), 2, 16
PROCESSOR = ImageProcessor(GRID[0] * PATCH, labels=("cat", "dog", "horse"))
SMALL: dict[str, Any] = {
    "image_size": PROCESSOR.size,
    "width": WIDTH,
    "ffn_width": 24,
    "layers": 2,
    "attention": {"heads": 2},
    "patches": {"kind": "linear", "size": PATCH},
}
POOLED = {"head": {"pooling": "sequence"}, "position": "rotary"}
STEM = {"head": {"pooling": "mean"}, "patches": {"kind": "convolutional", "channels": [8]}}


def vit(**settings: Any) -> ViT:
    """A vision Transformer with random weights, by default with a class token."""
    torch.manual_seed(0)
    return ViT.build(ViTConfig.model_validate({**SMALL, **settings}), PROCESSOR).eval()


class Writer(nn.Module):
    """Writes digits about an image, with cross-attention to its patches."""

    def __init__(self):
        super().__init__()
        self.image = vit()
        config = self.image.config
        self.embedding = Embedding(10, WIDTH, "learned", config.max_positions, dropout=0.0)
        self.decoder = Stack(config, layers=2, cross=True)
        self.output = nn.Linear(WIDTH, 10)

    def anatomy(self) -> Anatomy:
        return Anatomy(
            embeddings={"image": "image.embedding", "text": "embedding"},
            stacks=(
                StackPart("image.encoder", "image", 2, ("attention", "feedforward")),
                StackPart("decoder", "text", 2, ("attention", "cross_attention", "feedforward")),
            ),
            attentions=(
                AttentionPart("image", "image.encoder", "attention", "image", "image", causal=False),
                AttentionPart("decoder", "decoder", "attention", "text", "text", causal=True),
                AttentionPart("cross", "decoder", "cross_attention", "text", "image", causal=False),
            ),
            readout="output",
        )

    def forward(self, images: Tensor, digits: Tensor) -> Tensor:
        encoded = Source([self.image.states(images)] * 2, Mask())
        return self.output(self.decoder(self.embedding(digits), Causal(), source=encoded))


def random_pixels(seed: int = 0) -> Tensor:
    """The pixels of an image: (3, height, width)."""
    size = (3, PROCESSOR.size, PROCESSOR.size)
    return torch.randint(0, 256, size, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def photo(model: ViT | None = None) -> PatchImage:
    """Random pixels with the patches of a model, by default of one with a class token."""
    return patch_image(random_pixels(), (model or vit()).config)


def model_input() -> Tensor:
    """The pixels as a batch of one image, normalised."""
    return PROCESSOR.normalize(random_pixels()[None])
