"""Which patches of an image decide its label, and a test of the methods that say so."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from clearhead.inspection.relevance import (
    ROLLOUT,
    Relevance,
    Removal,
    Values,
    attention_rollout,
    deletion_test,
    gradient_relevance,
)
from clearhead.inspection.trace import capture
from clearhead.models import ViT

if TYPE_CHECKING:
    from clearhead.tasks.image_classification.model import ImageClassificationModel

OCCLUSION = "hiding each patch"
"""How far the log-probability falls when a patch alone is hidden (Zeiler and Fergus 2014)."""
Image = Float[Tensor, "3 size size"]


def image_relevance(
    classifier: "ImageClassificationModel", pixels: UInt8[Tensor, "3 size size"], label: str
) -> Relevance:
    """How much each patch of an image supports a label, and the label without the most relevant patches."""
    model, number = classifier.model, classifier.labels.index(label)
    image, before = classifier.processor.normalize(pixels[None].to(classifier.device))[0], _before(model)

    def evidence() -> Float[Tensor, " batch"]:
        logits = model(image[None]).float()
        # Only the differences between the logits of exclusive classes count.
        return logits[:, number] - logits.mean(-1)

    @torch.no_grad()
    def log_probabilities(hidden: Sequence[Sequence[int]]) -> Float[Tensor, " images"]:
        images = torch.stack([without(model, image, positions) for positions in hidden])
        return torch.cat([model(part).float().log_softmax(-1)[:, number] for part in images.split(256)])

    def probability(removals: Sequence[Removal]) -> list[float]:
        return log_probabilities([removal.positions.tolist() for removal in removals]).exp().tolist()

    positions = range(model.config.max_positions)
    whole, *each = log_probabilities([[], *([position] for position in positions)])
    values: dict[str, Values] = {OCCLUSION: torch.stack([whole - one for one in each]).cpu()}
    found = gradient_relevance(model, evidence, "embedding.token_embeddings")
    anatomy = model.anatomy()
    found[ROLLOUT] = attention_rollout(
        model, evidence, anatomy, anatomy.attentions[0], _read_from(model, image)
    )
    values |= {method: one[0].cpu() for method, one in found.items()}
    removable = torch.arange(len(positions)) >= before
    test = deletion_test({method: [one] for method, one in values.items()}, [removable], probability)
    return Relevance(label, "image", values, test)


def without(model: ViT, image: Image, positions: Sequence[int]) -> Image:
    """The image with patches in the mean colour; a class token has no pixels to hide."""
    size, side, changed = model.embedding.patch_size, model.config.side, image.clone()
    for position in positions:
        if position >= _before(model):
            row, column = (index * size for index in divmod(position - _before(model), side))
            changed[:, row : row + size, column : column + size] = 0
    return changed


def _before(model: ViT) -> int:
    return model.config.class_tokens


@torch.no_grad()
def _read_from(model: ViT, image: Image) -> Float[Tensor, "1 positions"]:
    """The share of each position in what the class is read from."""
    positions = model.config.max_positions
    if _before(model):
        return F.one_hot(torch.zeros(1, dtype=torch.long, device=image.device), positions).float()
    if getattr(model.config.head, "pooling", "") == "sequence":
        with capture(model, ["head.pooling_scores"]) as trace:
            model(image[None])
        return trace["head.pooling_scores"][:, :, 0].float().softmax(-1)
    return torch.full((1, positions), 1 / positions, device=image.device)
