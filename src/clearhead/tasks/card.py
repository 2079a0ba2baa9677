"""The card that goes with a model: what it is, what it learned from, how good it is."""

from collections.abc import Mapping
from pathlib import Path

from clearhead.data.datasets import SHIPPED
from clearhead.tasks.recipe import TranslationRecipe
from clearhead.text.languages import NAMES

_NAMES = {"loss": "loss per token", "bleu": "BLEU"}


def model_card(recipe: TranslationRecipe, parameters: int, step: int, scores: Mapping[str, float]) -> str:
    """A README in Markdown for a model's folder."""
    source, target = (NAMES[code] for code in recipe.data.languages)
    model = recipe.model
    lines = [
        f"# {source} to {target}",
        "",
        f"A translator trained with clearhead: {parameters:,} parameters, width {model.width}, "
        f"{model.encoder_layers} + {model.decoder_layers} layers, {model.attention.heads} heads, "
        f"{recipe.tokenizer.kind} vocabulary; {step:,} training steps.",
        "",
        "## Use",
        "",
        "    clearhead translate --model THIS-FOLDER 'A sentence.'",
        "    clearhead evaluate THIS-FOLDER",
        "",
        "## Training data",
        "",
        *(f"- {_data(file)}" for file in recipe.data.train),
        "",
        "`validation.tsv` and `test.tsv` beside this card were kept from training.",
        "",
        "## On the validation sentences",
        "",
        *(f"- {_NAMES[name]} {value:.2f}" for name, value in scores.items()),
        *([] if scores else ["- not measured"]),
        "",
        "All settings are in `config.toml`, all measurements in `metrics.jsonl`.",
        "",
    ]
    return "\n".join(lines)


def _data(file: str | tuple[str, str]) -> str:
    if isinstance(file, str) and file in SHIPPED:
        return f"{file}: {SHIPPED[file].description} ({SHIPPED[file].licence})"
    return " and ".join(Path(one).name for one in ([file] if isinstance(file, str) else file))
