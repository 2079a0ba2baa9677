"""Augmentations equal Pillow's operations, image by image, and labels stay probabilities."""

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from pydantic import ValidationError

from clearhead.data import augmentation
from clearhead.data.augmentation import (
    FILL,
    MAX_BITS,
    MAX_BLEND,
    MAX_DEGREES,
    MAX_SHEAR,
    MAX_SHIFT,
    NUMBERS,
    OPERATIONS,
    AugmentationConfig,
    RandAugmentConfig,
    augment,
    crop_and_flip,
    mix,
    resized_crops,
)

BATCH, HEIGHT, WIDTH = 4, 12, 16


@pytest.fixture
def pixels() -> torch.Tensor:
    """Smooth and dark images, a plain one, and noise."""
    random = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (BATCH, 3, HEIGHT, WIDTH), generator=random)
    noise[0] = noise[0] // 3 + 20
    noise[1] = torch.arange(HEIGHT)[:, None] * 9 + torch.arange(WIDTH) * 5
    noise[2] = 77
    return noise.to(torch.uint8)


def pictures(pixels: torch.Tensor) -> list[Image.Image]:
    return [Image.fromarray(one.permute(1, 2, 0).numpy()) for one in pixels]


def as_floats(images: list[Image.Image]) -> torch.Tensor:
    return torch.stack([torch.from_numpy(np.array(one)) for one in images]).permute(0, 3, 1, 2).float()


@pytest.mark.parametrize(
    ("top", "left", "flipped"), [(0, 0, False), (3, -2, False), (-4, 4, True), (0, 0, True)]
)
def test_a_crop_is_a_window_of_the_mirrored_image(pixels, top: int, left: int, flipped: bool):
    padded = np.pad(pixels.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)), mode="reflect")
    expected = padded[:, :, 4 + top : 4 + top + HEIGHT, 4 + left : 4 + left + WIDTH]
    expected = expected[..., ::-1] if flipped else expected
    starts = [torch.full((BATCH,), value) for value in (top, left)]
    found = crop_and_flip(pixels, *starts, torch.full((BATCH,), flipped))
    assert (found.numpy() == expected).all()


def test_each_image_has_its_own_crop_and_flip(pixels):
    top, left = torch.tensor([0, 1, 2, 3]), torch.tensor([3, 0, -1, -2])
    flipped = torch.tensor([True, False, True, False])
    batched = crop_and_flip(pixels, top, left, flipped)
    for i in range(BATCH):
        one = slice(i, i + 1)
        assert (batched[one] == crop_and_flip(pixels[one], top[one], left[one], flipped[one])).all()


def pillow(name: str, image: Image.Image, strength: float) -> Image.Image:
    """What Pillow makes of an image."""
    enhance = {
        "brightness": ImageEnhance.Brightness,
        "colour": ImageEnhance.Color,
        "contrast": ImageEnhance.Contrast,
        "sharpness": ImageEnhance.Sharpness,
    }
    if name in enhance:
        return enhance[name](image).enhance(1 + MAX_BLEND * strength)
    match name:
        case "posterize":
            return ImageOps.posterize(image, 8 - round(MAX_BITS * abs(strength)))
        case "solarize":
            return ImageOps.solarize(image, math.ceil(255 * (1 - abs(strength))))
        case "autocontrast":
            return ImageOps.autocontrast(image)
        case "equalize":
            return ImageOps.equalize(image)
        case "identity":
            return image
    # Pillow's coefficients take pixels of the result to those of the image, from the upper left corner.
    cosine, sine = 1.0, 0.0
    if name == "rotate":
        angle = math.radians(MAX_DEGREES) * strength
        cosine, sine = math.cos(angle), math.sin(angle)
    a, b = cosine, sine + (MAX_SHEAR * strength if name == "shear_x" else 0)
    d, e = -sine + (MAX_SHEAR * strength if name == "shear_y" else 0), cosine
    x, y = WIDTH / 2, HEIGHT / 2
    c = x - a * x - b * y + (MAX_SHIFT * WIDTH * strength if name == "translate_x" else 0)
    f = y - d * x - e * y + (MAX_SHIFT * HEIGHT * strength if name == "translate_y" else 0)
    method = Image.Resampling.BILINEAR
    fill = (int(FILL),) * 3
    return image.transform(image.size, Image.Transform.AFFINE, (a, b, c, d, e, f), method, fillcolor=fill)


@pytest.mark.parametrize("strength", [0.3, -0.3, 0.9])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_equals_pillows(pixels, name: str, strength: float):
    operation = torch.full((BATCH,), NUMBERS[name])
    found = augmentation.apply(pixels.float(), operation, torch.full((BATCH,), strength))
    expected = as_floats([pillow(name, image, strength) for image in pictures(pixels)])
    difference = (found - expected).abs()
    if NUMBERS["shear_x"] <= NUMBERS[name] <= NUMBERS["rotate"]:
        # Pillow mirrors half a pixel at the edge of an image, where we blend with grey.
        operation, strengths = operation[:1], torch.full((1,), strength)
        white = augmentation.apply(torch.full((1, 3, HEIGHT, WIDTH), 255.0), operation, strengths)[0, 0]
        inside = white == 255
        assert inside.float().mean() > 0.3
        assert difference[:, :, inside].max() <= 1
        return
    # Pillow cuts off fractions where we round.
    assert difference.max() <= 1


def test_every_image_gets_its_own_operation_and_strength(pixels):
    images = pixels.float().repeat(4, 1, 1, 1)
    operation = torch.arange(len(images)) % len(OPERATIONS)
    strength = torch.linspace(-1, 1, len(images))
    batched = augmentation.apply(images, operation, strength)
    for i in range(len(images)):
        one = slice(i, i + 1)
        torch.testing.assert_close(
            batched[one], augmentation.apply(images[one], operation[one], strength[one])
        )


def test_without_changes_images_stay_as_they_are(pixels):
    images, targets = augment(pixels, torch.tensor([0, 2, 1, 2]), 3, AugmentationConfig(crop=0, flip=0))
    assert (images == pixels).all()
    assert targets.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(("mixup", "cutmix"), [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.3, 0.3)])
def test_mixed_labels_are_shares_of_the_mixed_images(mixup: float, cutmix: float):
    torch.manual_seed(0)
    count = 64
    # Each image is plain, in a grey level of its own.
    images = torch.arange(count).float()[:, None, None, None].expand(count, 3, 8, 8) * 3
    found, targets = mix(images, torch.eye(count), mixup, cutmix)
    torch.testing.assert_close(targets.sum(1), torch.ones(count))
    assert (targets >= 0).all()
    torch.testing.assert_close(
        found.mean((1, 2, 3)), targets @ (torch.arange(count).float() * 3), rtol=1e-4, atol=1e-2
    )
    unchanged = (targets.amax(1) == 1).float().mean()
    assert unchanged < 0.2 if mixup + cutmix == 1 else 0.2 < unchanged < 0.6
    if cutmix == 1:
        assert ((found == images) | (found == images.roll(1, 0))).all()


def test_erasing_leaves_grey_rectangles(pixels):
    torch.manual_seed(0)
    config = AugmentationConfig(crop=0, flip=0, erase=1.0)
    images, _ = augment(pixels[3:].repeat(200, 1, 1, 1), torch.zeros(200, dtype=torch.int64), 2, config)
    erased = (images != pixels[3].float()).any(1)
    assert (images[erased[:, None].expand_as(images)] == FILL).all()
    assert 0.02 < erased.float().mean() < 0.33


def test_the_same_generator_gives_the_same_images(pixels):
    config = AugmentationConfig(rand_augment=RandAugmentConfig(), mixup=0.5, cutmix=0.5, erase=0.2)
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        found.append(augment(pixels, torch.arange(BATCH), BATCH, config)[0])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert found[0].min() >= 0
    assert found[0].max() <= 255


def test_probabilities_and_magnitudes_are_checked():
    for wrong in (
        {"flip": 1.5},
        {"crop": -1},
        {"rand_augment": {"magnitude": 31}},
        {"mixup": 0.6, "cutmix": 0.6},
    ):
        with pytest.raises(ValidationError):
            AugmentationConfig.model_validate(wrong)


def test_a_resized_crop_is_a_part_of_the_image_at_the_whole_size():
    # Values grow evenly to the right and downwards, so that a crop shows its size by their range.
    ramp = torch.linspace(0, 255, 32).expand(64, 3, 32, 32).contiguous()
    torch.manual_seed(0)
    across, down = resized_crops(ramp, 0.25), resized_crops(ramp.mT.contiguous(), 0.25)
    wide = (across[:, 0, 0, -1] - across[:, 0, 0, 0]) / 255
    high = (down[:, 0, -1, 0] - down[:, 0, 0, 0]) / 255
    for share in (wide, high):
        assert 0.5 * 0.8 < share.min() < 0.65
        assert 0.9 < share.max() <= 1
    assert (across[:, :, :1] - across).abs().max() < 1e-3
    torch.testing.assert_close(resized_crops(ramp, 1.0), ramp, atol=40, rtol=0)
