"""Explanations on disk and in notebooks: as pictures, as a page of their own, and as numbers."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from clearhead.errors import SettingsError
from clearhead.files import write_text
from clearhead.inspection.explanation import WRITERS, Explanation
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.inspection.pictures.draw import Choice, draw, fitting, views
from clearhead.inspection.pictures.picture import FORMATS
from clearhead.options import options_of

DIGITS = 6
"""To which weights are written."""


def save_explanation(explanation: Explanation, path: Path, view: str | None = None, **choice: Any) -> Path:
    """A file of the kind that its ending says; a folder gets every picture there is."""
    check_place(path)
    kind, chosen = _kind(path), options_of(Choice, choice)
    if _is_folder(path):
        path.mkdir(parents=True, exist_ok=True)
        for name in [view] if view else views(explanation):
            draw(explanation, name, fitting(name, chosen)).save(path / f"{name}.png")
    elif kind in FORMATS:
        draw(explanation, view, chosen).save(path)
    else:
        for name, value in {"view": view, **asdict(chosen)}.items():
            if value is not None:
                raise SettingsError(f"{name}: {value} is for pictures; {path.name} holds everything")
        write_text(path, WRITERS[kind](explanation))
    return path


def check_place(path: Path) -> None:
    """Refuses what an explanation cannot be written as."""
    known = (*FORMATS, *WRITERS)
    if not _is_folder(path) and _kind(path) not in known:
        endings = ", ".join(f".{one}" for one in known)
        raise SettingsError(
            f"{path}: cannot be written as {path.suffix}; end it in {endings}, or name a folder"
        )
    if not _is_folder(path) and not path.parent.is_dir():
        raise SettingsError(f"{path}: there is no folder {path.parent}; make it first")


def _is_folder(path: Path) -> bool:
    return path.is_dir() or not path.suffix


def _kind(path: Path) -> str:
    return path.suffix.removeprefix(".").lower()


def json_text(explanation: Explanation) -> str:
    """An explanation as a JSON file."""
    return json.dumps(record(explanation), ensure_ascii=False) + "\n"


def record(explanation: Explanation) -> dict[str, Any]:
    """Tokens, weights and what they come to, as JSON has it."""
    summaries = Summaries(explanation)
    config = explanation.model.config
    told: dict[str, Any] = {
        "format": 1,
        "model": {"name": explanation.name, **config.model_dump(mode="json")},
        "text": explanation.text,
        "normalized": explanation.normalized,
        "output": explanation.output,
        "log_probability": explanation.log_probability,
        "difference": explanation.difference,
        "settings": _plain(explanation.settings),
        "source": [token.record() for token in explanation.source],
        "target": [token.record() for token in explanation.target],
        "attentions": {kind: _heads(summaries, kind) for kind in summaries.kinds},
    }
    if "cross" in summaries.kinds:
        words = summaries.alignment()
        told["alignment"] = {
            "head": words.aligner.name,
            "reads": words.aligner.reads,
            "agreement": round(words.aligner.agreement, DIGITS),
            "source": list(words.source),
            "target": list(words.target),
            "links": words.links,
        }
    return told


def shown(explanation: Explanation) -> str:
    """The most telling picture, with what was read and said above it."""
    picture = draw(explanation)._repr_html_()
    said = (
        f"<p><b>{escape(explanation.text)}</b> → {escape(explanation.output)}</p>"
        if explanation.output
        else ""
    )
    others = ", ".join(f"<code>{name}</code>" for name in views(explanation)[1:])
    return f"<div>{said}{picture}<p><small>Also <code>.picture(…)</code> with {others}.</small></p></div>"


@dataclass(frozen=True)
class Frame:
    """A page that a notebook shows inside its own."""

    title: str
    page: str = field(repr=False)
    height: int

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 0"
        return f'<iframe title="{escape(self.title)}" srcdoc="{escape(self.page)}" style="{style}"></iframe>'


def framed(explanation: Explanation, height: int) -> Frame:
    """The stand-alone page, which needs no server and no network."""
    return Frame(f"{explanation.name}: {explanation.text}", WRITERS["html"](explanation), height)


def _heads(summaries: Summaries, kind: str) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{path}.weights",
            "head": head,
            "role": role.name,
            "strength": round(role.strength, DIGITS),
            "weights": [[round(weight, DIGITS) for weight in row] for row in weights[head].tolist()],
        }
        for path, weights, roles in zip(
            summaries.paths(kind), summaries.weights(kind), summaries.roles(kind), strict=True
        )
        for head, role in enumerate(roles)
    ]


def _plain(value: Any) -> Any:
    """What JSON can hold, as it is; anything else in words."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, str | int | bool):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)
