"""One spelling for what looks the same: composed characters, plain blanks, nothing invisible."""

from tokenizers import Regex, normalizers

# Control characters, and marks that show nothing: soft hyphen, zero-width space, marks of direction and byte
# order. The zero-width joiners stay: Persian, the scripts of India and many emoji are written with them.
INVISIBLE = (
    r"[\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f"
    r"\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
BLANKS = r"[\s\p{Z}\u001c-\u001f\u0085]+"

NORMALIZER = normalizers.Sequence(
    [
        normalizers.Replace(Regex(INVISIBLE), ""),
        normalizers.NFC(),
        normalizers.Replace(Regex(BLANKS), " "),
        normalizers.Strip(),
    ]
)


def normalize(text: str) -> str:
    """NFC, every run of spaces as one blank, none at the ends, no control characters."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return NORMALIZER.normalize_str(without_surrogates(text))


def without_surrogates(text: str) -> str:
    """The text without lone surrogates: halves of characters that no file can hold."""
    return text if text.isascii() else text.encode(errors="ignore").decode()
