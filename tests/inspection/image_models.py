"""Small models over the patches of an image, defined outside the package."""

import torch
from torch import Tensor, nn

from clearhead.inspection.image import PatchImage
from clearhead.layers.block import BlockConfig, Source, Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.mask import Causal, Mask
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart

GRID, PATCH, WIDTH = (3, 4), 2, 16


class PatchConfig(BlockConfig):
    width: int = WIDTH
    ffn_width: int = 24
    norm_position: str = "pre"

    @property
    def max_positions(self) -> int:
        return 1 + GRID[0] * GRID[1]


CONFIG = PatchConfig.model_validate({"attention": {"heads": 2}})


class Patches(nn.Module):
    """Reads an image with a class token."""

    def __init__(self):
        super().__init__()
        self.project = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.class_token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.randn(1, CONFIG.max_positions, WIDTH))
        self.body = Stack(CONFIG, layers=2)
        self.head = nn.Linear(WIDTH, 3)

    def anatomy(self) -> Anatomy:
        return Anatomy(
            embeddings={},
            stacks=(StackPart("body", "image", 2, ("attention", "feedforward")),),
            attentions=(AttentionPart("encoder", "body", "attention", "image", "image", causal=False),),
            readout=None,
        )

    def states(self, images: Tensor) -> Tensor:
        x = self.project(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.body(x, Mask())

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.states(images)[:, 0])


class Writer(nn.Module):
    """Writes digits about an image, with cross-attention to its patches."""

    def __init__(self):
        super().__init__()
        self.image = Patches()
        self.embedding = Embedding(10, WIDTH, "learned", CONFIG.max_positions, dropout=0.0)
        self.decoder = Stack(CONFIG, layers=2, cross=True)
        self.output = nn.Linear(WIDTH, 10)

    def anatomy(self) -> Anatomy:
        return Anatomy(
            embeddings={"text": "embedding"},
            stacks=(
                StackPart("image.body", "image", 2, ("attention", "feedforward")),
                StackPart("decoder", "text", 2, ("attention", "cross_attention", "feedforward")),
            ),
            attentions=(
                AttentionPart("image", "image.body", "attention", "image", "image", causal=False),
                AttentionPart("decoder", "decoder", "attention", "text", "text", causal=True),
                AttentionPart("cross", "decoder", "cross_attention", "text", "image", causal=False),
            ),
            readout="output",
        )

    def forward(self, images: Tensor, digits: Tensor) -> Tensor:
        encoded = Source([self.image.states(images)] * 2, Mask())
        return self.output(self.decoder(self.embedding(digits), Causal(), source=encoded))


def photo() -> PatchImage:
    """Random pixels with a grid of patches and a class token."""
    size = (GRID[0] * PATCH, GRID[1] * PATCH, 3)
    pixels = torch.randint(0, 256, size, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return PatchImage(pixels, GRID, before=1)


def model_input(image: PatchImage) -> Tensor:
    """The pixels as a batch of one image, normalised."""
    return image.pixels.permute(2, 0, 1)[None] / 127.5 - 1
