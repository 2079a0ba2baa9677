"""Public datasets by name; the table is in assets/data/datasets.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from clearhead import assets

MIRROR = "CLEARHEAD_DATA"


@dataclass(frozen=True)
class PublicFile:
    """One plain file of a dataset: its public address, and the SHA-256 of its decompressed content."""

    name: str
    url: str
    sha256: str


@dataclass(frozen=True)
class Dataset:
    """A dataset; one without an archive is shipped inside the package."""

    name: str
    languages: tuple[str, ...]
    licence: str
    description: str
    archive: str = ""
    """In a mirror folder: a .tar.xz file, or a folder with the files, each as it is or as .xz, or in .tar.xz
    files."""
    address: str = ""
    listing: str = ""
    convert: str = ""
    """Where the address is that of an archive in another form: the name of its converter."""
    suffix: str = ".tsv"
    """Of a shipped dataset: .tsv for pairs, .txt for running text."""

    @property
    def files(self) -> tuple[PublicFile, ...]:
        """Hash and name are from the listing; the name and its parts complete the address."""
        words = iter(self.listing.split())
        rows = zip(words, words, strict=True)
        return tuple(PublicFile(n, self.address.format(*n.split("."), name=n), sha256) for sha256, n in rows)

    @property
    def where(self) -> str:
        """Where the data comes from, for display."""
        return f"{self.address.split('/')[2]}, or a folder named in {MIRROR}" if self.address else "shipped"


_TABLE = tomllib.loads(assets.path("data/datasets.toml").read_text(encoding="utf-8"))
DATASETS = tuple(Dataset(**row | {"languages": tuple(row["languages"])}) for row in _TABLE["dataset"])
SHIPPED = {data.name: data for data in DATASETS if not data.archive and data.suffix == ".tsv"}
"""Pairs in the package."""
SHIPPED_TEXTS = {data.name: data for data in DATASETS if not data.archive and data.suffix == ".txt"}
"""Running text in the package."""


def list_datasets() -> tuple[Dataset, ...]:
    """All known datasets."""
    return DATASETS


def shipped_file(name: str) -> Path:
    """The file of a shipped dataset inside the package."""
    dataset = {**SHIPPED, **SHIPPED_TEXTS}[name]
    return assets.path(f"data/{name}{dataset.suffix}.xz")


def is_shipped(path: str | Path, datasets: dict[str, Dataset]) -> bool:
    """Whether a path is the name of one of these datasets; a file of that name takes precedence."""
    return str(path) in datasets and not Path(path).exists()


def absolute_path(path: str, datasets: dict[str, Dataset]) -> str:
    """The absolute path of a file or folder; the name of one of these datasets stays as it is."""
    return path if is_shipped(path, datasets) else str(Path(path).absolute())
