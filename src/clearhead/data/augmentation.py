"""Random changes of images in training: batched, on their device, and the same for every saved generator.

Pixels are from 0 to 255. All random numbers come from torch's generator of the device, which a run saves.
"""

import math
from typing import Annotated, Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from torch import Tensor

from clearhead.config import Settings

Pixels = Float[Tensor, "batch 3 height width"]
Targets = Float[Tensor, "batch classes"]
Numbers = Float[Tensor, " batch"]
Probability = Annotated[float, Field(ge=0, le=1)]

GREY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in grey (ITU-R 601)."""
FILL = 128.0
"""What comes into view when an image is moved, and what erasing leaves."""
LEVELS = 256
MAX_MAGNITUDE = 30
# The strongest change of each operation, at MAX_MAGNITUDE.
MAX_SHEAR, MAX_SHIFT, MAX_DEGREES, MAX_BLEND, MAX_BITS = 0.3, 150 / 331, 30.0, 0.9, 4
# The largest ratio of a crop's sides, before it is scaled.
MAX_ASPECT = 4 / 3
# The least and the most of an image's area that is erased.
MIN_ERASED, MAX_ERASED = 0.02, 0.33
OPERATIONS = (
    *("identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate"),
    *("brightness", "colour", "contrast", "sharpness"),
    *("posterize", "solarize", "autocontrast", "equalize"),
)
"""Those of RandAugment, in the order of their numbers."""
NUMBERS = {name: number for number, name in enumerate(OPERATIONS)}


class RandAugmentConfig(Settings):
    """Random operations of one strength, one after the other, for each image (Cubuk et al. 2020)."""

    operations: PositiveInt = 2
    magnitude: Annotated[float, Field(ge=0, le=MAX_MAGNITUDE)] = 9.0
    """From 0, which changes little, to 30."""


class AugmentationConfig(Settings):
    """What is changed in the images of a training step; the defaults are crops and flips."""

    crop: NonNegativeInt = 4
    """Maximum shift in pixels, vertically and horizontally; edges are mirrored."""
    zoom: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Smallest share of the area that a random crop keeps, scaled to full size (Szegedy et al. 2015)."""
    flip: Probability = 0.5
    """Probability that left and right are swapped; 0 for digits and letters."""
    rand_augment: RandAugmentConfig | None = None
    erase: Probability = 0.0
    """Probability that a rectangle of an image becomes grey (Zhong et al. 2020)."""
    mixup: Probability = 0.0
    """Probability that an image is blended with another one, and its label too (Zhang et al. 2018)."""
    cutmix: Probability = 0.0
    """Probability that a rectangle comes from another image, and that share of the label too (Yun et al.
    2019). An image is changed by one of mixup and cutmix, so both add up to at most 1."""

    @model_validator(mode="after")
    def _check_mixing(self) -> Self:
        if self.mixup + self.cutmix > 1:
            raise ValueError(f"mixup {self.mixup} and cutmix {self.cutmix} add up to more than 1; lower one")
        return self


@torch.no_grad()
def augment(
    pixels: UInt8[Tensor, "batch 3 height width"],
    classes: Int[Tensor, " batch"],
    count: int,
    config: AugmentationConfig,
) -> tuple[Pixels, Targets]:
    """Images after all changes of the settings, and the probability of each of `count` classes."""
    images = augment_images(pixels, config)
    targets = (classes[:, None] == torch.arange(count, device=pixels.device)).float()
    if config.mixup or config.cutmix:
        images, targets = mix(images, targets, config.mixup, config.cutmix)
    return images, targets


@torch.no_grad()
def augment_images(pixels: UInt8[Tensor, "batch 3 height width"], config: AugmentationConfig) -> Pixels:
    """Images after the changes of the settings that need no other image."""
    batch, device = len(pixels), pixels.device
    # Coordinates of pixels do not survive bf16.
    with torch.autocast(device.type, enabled=False):
        top, left = torch.randint(-config.crop, config.crop + 1, (2, batch), device=device)
        images = crop_and_flip(pixels, top, left, torch.rand(batch, device=device) < config.flip).float()
        if config.zoom < 1:
            images = resized_crops(images, config.zoom)
        if config.rand_augment:
            images = rand_augment(images, config.rand_augment)
        if config.erase:
            inside = random_boxes(images, erased_shares(images)) & chosen(images, config.erase)
            images = torch.where(inside, FILL, images)
    return images


def crop_and_flip(
    pixels: Tensor,
    top: Int[Tensor, " batch"],
    left: Int[Tensor, " batch"],
    flipped: Bool[Tensor, " batch"],
) -> Tensor:
    """Images that start `top` and `left` pixels further on, mirrored at the edges, then flipped or not."""
    batch, _, height, width = pixels.shape
    rows, columns = (
        _mirrored(torch.arange(size, device=pixels.device) + start[:, None], size)
        for size, start in ((height, top), (width, left))
    )
    columns = torch.where(flipped[:, None], columns.flip(1), columns)
    images = torch.arange(batch, device=pixels.device)[:, None, None]
    return pixels[images, :, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)


def resized_crops(images: Pixels, least: float) -> Pixels:
    """Crops with random shares of the area, `least` or more, and random proportions, at the whole size."""
    height, width = images.shape[2:]
    share, aspect, across, down = torch.rand(4, len(images), 1, device=images.device)
    size = (least + (1 - least) * share).sqrt()
    aspect = (math.log(MAX_ASPECT) * (aspect - 0.5)).exp()
    # From -1 to 1 over the whole image, as grid_sample counts.
    x, y = ((torch.arange(n, device=images.device) * 2 + 1) / n - 1 for n in (width, height))
    wide, high = (size * aspect).clamp(max=1), (size / aspect).clamp(max=1)
    columns = wide * x + (2 * across - 1) * (1 - wide)
    rows = high * y + (2 * down - 1) * (1 - high)
    grid = torch.stack(torch.broadcast_tensors(columns[:, None, :], rows[:, :, None]), -1)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def rand_augment(images: Pixels, config: RandAugmentConfig) -> Pixels:
    """Each image after several random operations, each in a random direction where it has one."""
    batch, device = len(images), images.device
    for _ in range(config.operations):
        operation = torch.randint(len(OPERATIONS), (batch,), device=device)
        direction = 1 - 2 * torch.randint(2, (batch,), device=device)
        images = apply(images, operation, direction * (config.magnitude / MAX_MAGNITUDE))
    return images


def apply(images: Pixels, operation: Int[Tensor, " batch"], strength: Numbers) -> Pixels:
    """Each image after its own operation, a number in OPERATIONS, with a strength from -1 to 1.

    Every operation is computed for all images, so that shapes never depend on random numbers.
    """

    def where(first: str, last: str, changed: Tensor, otherwise: Tensor) -> Tensor:
        some = (operation >= NUMBERS[first]) & (operation <= NUMBERS[last])
        return torch.where(some[:, None, None, None], changed, otherwise)

    def only(name: str, value: Tensor | float) -> Numbers:
        """The strength times a value where the operation has that name, else 0."""
        return torch.where(operation == NUMBERS[name], strength * value, 0.0)

    height, width = images.shape[2:]
    moved = affine(
        images,
        angle=only("rotate", math.radians(MAX_DEGREES)),
        shear=(only("shear_x", MAX_SHEAR), only("shear_y", MAX_SHEAR)),
        shift=(only("translate_x", MAX_SHIFT * width), only("translate_y", MAX_SHIFT * height)),
    )
    plain = grey(images)
    dull = torch.zeros_like(images)
    dull = where("colour", "colour", plain, dull)
    dull = where("contrast", "contrast", plain.mean((2, 3), keepdim=True).round(), dull)
    dull = where("sharpness", "sharpness", smooth(images), dull)
    factor = (1 + strength * MAX_BLEND)[:, None, None, None]
    changed = where("shear_x", "rotate", moved, images)
    changed = where("brightness", "sharpness", dull + factor * (images - dull), changed)
    changed = where("posterize", "posterize", posterize(images, strength.abs()), changed)
    changed = where("solarize", "solarize", solarize(images, strength.abs()), changed)
    changed = where("autocontrast", "autocontrast", autocontrast(images), changed)
    changed = where("equalize", "equalize", equalize(images), changed)
    return changed.round().clamp(0, LEVELS - 1)


def affine(
    images: Pixels, angle: Numbers, shear: tuple[Numbers, Numbers], shift: tuple[Numbers, Numbers]
) -> Pixels:
    """Images turned about their centres, sheared and shifted by so many pixels, with bilinear sampling."""
    height, width = images.shape[2:]
    y = torch.arange(height, device=images.device)[:, None] - (height - 1) / 2
    x = torch.arange(width, device=images.device) - (width - 1) / 2
    cosine, sine, across, down, right, below = (
        value[:, None, None] for value in (angle.cos(), angle.sin(), *shear, *shift)
    )
    source_x = cosine * x + (sine + across) * y + right
    source_y = (down - sine) * x + cosine * y + below
    grid = torch.stack((source_x * 2 / width, source_y * 2 / height), -1)
    return F.grid_sample(images - FILL, grid, align_corners=False) + FILL


def grey(images: Pixels) -> Pixels:
    """The brightness of each pixel, in all channels."""
    red, green, blue = images.unbind(1)
    brightness = GREY[0] * red + GREY[1] * green + GREY[2] * blue
    return brightness.round()[:, None].expand_as(images)


def smooth(images: Pixels) -> Pixels:
    """Each pixel and its neighbours, with weights of 5 and 1; the edge stays as it is."""
    around = F.avg_pool2d(images, 3, stride=1) * 9
    inner = ((around + 4 * images[:, :, 1:-1, 1:-1]) / 13).round()
    result = images.clone()
    result[:, :, 1:-1, 1:-1] = inner
    return result


def posterize(images: Pixels, strength: Numbers) -> Pixels:
    """Pixels with fewer bits."""
    step = torch.exp2((strength * MAX_BITS).round())[:, None, None, None]
    return (images / step).floor() * step


def solarize(images: Pixels, strength: Numbers) -> Pixels:
    """The negative of pixels above a threshold, which falls with the strength."""
    threshold = ((LEVELS - 1) * (1 - strength))[:, None, None, None]
    return torch.where(images < threshold, images, LEVELS - 1 - images)


def autocontrast(images: Pixels) -> Pixels:
    """Each channel from its darkest to its lightest value made as wide as possible."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    wide = ((images - low) * ((LEVELS - 1) / (high - low).clamp(min=1))).floor()
    return torch.where(high > low, wide, images)


def equalize(images: Pixels) -> Pixels:
    """Each channel with a histogram as flat as possible."""
    values = images.flatten(0, 1).flatten(1).long()
    histogram = torch.zeros(len(values), LEVELS, device=images.device)
    histogram.scatter_add_(1, values, torch.ones_like(values, dtype=torch.float32))
    before = histogram.cumsum(1) - histogram
    # As in Pillow: the pixels of the lightest level do not count.
    lightest = histogram.gather(1, values.amax(1, keepdim=True))
    step = ((histogram.sum(1, keepdim=True) - lightest) / (LEVELS - 1)).floor()
    table = (((step / 2).floor() + before) / step.clamp(min=1)).floor().clamp(max=LEVELS - 1)
    found = torch.where(step > 0, table.gather(1, values), values.float())
    return found.view(images.shape)


def mix(images: Pixels, targets: Targets, mixup: float, cutmix: float) -> tuple[Pixels, Targets]:
    """Images with a share of the image before them in the batch, everywhere or in a rectangle."""
    batch, device = len(images), images.device
    kind, share = torch.rand(2, batch, device=device)
    inside = random_boxes(images, 1 - share)
    blended, cut = kind < mixup, (kind >= mixup) & (kind < mixup + cutmix)
    own = torch.where(blended[:, None, None, None], share[:, None, None, None], 1.0).expand_as(inside)
    own = torch.where(cut[:, None, None, None], (~inside).float(), own)
    share = own.mean((1, 2, 3))[:, None]
    return torch.lerp(images.roll(1, 0), images, own), torch.lerp(targets.roll(1, 0), targets, share)


def random_boxes(images: Pixels, share: Numbers) -> Bool[Tensor, "batch 1 height width"]:
    """True inside a rectangle with the proportions of the image, around a random point.

    Where it crosses an edge, its share of the area is smaller.
    """
    batch, device = len(images), images.device

    def inside(size: int) -> Bool[Tensor, "batch size"]:
        middle = torch.rand(batch, device=device)[:, None] * size
        half = share.sqrt()[:, None] * size / 2
        return (torch.arange(size, device=device) + 0.5 - middle).abs() < half

    height, width = images.shape[2:]
    return (inside(height)[:, :, None] & inside(width)[:, None])[:, None]


def erased_shares(images: Pixels) -> Numbers:
    """Random shares of the area to erase."""
    return torch.empty(len(images), device=images.device).uniform_(MIN_ERASED, MAX_ERASED)


def chosen(images: Pixels, probability: float) -> Bool[Tensor, "batch 1 1 1"]:
    """True for a random part of the images."""
    return (torch.rand(len(images), device=images.device) < probability)[:, None, None, None]


def _mirrored(index: Tensor, size: int) -> Tensor:
    """An index beyond either end, mirrored at it."""
    last = size - 1
    return (last - (last - index.abs()).abs()).clamp(0, last)
