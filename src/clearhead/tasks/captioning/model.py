"""A trained captioner in use: images in, captions out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, overload

import torch
from jaxtyping import UInt8
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.config import parse_settings
from clearhead.data.caption_processor import CaptionProcessor
from clearhead.data.images import ImageSource
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.decoding import Constraints, Hypothesis, Tree, beam_search, check_search, greedy_search
from clearhead.errors import TextError
from clearhead.inspection.explanation import Explanation, explain_pass
from clearhead.inspection.image import patch_image
from clearhead.layers.layout import Plain
from clearhead.models import Captioner
from clearhead.options import Options, check_text
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.model import DecodingModel
from clearhead.tasks.samples import sample_images
from clearhead.tasks.translation.options import SearchConfig
from clearhead.tasks.translation.pair import target_tokens
from clearhead.tasks.translation.search import prefix_ids
from clearhead.text.tokenizer import BOS, EOS, UNK, Tokenizer

# Images that are described at once.
BATCH = 128


@dataclass(frozen=True)
class GeneratedCaption:
    """A caption that a model wrote; `str()` gives the text."""

    text: str
    score: float
    """The log-probability divided by the length penalty."""
    sum_log_prob: float
    complete: bool = True
    """False if it reached the maximum length."""
    nbest: tuple["GeneratedCaption", ...] = field(default=(), repr=False)
    """The n best captions, this one first."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class CaptionOptions(Options):
    """How to search for captions; a beam of 1 is greedy."""

    beam: int | None = None
    """Default: the model's own setting."""
    nbest: int = 1
    length_penalty: float | None = None
    """Exponent of the length penalty. Default: the model's own setting."""
    prefix: str | Sequence[int] = ""
    """A forced start of the captions, as text or as ids."""

    def resolved(self, search: SearchConfig) -> "CaptionOptions":
        """The same options, with a model's own settings as defaults."""
        beam = search.beam if self.beam is None else self.beam
        penalty = search.length_penalty if self.length_penalty is None else self.length_penalty
        check_search(beam, self.nbest, penalty)
        return replace(self, beam=beam, length_penalty=penalty)


class CaptionModel(DecodingModel):
    """A captioner with its image processor and its tokenizer."""

    task = "captioning"
    evaluate_unit: ClassVar[str] = "image"

    def __init__(self, model: Captioner, processor: CaptionProcessor, search: SearchConfig):
        self.model, self.processor, self.search = model.eval(), processor, search

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "CaptionModel":
        search = parse_settings(SearchConfig, checkpoint.settings.get("search", {}), group="search")
        assert isinstance(checkpoint.model, Captioner)
        return cls(checkpoint.model, checkpoint.processor, search)

    def facts(self) -> list[str]:
        return [f"vocabulary {self.tokenizer.size:,}"]

    @property
    def tokenizer(self) -> Tokenizer:
        return self.processor.tokenizer

    @property
    def device(self) -> torch.device:
        return self.model.readout_weight.device

    @overload
    def caption(
        self,
        images: ImageSource,
        *,
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
    ) -> GeneratedCaption: ...
    @overload
    def caption(
        self,
        images: list[ImageSource],
        *,
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
    ) -> list[GeneratedCaption]: ...
    def caption(
        self,
        images: ImageSource | list[ImageSource],
        *,
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
    ) -> GeneratedCaption | list[GeneratedCaption]:
        """The caption of an image, or of each of several; an image is a file, bytes, or an array.

        Keyword arguments are those of `CaptionOptions`. A caption does not depend on the images beside it.
        """
        several = images if isinstance(images, list) else [images]
        options = CaptionOptions(beam, nbest, length_penalty)
        found = self.caption_pixels(self.processor.image.pixels(several), options)
        return found if isinstance(images, list) else found[0]

    def caption_pixels(
        self,
        pixels: UInt8[Tensor, "images 3 size size"],
        options: CaptionOptions | None = None,
        progress: ProgressCallback = ignore_progress,
    ) -> list[GeneratedCaption]:
        """The captions of images that are decoded and scaled already."""
        options, found = (options or CaptionOptions()).resolved(self.search), []
        progress(0, len(pixels))
        for batch in pixels.split(BATCH) if len(pixels) else ():
            found += map(self._generated, self._search(batch, options))
            progress(len(found), len(pixels))
        return found

    @torch.inference_mode()
    def words(self, image: ImageSource, count: int = 10) -> dict[str, float]:
        """The words that captions of an image are most likely to have, by the encoder alone.

        The values are shares of all words that captions of the image have, weighted as in training.
        """
        encoded = self.model.encode(self._inputs(self.processor.image.pixels([image])))
        shares = self.model.word_logits(encoded)[0].float().softmax(-1)
        special = len(self.tokenizer.special_tokens)
        best = shares[special:].topk(min(count, len(shares) - special))
        pieces = list(map(self.tokenizer.piece, (best.indices + special).tolist()))
        return dict(zip(pieces, best.values.tolist(), strict=True))

    def explain(
        self,
        text: ImageSource,
        *,
        target: str | None = None,
        names: Sequence[str] = ("*",),
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        prefix: str | Sequence[int] = "",
    ) -> Explanation:
        """A caption at full speed, then one captured pass over image and caption.

        The first argument is an image, here a file's name, because commands pass the texts of other models
        like this. Captures a given caption, `target`, instead of the model's own. The other keyword
        arguments are those of `CaptionOptions`.
        """
        pixels = self.processor.image.pixels([text])
        options = CaptionOptions(beam, nbest, length_penalty, prefix).resolved(self.search)
        found, tree = [], None
        if target is None:
            tree = Tree(EOS, options.beam or 1)
            (found,) = self._search(pixels, options, tree)
        ids = found[0].tokens if found else self._encoded(target)
        inputs = torch.tensor([[BOS, *ids]], device=self.device)
        images = self._inputs(pixels)
        explanation = explain_pass(
            self.model,
            lambda: self.model(images, Plain(), inputs)[0],
            {"target": target_tokens(self.tokenizer, ids, not found or found[0].complete, bool(found))},
            names,
            self.tokenizer,
            str(text) if isinstance(text, str | Path) else "image",
            self.tokenizer.decode(ids),
            found=self._generated(found) if found else None,
            images={"image": patch_image(pixels[0], self.model.config.encoder)},
        )
        return replace(explanation, settings=asdict(options), name=self.name, tree=tree)

    @property
    def samples(self) -> dict[str, Path]:
        """Sample images in the model's folder, for the explorer."""
        return sample_images(self.name)

    def about(self) -> dict[str, Any]:
        """The settings of the search, for the explorer."""
        return {"beam": self.search.beam, "length_penalty": self.search.length_penalty}

    def explain_options(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `explain` for an explorer request."""
        beam, prefix = request.get("beam"), request.get("forced") or request.get("prefix")
        given = {"target": request.get("target")}
        return {**given, **({"beam": beam} if beam else {}), **({"prefix": prefix} if prefix else {})}

    def evaluate(
        self,
        folder: Path | str | None = None,
        *,
        data: str | None = None,
        beam: int | None = None,
        length_penalty: float | None = None,
        out: Path | str | None = None,
        progress: ProgressCallback = ignore_progress,
        reading: ProgressCallback = ignore_progress,
    ) -> Evaluation:
        """Scores on the captions of a file, or on the recipe's test images; `out` receives the captions."""
        from clearhead.tasks.captioning.evaluate import evaluate

        return evaluate(
            self,
            self._held_out(folder),
            data=data,
            out=None if out is None else Path(out),
            options=CaptionOptions(beam=beam, length_penalty=length_penalty),
            progress=progress,
            reading=reading,
        )

    def _inputs(self, pixels: UInt8[Tensor, "images 3 size size"]) -> Tensor:
        return self.processor.image.normalize(pixels.to(self.device))

    @torch.inference_mode()
    def _search(
        self, pixels: Tensor, options: CaptionOptions, tree: Tree | None = None
    ) -> list[list[Hypothesis]]:
        model = self.engine
        state = model.start(self._inputs(pixels))
        start = torch.full((len(pixels),), BOS, device=self.device)
        forced = [prefix_ids(self.tokenizer, options.prefix)] * len(pixels)
        constraints = Constraints(start, EOS, self.model.config.max_tokens, forced, suppressed_tokens=[UNK])
        beam, penalty = options.beam or 1, options.length_penalty or 0.0
        if beam == 1 and not tree:
            return [[one] for one in greedy_search(model.step, state, constraints, penalty)]
        return beam_search(model.step, state, constraints, beam, penalty, options.nbest, tree)

    def _generated(self, found: list[Hypothesis]) -> GeneratedCaption:
        nbest = tuple(
            GeneratedCaption(self.tokenizer.decode(one.tokens), one.score, one.sum_log_prob, one.complete)
            for one in found
        )
        return replace(nbest[0], nbest=nbest)

    def _encoded(self, target: str | None) -> list[int]:
        check_text(target, "target")
        ids = self.tokenizer.encode(target or "")
        if not ids:
            raise TextError("target: is blank; give a caption, or leave it out to explain the model's own")
        if len(ids) > self.model.config.max_tokens:
            raise TextError(
                f"target: {len(ids)} tokens, but the model takes at most {self.model.config.max_tokens}; "
                "shorten it"
            )
        return ids
