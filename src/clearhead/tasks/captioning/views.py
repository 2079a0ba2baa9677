"""Random views of images, made on their device: crops, mirror images, other light, and hidden squares."""

from math import log

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from clearhead.tasks.captioning.recipe import ViewsConfig

Pixels = UInt8[Tensor, "batch 3 size size"]
Views = Float[Tensor, "batch 3 size size"]
# The most that a crop is wider than high, or higher than wide (Szegedy et al. 2015).
ASPECT = 4 / 3
LUMINANCE = (0.299, 0.587, 0.114)
MAX = 255.0


def random_views(pixels: Pixels, config: ViewsConfig) -> Views:
    """A view of each image, with values from 0 to 255."""
    images = pixels.float()
    if config.crop < 1 or config.flip:
        images = cropped(images, config.crop, config.flip)
    if config.colour:
        images = recoloured(images, config.colour)
    return hidden_squares(images, config.hide) if config.hide else images


def cropped(images: Views, least: float, flip: bool) -> Views:
    """A crop of each image, scaled to the whole size; half of them mirrored if they may be (`flip`).

    A crop has at least the share `least` of the image's area.
    """
    count, side = len(images), images.shape[-1]
    area, aspect, mirrored, x, y = _uniform(images, 5, count)
    share = (least + (1 - least) * area).sqrt()
    stretch = ((2 * aspect - 1) * 0.5 * log(ASPECT)).exp()
    wide, high = (share * stretch).clamp(max=1), (share / stretch).clamp(max=1)
    # From -1 to 1 across the image, as grid_sample counts.
    line = (torch.arange(side, device=images.device) * 2 + 1) / side - 1
    sign = torch.where(mirrored < 0.5, -1.0, 1.0) if flip else torch.ones_like(wide)
    across = (sign * wide)[:, None] * line + ((2 * x - 1) * (1 - wide))[:, None]
    down = high[:, None] * line + ((2 * y - 1) * (1 - high))[:, None]
    grid = torch.stack(torch.broadcast_tensors(across[:, None, :], down[:, :, None]), -1)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def recoloured(images: Views, most: float) -> Views:
    """Brightness, contrast and saturation multiplied by up to 1 ± `most`."""
    brightness, contrast, saturation = (1 + most * (2 * _uniform(images, 3, len(images)) - 1))[
        ..., None, None
    ]
    red, green, blue = images.unbind(1)
    grey = LUMINANCE[0] * red + LUMINANCE[1] * green + LUMINANCE[2] * blue
    mean = grey.mean((1, 2), keepdim=True)
    channels = [
        (mean + contrast * (grey + saturation * (one - grey) - mean)) * brightness
        for one in (red, green, blue)
    ]
    return torch.stack(channels, 1).clamp(0, MAX)


def hidden_squares(images: Views, most: float) -> Views:
    """A grey square over each image, up to the share `most` of its side (DeVries and Taylor 2017)."""
    side = torch.arange(images.shape[-1], device=images.device) / images.shape[-1]
    size, x, y = _uniform(images, 3, len(images))[..., None]
    across, down = ((side - at).abs() < size * most / 2 for at in (x, y))
    return images.masked_fill((across[:, None, None, :] & down[:, None, :, None]), MAX / 2)


def _uniform(images: Views, *shape: int) -> Tensor:
    return torch.rand(shape, device=images.device)
