"""A training step with all augmentations is one CUDA graph, and computes what the plain step does."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch

from clearhead.accel.compile import CompiledRegions
from clearhead.accel.graphs import GraphedPasses
from clearhead.models import ViT, build
from clearhead.tasks.image_classification.data import ImageBatch, ImageData
from clearhead.tasks.image_classification.recipe import ImageClassificationRecipe
from clearhead.tasks.image_classification.task import ImageClassificationTask
from clearhead.training.parallel import COMPILED_METHODS, Passes

from .conftest import recipe, shapes, write_folder

ALL = {"crop": 2, "rand_augment": {}, "erase": 0.3, "mixup": 0.3, "cutmix": 0.3}


def prepared(folder: Path, **changes) -> tuple[ImageClassificationTask, ViT]:
    write_folder(folder / "train", 60)
    settings: ImageClassificationRecipe = recipe(folder, augmentation=ALL, **changes)
    task = ImageClassificationTask(settings)
    task.images = ImageData.read(settings.data.model_copy(update={"test": ()}), 16, seed=1)
    task.processor = task.images.processor(settings.data)
    torch.manual_seed(0)
    return task, build(settings.model, task.processor)


def batch(seed: int) -> ImageBatch:
    pixels, _ = shapes(32, seed)
    return ImageBatch(torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(), torch.arange(32) % 3)


def test_the_loss_of_a_batch_is_that_of_its_augmented_images(tmp_path: Path):
    task, model = prepared(tmp_path)
    torch.manual_seed(1)
    first, second = task.loss(model, batch(0)), task.loss(model, batch(0))
    torch.manual_seed(1)
    assert torch.equal(task.loss(model, batch(0)), first)
    assert not torch.equal(second, first)
    assert 0.5 < first.item() / 32 < 3


@pytest.mark.gpu
@pytest.mark.accel
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_recorded_passes_equal_plain_ones(tmp_path: Path, compiled: bool, precision: torch.dtype):
    task, model = prepared(tmp_path)
    model, device = model.cuda(), torch.device("cuda:0")
    plain = Passes(
        partial(task.loss, model),
        list(model.parameters()),
        device,
        lambda: torch.autocast("cuda", precision, enabled=precision != torch.float32),
    )
    context = CompiledRegions(model, COMPILED_METHODS).active if compiled else nullcontext
    graphed = GraphedPasses(plain, plain.parameters, device, context)
    found: list[list[torch.Tensor]] = []
    for passes in (plain, graphed):
        torch.manual_seed(3)
        losses = []
        for seed in range(3):
            passes.zero_grad()
            losses.append(passes(batch(seed)))
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        found.append([torch.stack(losses), gradient.clone()])
    # Convolutions may use TF32, whose rounding depends on the algorithm.
    tolerance = 1e-3 if precision == torch.float32 else 2e-2
    torch.testing.assert_close(found[0][0], found[1][0], rtol=tolerance, atol=tolerance)
    assert float((found[0][1] - found[1][1]).norm() / found[0][1].norm()) < 5 * tolerance
