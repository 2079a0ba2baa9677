"""Images for models that read them: samples of a model, and files that the page uploads."""

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from clearhead.data.images import ImageSource, decode
from clearhead.errors import SettingsError
from clearhead.explorer.explorable import Explorable

STORED_BYTES = 128_000_000
"""Memory for all uploaded files together."""
THUMBNAIL = 96
"""Height and width of a thumbnail, at most."""


class UnknownImageError(SettingsError):
    """There is no such image, or not any more."""

    status = 404


class ImageStore:
    """Uploaded files by a key made from their content; beyond the limit, the oldest are dropped."""

    def __init__(self, max_bytes: int = STORED_BYTES):
        self.max_bytes = max_bytes
        self._files: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, name: str, data: bytes) -> str:
        """Stores a file that is an image, and returns its key."""
        decode(data, name)
        key = hashlib.sha256(data).hexdigest()[:16]
        with self._lock:
            self._files[key] = (name, data)
            self._files.move_to_end(key)
            while len(self._files) > 1 and sum(len(one) for _, one in self._files.values()) > self.max_bytes:
                self._files.popitem(last=False)
        return key

    def get(self, key: str) -> tuple[str, bytes] | None:
        """The name and the content of a file; None if it is not there."""
        with self._lock:
            return self._files.get(key)


def samples_of(model: Explorable) -> Mapping[str, Any]:
    """The sample images of a model by name."""
    return getattr(model, "samples", {})


class FoundImage(NamedTuple):
    """An image that a request names."""

    key: str
    name: str
    """Its file."""
    source: ImageSource


def find_image(model: Explorable, key: str | None, store: ImageStore) -> FoundImage:
    """An image by its key: a sample, the first by default, or an uploaded file."""
    samples = samples_of(model)
    if key is None:
        if not samples:
            raise SettingsError("image: this model has no sample images; choose an image of your own")
        key = next(iter(samples))
    if key in samples:
        return FoundImage(key, str(samples[key]), samples[key])
    if (found := store.get(key)) is None:
        raise UnknownImageError(f"image: {key!r:.80} is not there any more; choose an image")
    return FoundImage(key, *found)


def thumbnail(model: Explorable, key: str, store: ImageStore) -> bytes:
    """A small PNG of an image."""
    found, buffer = find_image(model, key, store), io.BytesIO()
    image = decode(found.source, found.name)
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    image.save(buffer, "png")
    return buffer.getvalue()
