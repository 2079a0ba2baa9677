"""Attention over an image: where each head looks, what rollout finds, and the region of each written word."""

import torch
import torch.nn.functional as F

from clearhead.errors import SettingsError
from clearhead.inspection.explanation_summaries import POOLED, ReadFrom
from clearhead.inspection.image import PatchImage
from clearhead.inspection.pictures.context import PictureContext
from clearhead.inspection.pictures.overlay import ImageMap, overlay_picture, strongest
from clearhead.inspection.pictures.picture import Picture
from clearhead.inspection.summaries import rollout
from clearhead.models.anatomy import AttentionPart

SCALE = "colour by the square root, from 0 to the largest"
MAX_WORDS = 31
"""The most words whose regions are drawn."""


def has_patches(context: PictureContext) -> bool:
    return any(_within_image(context, part) for part in context.anatomy.attentions)


def has_regions(context: PictureContext) -> bool:
    written = any(token.next is not None for token in context.explanation.target)
    return written and any(_reads_image(context, part) for part in context.anatomy.attentions)


def patches_view(context: PictureContext) -> Picture:
    """A map of every head of a layer: one query, by default what the output is read from."""
    part, image = image_attention(context)
    layer, reader = _layer(context, part), _reader(context, part, image)
    read = image.on_grid(reader.weights @ context.summaries.weights(part.name)[layer])
    maps = [ImageMap(f"head {head}", one) for head, one in enumerate(read)]
    maps.append(ImageMap("mean of all heads", read.mean(0)))
    if reader.name == POOLED:
        maps.insert(0, ImageMap("pooling weights", image.on_grid(reader.weights)))
    path = part.path(layer)
    caption = f"{context.subject} weights of {path}, from {reader.name} to the patches; {SCALE}."
    listed = "; ".join(f"{one.title}: {strongest(image, one.values)}" for one in maps[:8])
    alt = f"Attention from {reader.name} over {_size(image)} patches. Strongest (row,column): {listed}."
    return overlay_picture(f"{path}: {reader.name} → patches", image, maps, "α", caption, alt)


def rollout_view(context: PictureContext) -> Picture:
    """The share of each patch in what the output is read from, after every layer."""
    part, image = image_attention(context)
    reader = _reader(context, part, image)
    paths = rollout(torch.stack(context.summaries.weights(part.name)))
    shares = image.on_grid(reader.weights @ paths)
    maps = [ImageMap(f"after layer {layer}", one) for layer, one in enumerate(shares)]
    caption = (
        f"{context.subject} attention rollout of {part.path('*')} (Abnar and Zuidema 2020), the share of "
        f"each patch in {reader.name}: heads averaged, half of each layer is its input; {SCALE}."
    )
    best = strongest(image, shares[-1], 5)
    alt = (
        f"Rollout from {reader.name} over {_size(image)} patches. After the last layer (row,column): {best}."
    )
    return overlay_picture(f"Attention rollout: {reader.name}", image, maps, "share", caption, alt)


def regions_view(context: PictureContext) -> Picture:
    """Where the image is looked at for every written token: the mean of a layer's heads, or one head."""
    part, image = _part(context, within=False)
    layer, head = _layer(context, part), context.selection.head
    weights = context.summaries.weights(part.name)[layer]
    if head is not None and not 0 <= head < len(weights):
        raise SettingsError(f"head: {head} is out of range; {part.name} has heads 0 to {len(weights) - 1}")
    chosen = weights.mean(0) if head is None else weights[head]
    queries = [
        position for position, token in enumerate(context.explanation.target) if token.next is not None
    ]
    ids = [context.explanation.target[position].next or 0 for position in queries]
    words = context.explanation.pieces(ids)
    read = image.on_grid(chosen)
    maps = [
        ImageMap(word.lstrip("▁") or word, read[position])
        for position, word in zip(queries[:MAX_WORDS], words, strict=False)
    ]
    whose = "the mean of all heads" if head is None else f"head {head}"
    path = part.path(layer)
    caption = f"{context.subject} weights of {path}, {whose}, when each token was written; {SCALE}."
    listed = "; ".join(f"“{one.title}”: {strongest(image, one.values, 1)}" for one in maps)
    alt = f"For every written token, where {whose} looks (row,column): {listed}."
    return overlay_picture(f"{path}: the region of each token", image, maps, "α", caption, alt)


def _within_image(context: PictureContext, part: AttentionPart) -> bool:
    return part.keys in context.explanation.images and not part.crosses


def _reads_image(context: PictureContext, part: AttentionPart) -> bool:
    return part.keys in context.explanation.images and part.crosses


def image_attention(context: PictureContext) -> tuple[AttentionPart, PatchImage]:
    """The selected attention between patches, or the first, with its image."""
    return _part(context, within=True)


def _part(context: PictureContext, within: bool) -> tuple[AttentionPart, PatchImage]:
    """The selected attention, or the first that fits, with the image of its keys."""
    fits = _within_image if within else _reads_image
    known = [part for part in context.anatomy.attentions if fits(context, part)]
    wanted = context.selection.attention
    found = [part for part in known if wanted in (None, part.name)]
    if not found:
        names = ", ".join(part.name for part in known)
        raise SettingsError(f"attention: {wanted!r} is not one of {names}")
    return found[0], context.explanation.images[found[0].keys]


def _layer(context: PictureContext, part: AttentionPart) -> int:
    """The selected layer; by default the last."""
    layers, layer = len(context.summaries.paths(part.name)), context.selection.layer
    if layer is not None and not 0 <= layer < layers:
        raise SettingsError(f"layer: {layer} is out of range; {part.name} has layers 0 to {layers - 1}")
    return layers - 1 if layer is None else layer


def _reader(context: PictureContext, part: AttentionPart, image: PatchImage) -> ReadFrom:
    """The selected query; by default, what the output is read from."""
    query, positions = context.selection.query, len(image.names)
    if query is None:
        return context.summaries.read_from(part.keys)
    if not 0 <= query < positions:
        raise SettingsError(f"query: {query} is out of range; the image has positions 0 to {positions - 1}")
    name = image.names[query] if query < image.before else f"patch {image.names[query]}"
    return ReadFrom(name, F.one_hot(torch.tensor(query), positions).float())


def _size(image: PatchImage) -> str:
    return f"{image.grid[0]} × {image.grid[1]}"
