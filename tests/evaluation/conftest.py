"""Two systems' translations of the same sentences, one clearly better."""

import random
from types import SimpleNamespace

import pytest

TEXT = "der die das Hund Katze läuft schläft im Garten Dr. z.B. U.S. 3,5 % (nicht) „weit“ Müller's groß - und"


@pytest.fixture(scope="session")
def texts() -> SimpleNamespace:
    rng = random.Random(5)
    words = TEXT.split()

    def noisy(line: str, share: float) -> str:
        return " ".join(rng.choice(words) if rng.random() < share else word for word in line.split())

    references = [" ".join(rng.choices(words, k=rng.randint(3, 30))) + "." for _ in range(120)]
    return SimpleNamespace(
        sources=[" ".join(["word"] * (1 + line.count(" "))) for line in references],
        references=references,
        good=[noisy(line, 0.2) for line in references],
        bad=[noisy(line, 0.4) for line in references],
    )
