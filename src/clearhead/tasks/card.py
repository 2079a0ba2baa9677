"""The card that goes with a model: what it is, what it learned from, how good it is."""

from collections.abc import Mapping
from pathlib import Path

from torch import nn

from clearhead.data.datasets import SHIPPED, SHIPPED_TEXTS
from clearhead.tasks.language.recipe import LanguageRecipe
from clearhead.tasks.translation.directions import file_name, tags
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.text.languages import NAMES

_NAMES = {"loss": "loss per token", "bleu": "BLEU", "bits_per_byte": "bits per byte"}


def model_card(recipe: TranslationRecipe, parameters: int, step: int, scores: Mapping[str, float]) -> str:
    """A README in Markdown for a model's folder."""
    directions = recipe.data.directions
    title = ", ".join(f"{NAMES[source]} to {NAMES[target]}" for source, target in directions)
    to = f" --to {directions[0].target}" if tags(directions) else ""
    kept = [f"`{file_name(part, one, directions)}`" for one in directions for part in ("validation", "test")]
    model = recipe.model
    lines = [
        f"# {title}",
        "",
        f"A translator trained with clearhead: {parameters:,} parameters, width {model.width}, "
        f"{model.encoder_layers} + {model.decoder_layers} layers, {model.attention.heads} heads, "
        f"{recipe.tokenizer.kind} vocabulary; {step:,} training steps.",
        "",
        "## Use",
        "",
        f"    clearhead translate --model THIS-FOLDER{to} 'A sentence.'",
        f"    clearhead evaluate THIS-FOLDER{to}",
        "",
        "## Training data",
        "",
        *(f"- {_data(file)}" for corpus in recipe.data.corpora for file in corpus.train),
        "",
        f"{', '.join(kept[:-1])} and {kept[-1]} beside this card were kept from training.",
        "",
        "## On the validation sentences",
        "",
        *(f"- {_name(name)} {value:.2f}" for name, value in scores.items()),
        *([] if scores else ["- not measured"]),
        "",
        "All settings are in `config.toml`, all measurements in `metrics.jsonl`.",
        "",
    ]
    return "\n".join(lines)


def text_card(recipe: LanguageRecipe, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
    """A README in Markdown for the folder of a language model."""
    shape, size = recipe.model, sum(parameter.numel() for parameter in model.parameters())
    kept = (
        ""
        if recipe.data.validation or not recipe.data.holds_out
        else "`validation.jsonl` beside this card was kept from training."
    )
    lines = [
        "# A language model",
        "",
        f"Trained with clearhead: {size:,} parameters, width {shape.width}, {shape.layers} layers, "
        f"{shape.attention.heads} heads, {shape.max_positions} places, {recipe.tokenizer.kind} vocabulary; "
        f"{step:,} training steps.",
        "",
        "## Use",
        "",
        "    clearhead generate 'Once upon a time' --model THIS-FOLDER",
        "    clearhead evaluate THIS-FOLDER",
        "",
        "## Training data",
        "",
        *(f"- {_data(file)}" for file in recipe.data.train),
        *(["", kept] if kept else []),
        "",
        "## On the validation text",
        "",
        *(f"- {_name(name)} {value:.4f}" for name, value in scores.items()),
        *([] if scores else ["- not measured"]),
        "",
        "All settings are in `config.toml`, all measurements in `metrics.jsonl`.",
        "",
    ]
    return "\n".join(lines)


def _name(score: str) -> str:
    """In words; 'bleu en-de' is that of a direction."""
    kind, _, direction = score.partition(" ")
    return f"{_NAMES[kind]} {direction}".strip()


def _data(file: str | tuple[str, str]) -> str:
    shipped = {**SHIPPED, **SHIPPED_TEXTS}
    if isinstance(file, str) and file in shipped:
        return f"{file}: {shipped[file].description} ({shipped[file].licence})"
    return " and ".join(Path(one).name for one in ([file] if isinstance(file, str) else file))
