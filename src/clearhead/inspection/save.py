"""Explanations as files and in notebooks: pictures, the explorer's page, and numbers."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from clearhead.config import Settings
from clearhead.errors import SettingsError
from clearhead.files import write_text
from clearhead.inspection.explanation import WRITERS, Explanation, finite
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.inspection.pictures.context import Selection
from clearhead.inspection.pictures.draw import draw, fitting, views
from clearhead.inspection.pictures.picture import FORMATS

DIGITS = 6
"""Digits of the weights in a JSON file."""


def save_explanation(
    explanation: Explanation, path: Path, view: str | None = None, selection: Selection | None = None
) -> Path:
    """Writes a file of the kind that its ending names, or every picture into a folder."""
    check_path(path)
    selection = selection or Selection()
    if _is_folder(path):
        path.mkdir(parents=True, exist_ok=True)
        for name in [view] if view else views(explanation):
            draw(explanation, name, fitting(name, selection)).save(path / f"{name}.png")
    elif _ending(path) in FORMATS:
        draw(explanation, view, selection).save(path)
    else:
        for name, value in {"view": view, **asdict(selection)}.items():
            if value is not None:
                raise SettingsError(f"{name}: {value} applies to pictures only; {path.name} holds everything")
        write_text(path, WRITERS[_ending(path)](explanation))
    return path


def check_path(path: Path) -> None:
    """Raises an error if an explanation cannot be written there."""
    known = (*FORMATS, *WRITERS)
    if not _is_folder(path) and _ending(path) not in known:
        endings = ", ".join(f".{one}" for one in known)
        raise SettingsError(f"{path}: cannot write {path.suffix} files; use {endings} or a folder")
    if not _is_folder(path) and not path.parent.is_dir():
        raise SettingsError(f"{path}: there is no folder {path.parent}; create it first")


def _is_folder(path: Path) -> bool:
    return path.is_dir() or not path.suffix


def _ending(path: Path) -> str:
    return path.suffix.removeprefix(".").lower()


def record(explanation: Explanation) -> dict[str, Any]:
    """Tokens, weights and summaries as JSON."""
    summaries = Summaries(explanation)
    config = getattr(explanation.model, "config", None)
    settings = config.model_dump(mode="json") if isinstance(config, Settings) else {"kind": explanation.kind}
    found: dict[str, Any] = {
        "format": 2,
        "model": {"name": explanation.name, **settings},
        "text": explanation.text,
        "normalized": explanation.normalized,
        "output": explanation.output,
        "sum_log_prob": finite(explanation.sum_log_prob),
        "difference": explanation.difference,
        "settings": _plain(explanation.settings),
        "sides": {side: [token.record() for token in tokens] for side, tokens in explanation.sides.items()},
        "images": {side: image.record() for side, image in explanation.images.items()},
        "attentions": {kind: _heads(summaries, kind) for kind in summaries.kinds},
    }
    if probabilities := getattr(explanation.found, "probabilities", None):
        found["probabilities"] = dict(probabilities)
    if explanation.relevance:
        found["relevance"] = summaries.relevance.record()
    if summaries.has_words:
        words = summaries.alignment()
        found["alignment"] = {
            "head": words.name,
            "reads": words.aligner.reads,
            "agreement": round(words.aligner.agreement, DIGITS),
            "source": list(words.source),
            "target": list(words.target),
            "links": words.links,
        }
    return found


def notebook_html(explanation: Explanation) -> str:
    """The most informative picture, below the text and the output."""
    texts = f"<p><b>{escape(explanation.text)}</b> → {escape(explanation.output)}</p>"
    others = ", ".join(f"<code>{name}</code>" for name in views(explanation)[1:])
    more = f"<p><small>More views for <code>.picture(…)</code>: {others}.</small></p>"
    return f"<div>{texts if explanation.output else ''}{draw(explanation)._repr_html_()}{more}</div>"


@dataclass(frozen=True)
class NotebookPage:
    """The explorer's page in a frame of a notebook."""

    title: str
    page: str = field(repr=False)
    height: int

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 0"
        return f'<iframe title="{escape(self.title)}" srcdoc="{escape(self.page)}" style="{style}"></iframe>'


def _heads(summaries: Summaries, kind: str) -> list[dict[str, Any]]:
    layers = zip(summaries.paths(kind), summaries.weights(kind), summaries.roles(kind), strict=True)
    return [
        {
            "name": f"{path}.weights",
            "head": head,
            "role": role.name,
            "strength": round(role.strength, DIGITS),
            "weights": [[round(weight, DIGITS) for weight in row] for row in weights[head].tolist()],
        }
        for path, weights, roles in layers
        for head, role in enumerate(roles)
    ]


def _plain(value: Any) -> Any:
    """A value as JSON; whatever JSON lacks becomes a string."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, str | int | bool):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)


WRITERS["json"] = lambda explanation: json.dumps(record(explanation), ensure_ascii=False) + "\n"
