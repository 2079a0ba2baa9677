"""Which tensors a trace has: their names, what each is, and its axes, without computing any."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.explorer.architecture import attentions, stacks
from clearhead.models import GPT, Translator
from clearhead.models.anatomy import RESIDUALS

SQUARE = ("scores", "masked", "weights")


@dataclass(frozen=True)
class Entry:
    """A tensor, or one in every layer: then its name has a * in the place of the layer."""

    name: str
    role: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    about: Mapping[str, str]
    """Of which attention, side, stack or sub-layer it is."""

    @property
    def names(self) -> list[str]:
        """The full names, by layer."""
        return (
            [self.name.replace("*", str(layer)) for layer in range(self.shape[0])]
            if self.layered
            else [self.name]
        )

    @property
    def layered(self) -> bool:
        return "*" in self.name

    @property
    def dtypes(self) -> tuple[str, ...]:
        return ("f32", "f16", "u8s") if self.role == "weights" else ("f32", "f16")

    def one(self) -> "Entry":
        """The same of one layer."""
        return (
            Entry(self.name, self.role, self.axes[1:], self.shape[1:], self.about) if self.layered else self
        )

    def record(self) -> dict[str, Any]:
        told = {"name": self.name, "role": self.role, **self.about}
        return {**told, "axes": list(self.axes), "shape": list(self.shape), "dtypes": list(self.dtypes)}


def catalogue(model: Translator | GPT, lengths: Mapping[str, int]) -> dict[str, Entry]:
    """The tensors of a pass over texts with so many places on each side, by name."""
    found = [*_embeddings(model, lengths), *_attentions(model, lengths), *_streams(model, lengths)]
    last = stacks(model)[-1]["side"]
    vocabulary = model.readout_weight.shape[0]
    found.append(Entry("logits", "logits", ("queries", "vocabulary"), (lengths[last], vocabulary), {}))
    return {entry.name: entry for entry in found}


def pattern_of(name: str) -> tuple[str, int | None]:
    """A full name with a * for its layer, and that layer."""
    number = re.search(r"\.blocks\.(\d+)\.", name)
    if not number:
        return name, None
    return name.replace(number.group(0), ".blocks.*.", 1), int(number.group(1))


def _embeddings(model: Translator | GPT, lengths: Mapping[str, int]) -> list[Entry]:
    names = {"text": "embedding", "source": "source_embedding", "target": "target_embedding"}
    adds = model.config.position not in ("rotary", "alibi", "none")
    roles = {
        "token_embeddings": "words",
        **({"position_embeddings": "positions"} if adds else {}),
        "stream": "embedding",
    }
    return [
        Entry(
            f"{names[side]}.{shown}", role, ("places", "width"), (length, model.config.width), {"side": side}
        )
        for side, length in lengths.items()
        for shown, role in roles.items()
    ]


def _attentions(model: Translator | GPT, lengths: Mapping[str, int]) -> list[Entry]:
    size, found = model.config.head_size, []
    for one in attentions(model):
        first = (one["layers"], one["heads"])
        queries, keys = lengths[one["queries"]], lengths[one["keys"]]
        shapes = {
            "queries": (("places", "size"), (queries, size)),
            "keys": (("places", "size"), (keys, size)),
            "values": (("places", "size"), (keys, size)),
            **dict.fromkeys(SQUARE, (("queries", "keys"), (queries, keys))),
            "head_output": (("queries", "size"), (queries, size)),
        }
        found += [
            Entry(
                f"{one['path']}.{role}",
                role,
                ("layers", "heads", *axes),
                (*first, *shape),
                {"attention": one["key"]},
            )
            for role, (axes, shape) in shapes.items()
        ]
    return found


def _streams(model: Translator | GPT, lengths: Mapping[str, int]) -> list[Entry]:
    width, found = model.config.width, []
    for stack in stacks(model):
        name, positions = stack["name"], lengths[stack["side"]]
        axes, shape = ("layers", "places", "width"), (stack["layers"], positions, width)
        for sublayer in stack["sublayers"]:
            about = {"stack": name, "sublayer": sublayer, "side": stack["side"]}
            path = f"{name}.blocks.*"
            found.append(Entry(f"{path}.{sublayer}.added", "added", axes, shape, about))
            found.append(Entry(f"{path}.{RESIDUALS[sublayer]}.stream", "stream", axes, shape, about))
        about = {"stack": name, "side": stack["side"]}
        found.append(Entry(f"{name}.states", "states", axes[1:], shape[1:], about))
    return found
