"""Text to mask: plain files, their lines, or the columns of tables."""

from collections.abc import Iterator, Sequence

from clearhead.data.batching.crops import TextBatchingConfig
from clearhead.data.batching.masking import MaskedTexts, Masking
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.datasets import is_shipped
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.sources import READERS
from clearhead.data.sources.documents import (
    TABLES,
    check_tables,
    check_texts,
    files,
    read_all_documents,
    read_column,
    read_lines,
)
from clearhead.data.sources.plain_text import TextChunk, read_plain_text
from clearhead.data.sources.streams import suffix
from clearhead.data.store import TextStore
from clearhead.tasks.language.data import TextCorpus
from clearhead.tasks.masked.recipe import MaskedTextConfig
from clearhead.text.tokenizer import Tokenizer


class MaskedCorpus(TextCorpus):
    """Documents to mask, split into training and validation."""

    config: MaskedTextConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def all_documents(self, names: Sequence[str]) -> Iterator[TextChunk]:
        field = self.config.field
        for file in (file for name in names for file in files(name)):
            reader = READERS.get(suffix(file))
            if suffix(file) in TABLES:
                yield from read_column(file, field or 0)
            elif self.config.documents == "line" and (not reader or reader.documents is read_plain_text):
                yield from read_lines(file)
            else:
                yield from read_all_documents([file], None if field is None else str(field))


def check_masked_texts(config: MaskedTextConfig, option: str = "--set data.field=NUMBER") -> None:
    """Raises DataError for missing files, and for tables without a named column."""
    check_texts(config.paths, config.SHIPPED)
    check_tables(
        [path for path in config.paths if not is_shipped(path, config.SHIPPED)], config.field, option
    )


def masked_texts(
    store: TextStore,
    tokenizer: Tokenizer,
    config: TextBatchingConfig,
    masking: Masking,
    seed: int = 0,
    share: Share = SINGLE,
) -> MaskedTexts:
    """Batches of a store's documents, each between the tokens that begin and end a text."""
    start, end = tokenizer.bos_id, tokenizer.eos_id
    delimiters = None if start is None or end is None else (start, end)
    return MaskedTexts(DelimitedDocuments(store, delimiters), config, masking, seed, share)
