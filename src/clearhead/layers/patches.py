"""Images to tokens: linear patches or a convolutional stem, a class token, and positions on a grid."""

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field, PositiveInt, field_validator
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.layers.embedding import stream_of
from clearhead.layers.positions import Rotary, make_position

Images = Float[Tensor, "batch channels rows columns"]
Maps = Float[Tensor, "batch _ _ _"]
Tokens = Float[Tensor, "batch positions width"]
Channels = Annotated[tuple[PositiveInt, ...], Field(strict=False)]

CHANNELS = 3
"""Red, green and blue."""
# Channels that share mean and variance in the norm of a stem (Wu and He 2018).
GROUP = 16


class LinearPatchesConfig(Settings):
    """Square patches that do not overlap, each projected by one matrix (Dosovitskiy et al. 2021)."""

    kind: Literal["linear"] = "linear"
    size: PositiveInt = 4
    """Height and width of a patch, in pixels."""

    @property
    def reduction(self) -> int:
        """Pixels of an image per patch, in each direction."""
        return self.size

    def tensor_sizes(self, width: int) -> dict[str, int]:
        """The number of values in the projection, by what it holds."""
        return {f"patches of {self.size:,} pixels": CHANNELS * self.size**2 * width}


class ConvStemConfig(Settings):
    """3x3 convolutions instead of patches (Xiao et al. 2021, Hassani et al. 2021)."""

    kind: Literal["convolutional"] = "convolutional"
    channels: Channels = (64, 128)
    """Channels of each stage. A stage ends with pooling that halves height and width."""
    convolutions: PositiveInt = 1
    """Number per stage; all but the first have a residual connection (He et al. 2016)."""

    @field_validator("channels")
    @classmethod
    def _check_channels(cls, channels: tuple[int, ...]) -> tuple[int, ...]:
        if not channels:
            raise ValueError("is empty; name the channels of at least one stage")
        return channels

    @property
    def reduction(self) -> int:
        """Pixels of an image per patch, in each direction."""
        return 2 ** len(self.channels)

    def tensor_sizes(self, width: int) -> dict[str, int]:
        """The number of values in all kernels, by what they hold."""
        pairs = pairwise((CHANNELS, *self.channels))
        kernels = sum(9 * outputs * (inputs + (self.convolutions - 1) * outputs) for inputs, outputs in pairs)
        return {f"{len(self.channels)} stages of {self.convolutions:,} convolutions": kernels}


PatchesConfig = Annotated[LinearPatchesConfig | ConvStemConfig, Field(discriminator="kind")]


class LinearPatches(nn.Conv2d):
    """The projection of patches, as a convolution whose stride is its size."""

    def __init__(self, config: LinearPatchesConfig, width: int):
        super().__init__(CHANNELS, width, config.size, stride=config.size)


class Convolution(nn.Module):
    """A 3x3 convolution with group norm (Wu and He 2018) and GELU; it keeps height and width."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        groups = outputs // GROUP if outputs % GROUP == 0 else 1
        self.norm = nn.GroupNorm(groups, outputs)

    def forward(self, x: Maps) -> Maps:
        x = self.convolution(x)
        # Autocast would leave the result of the norm in float32, twice the memory traffic.
        return F.gelu(self.norm(x).to(x.dtype))


class ConvStem(nn.Module):
    """Stages of convolutions and pooling, and a projection to the model's width."""

    def __init__(self, config: ConvStemConfig, width: int):
        super().__init__()
        self.stages = nn.ModuleList(
            nn.ModuleList(Convolution(o if n else i, o) for n in range(config.convolutions))
            for i, o in pairwise((CHANNELS, *config.channels))
        )
        self.project = nn.Linear(config.channels[-1], width)

    def forward(self, x: Maps) -> Maps:
        for first, *others in self.stages:  # pyright: ignore[reportGeneralTypeIssues]
            x = first(x)
            for convolution in others:
                x = x + convolution(x)
            x = F.max_pool2d(x, 2)
        return self.project(x.movedim(1, -1)).movedim(-1, 1)


PATCHES: dict[str, Callable[..., nn.Module]] = {"linear": LinearPatches, "convolutional": ConvStem}
"""What makes each kind of patches from (settings, width)."""


class PatchEmbedding(nn.Module):
    """The tokens of an image, row by row, after an optional class token, with positions.

    `position` is a name in POSITIONS; relative positions are the stack's own (see Rotary2d).
    """

    def __init__(
        self,
        patches: LinearPatchesConfig | ConvStemConfig,
        width: int,
        position: str,
        positions: int,
        class_token: bool,
        dropout: float,
    ):
        super().__init__()
        self.patches = PATCHES[patches.kind](patches, width)
        self.class_token = nn.Parameter(torch.randn(width) * width**-0.5) if class_token else None
        self.position = make_position(position, width, positions)
        self.patch_size, self.max_positions = patches.reduction, positions
        self.dropout = dropout

    def forward(self, images: Images) -> Tokens:
        # Channels last is what convolutions on GPUs and CPUs are fastest with, and the order of tokens.
        x = self.patches(images.contiguous(memory_format=torch.channels_last)).flatten(2).transpose(1, 2)
        if self.class_token is not None:
            first = self.class_token.to(x.dtype).expand(x.shape[0], 1, -1)
            x = torch.cat((first, x), 1)
        x = self.position(x, torch.arange(x.shape[1], device=x.device), None)
        return F.dropout(stream_of(x).contiguous(), self.dropout, self.training)


class Rotary2d(Rotary):
    """Rotary positions on a grid: half of a head turns with the row, half with the column (Heo et al. 2024).

    A class token before the grid is not turned.
    """

    def __init__(self, size: int, side: int, class_token: bool, base: float):
        super().__init__(size, 1, base)
        quarter = size // 4
        frequencies = base ** (-torch.arange(quarter, dtype=torch.float32) / quarter)
        rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        angles = torch.cat([index.flatten()[:, None] * frequencies for index in (rows, columns)], 1)
        if class_token:
            angles = torch.cat((torch.zeros(1, 2 * quarter), angles))
        self.cosines, self.sines = angles.cos(), angles.sin()
