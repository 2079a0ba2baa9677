"""Copies public datasets to disk: from the package, a mirror folder or the network, with verified hashes."""

import gzip
import http.client
import io
import lzma
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from clearhead.data.converters import CONVERTERS
from clearhead.data.datasets import DATASETS, MIRROR, Dataset, PublicFile, shipped_file
from clearhead.data.sources.streams import content_hash
from clearhead.errors import DataError
from clearhead.files import atomic_path

NETWORK = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)
DECOMPRESSION = (gzip.BadGzipFile, EOFError, zlib.error)


def get_dataset(name: str, out: Path) -> list[Path]:
    """Writes the plain files of a dataset into a folder and returns them; each is complete or absent."""
    dataset = next((data for data in DATASETS if data.name == name), None)
    if dataset is None:
        raise DataError(f"{name}: no such dataset; choose from {', '.join(data.name for data in DATASETS)}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not dataset.archive:
            with lzma.open(shipped_file(name)) as content:
                return [_write(content, out / f"{name}{dataset.suffix}")]
        archive = Path(os.environ.get(MIRROR) or "", dataset.archive)
        if os.environ.get(MIRROR) and archive.is_file():
            return list(_extract(archive, dataset.files, out))
        if os.environ.get(MIRROR) and archive.is_dir():
            return _copy(archive, dataset.files, out)
        if dataset.convert:
            return _convert(dataset, out)
        return [_download(file.url, out / file.name, file.sha256) for file in dataset.files]
    except OSError as error:
        raise DataError(f"{out}: cannot be written ({error.strerror or error})") from None


def _extract(archive: Path, files: tuple[PublicFile, ...], out: Path) -> Iterator[Path]:
    """Extracts only the listed files, under their listed names; paths inside the archive are ignored."""
    wanted = {file.name: file for file in files}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                file = wanted.pop(member.name.removeprefix("./"), None)
                content = tar.extractfile(member) if file and member.isfile() else None
                if file and content:
                    yield _write(content, out / file.name, file.sha256)
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise DataError(f"{archive}: cut short or not a .tar.xz file ({error})") from None
    if wanted:
        raise DataError(f"{archive}: lacks {', '.join(wanted)}; download the archive again")


def _copy(folder: Path, files: tuple[PublicFile, ...], out: Path) -> list[Path]:
    """Writes the files of a mirror that holds each by itself, as it is or as .xz, or in archives."""
    archives = {name: archive for archive in sorted(folder.glob("*.tar.xz")) for name in _listed(archive)}
    found = []
    for file in files:
        if (folder / file.name).is_file():
            with (folder / file.name).open("rb") as content:
                found.append(_write(content, out / file.name, file.sha256))
        elif file.name in archives:
            found += _extract(archives[file.name], (file,), out)
        else:
            found.append(_decompress(folder / f"{file.name}.xz", file, out))
    return found


def _listed(archive: Path) -> list[str]:
    """The names of the files in an archive."""
    try:
        with tarfile.open(archive) as tar:
            return [member.name.removeprefix("./") for member in tar if member.isfile()]
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise DataError(f"{archive}: cut short or not a .tar.xz file ({error})") from None


def _decompress(packed: Path, file: PublicFile, out: Path) -> Path:
    """Unpacks one file of a mirror that holds each file by itself."""
    try:
        with lzma.open(packed) as content:
            return _write(content, out / file.name, file.sha256)
    except FileNotFoundError:
        raise DataError(f"{packed}: is missing; copy it there, or unset {MIRROR}") from None
    except (lzma.LZMAError, EOFError) as error:
        raise DataError(f"{packed}: cut short or not an .xz file ({error})") from None


def _convert(dataset: Dataset, out: Path) -> list[Path]:
    """Downloads an archive in another form and writes the files made from it; these have no public hash."""
    if all((out / file.name).is_file() for file in dataset.files):
        return [out / file.name for file in dataset.files]
    archive = _download(dataset.address, out / Path(dataset.address).name)
    try:
        written = [
            _write(io.BytesIO(content), out / name) for name, content in CONVERTERS[dataset.convert](archive)
        ]
    except (tarfile.TarError, *DECOMPRESSION) as error:
        raise DataError(f"{archive}: cut short or not an archive ({error}); download it again") from None
    finally:
        archive.unlink()
    return written


def _download(url: str, path: Path, sha256: str | None = None) -> Path:
    if sha256 and path.is_file() and content_hash(path) == sha256:
        return path
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            packed = url.endswith(".gz") and not url.endswith(".tar.gz")
            content = gzip.GzipFile(fileobj=response) if packed else response
            return _write(content, path, sha256)
    except (*NETWORK, *DECOMPRESSION) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"{url}: download failed ({reason}); check the network, "
            f"or set {MIRROR} to a folder that holds a copy"
        ) from None


def _write(content: IO[bytes] | Any, path: Path, sha256: str | None = None) -> Path:
    """Writes a file that gets its name only once it is complete and verified."""
    with atomic_path(path) as temporary:
        with temporary.open("wb") as file:
            shutil.copyfileobj(content, file)
        if sha256 and (found := content_hash(temporary)) != sha256:
            raise DataError(
                f"{path.name}: SHA-256 is {found[:12]}…, not {sha256[:12]}… as published; download it again"
            )
    return path
