"""Example texts by language: the lectures' sentences, and a word with two meanings."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Meanings:
    """A word in three texts: one meaning, another, and the first again at another position, as a control."""

    word: str
    first: str
    second: str
    moved: str

    @property
    def texts(self) -> list[str]:
        return [self.first, self.second, self.moved]

    def record(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Examples:
    """The texts of a language."""

    windows: str
    computer: str
    cat: str
    repeated: str
    """The word that occurs twice in `cat`."""
    meanings: Meanings


ENGLISH = Examples(
    "I closed the windows.",
    "I bought a new windows for my computer.",
    "Your cat is a lovely cat.",
    "cat",
    Meanings(
        "bank",
        "He sat on the bank of the river.",
        "He borrowed money from the bank.",
        "Yesterday he sat on the bank of the river.",
    ),
)
EXAMPLES = {
    "en": ENGLISH,
    "de": Examples(
        "Ich habe die Fenster geschlossen.",
        "Ich habe zwei neue Fenster auf meinem Computer.",
        "Deine Katze ist eine schöne Katze.",
        "Katze",
        Meanings(
            "Schloss",
            "Wir haben das alte Schloss des Königs besucht.",
            "Der Schlüssel steckt im Schloss.",
            "Das alte Schloss des Königs haben wir besucht.",
        ),
    ),
    "fr": Examples(
        "J'ai fermé les fenêtres.",
        "J'ai deux nouvelles fenêtres sur mon ordinateur.",
        "Ton chat est un joli chat.",
        "chat",
        Meanings(
            "feu",
            "Arrête-toi au feu rouge.",
            "Le feu brûle dans la cheminée.",
            "Au feu rouge, arrête-toi.",
        ),
    ),
}
"""By the source language; other languages get the English texts."""
PROMPT = "Once upon a time"
