"""Text normalization: NFC, single spaces, no invisible characters."""

from unicodedata import is_normalized

from tokenizers import Regex, normalizers

# Control characters, soft hyphen, zero-width space, and marks of direction and byte order. Zero-width joiners
# stay: Persian, Indic scripts and many emoji need them.
INVISIBLE = (
    r"[\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f"
    r"\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
WHITESPACE = r"[\s\p{Z}\u001c-\u001f\u0085]+"

NORMALIZER = normalizers.Sequence(
    [
        normalizers.Replace(Regex(INVISIBLE), ""),
        normalizers.NFC(),
        normalizers.Replace(Regex(WHITESPACE), " "),
        normalizers.Strip(),
    ]
)


def normalize(text: str) -> str:
    """The text in NFC, without invisible characters, with single spaces and none at the ends."""
    # Printable text has no whitespace but spaces, and none of the characters that are removed.
    if text.isprintable() and "  " not in text and is_normalized("NFC", text):
        return text.strip()
    return NORMALIZER.normalize_str(without_surrogates(text))


def without_surrogates(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot represent."""
    return text if text.isascii() else text.encode(errors="ignore").decode()
