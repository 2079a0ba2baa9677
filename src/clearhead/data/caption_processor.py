"""The processor of captioners: an image processor, and the tokenizer of captions."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Self

from clearhead.data.image_processor import MEMBERS, ImageProcessor
from clearhead.files import write_text
from clearhead.text.processor import check_members, read_json
from clearhead.text.tokenizer import Tokenizer


class CaptionProcessor:
    """Images to normalised pixels, and captions to ids."""

    FILE = "processor.json"
    reads = "image"

    def __init__(self, image: ImageProcessor, tokenizer: Tokenizer):
        self.image, self.tokenizer = image, tokenizer

    @property
    def size(self) -> int:
        """The number of embeddings that a model needs."""
        return self.tokenizer.size

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.image.fingerprint} {self.tokenizer.fingerprint}".encode()).hexdigest()

    def save(self, path: Path) -> None:
        content = {"image": asdict(self.image), "tokenizer": json.loads(self.tokenizer.to_json())}
        write_text(path, json.dumps(content, ensure_ascii=False))

    @classmethod
    def load(cls, path: Path) -> Self:
        content = read_json(path, {"image": dict, "tokenizer": dict})
        tokenizer = Tokenizer.from_json(json.dumps(content["tokenizer"]), str(path))
        image = check_members(content["image"], MEMBERS, path)
        return cls(ImageProcessor.from_json(image, path), tokenizer)
