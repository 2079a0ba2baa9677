"""The table of public datasets: content, licence and location."""

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
    address: str = ""
    listing: str = ""
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


DATASETS = (
    Dataset(
        name="tatoeba-en-de",
        languages=("en", "de"),
        licence="CC-BY 2.0 FR, www.manythings.org/anki and tatoeba.org",
        description="166,384 short everyday sentence pairs, edition of 2018-05-13",
    ),
    Dataset(
        name="tatoeba-en-fr",
        languages=("en", "fr"),
        licence="CC-BY 2.0 FR, www.manythings.org/anki and tatoeba.org",
        description="163,748 short everyday sentence pairs, edition of 2019-04-07",
    ),
    Dataset(
        name="shakespeare",
        languages=("en",),
        licence="public domain; selected by Andrej Karpathy (char-rnn, MIT)",
        description="Tiny Shakespeare: 1,115,394 characters of plays in one text",
        suffix=".txt",
    ),
    Dataset(
        name="multi30k",
        languages=("en", "de", "fr", "cs"),
        licence="non-commercial research and education only",
        description="29,000 image captions with human translations, validation set, tests of 2016 and 2017",
        archive="multi30k/multi30k-task1-raw.tar.xz",
        address="https://raw.githubusercontent.com/multi30k/dataset/"
        "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/{name}.gz",
        listing="""
        460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6 train.en
        2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72 train.de
        5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d train.fr
        2be68b38c8d586ff4f54eb13cc6e1baaaa053695b3f070d3038303a47f2268da train.cs
        1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227 val.en
        660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660 val.de
        5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc val.fr
        d53827e469b0a1ca8d57e9e26b2b64c4bc4b33f5479c7b03ae87ae5c882c3e33 val.cs
        399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182 test_2016_flickr.en
        4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16 test_2016_flickr.de
        cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6 test_2016_flickr.fr
        45adb85f688de8407fddcbe1b36dca15d12aab868149b337e2576f2d6d2ff8d8 test_2016_flickr.cs
        ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98 test_2017_flickr.en
        c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081 test_2017_flickr.de
        6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6 test_2017_flickr.fr
        """,
    ),
    Dataset(
        name="newstest",
        languages=("en", "de", "fr"),
        licence="released for research use (statmt.org)",
        description="WMT news test sets of 2012 and 2013, German-English, and of 2013, English-French",
        archive="newstest/newstest-2012-2013.tar.xz",
        address="https://raw.githubusercontent.com/Helsinki-NLP/OPUS-MT-testsets/"
        "ac0f19c0be3cb4e0d9450fcb2d7a9847c4bdd180/testsets/{1}/{0}.{2}",
        listing="""
        946b9587b79271b0f3ce9cc8c0e5b310e3021ef598e1ba5dc2a24fef8960de30 newstest2012.deu-eng.deu
        f9e51f85c4948033fc7d77ef427f4d88908a8dd3f778970f62d0baafac3ff97e newstest2012.deu-eng.eng
        d7ea35ab91ff3709e03ad9cb6bf5b4f2cc775cd2d72efd5254c4aec5e69663ca newstest2013.deu-eng.deu
        ace268a1d9724ca76f6d8e5c720ffdc08f01bdce45630ed8b269dc7918e1c16e newstest2013.deu-eng.eng
        ace268a1d9724ca76f6d8e5c720ffdc08f01bdce45630ed8b269dc7918e1c16e newstest2013.eng-fra.eng
        909b63be5df3eb8c13e1d5967bf3f0adfdb9f6ed5e638c5bffff563ee2ff7f41 newstest2013.eng-fra.fra
        """,
    ),
)
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
