"""Tests of word vectors."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clearhead.errors import DataError
from clearhead.evaluation.word_tests import (
    AnalogyScore,
    analogy_scores,
    read_word_test,
    similarity_score,
    spearman,
    total,
)


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "test.txt").write_text(text)
    return tmp_path / "test.txt"


def test_spearman_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    rng = np.random.default_rng(0)
    for _ in range(5):
        # Few values, so that many are equal.
        one, other = rng.integers(0, 8, 50), rng.integers(0, 8, 50)
        found = spearman(torch.tensor(one).float(), torch.tensor(other).float())
        assert found == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-12)


def test_spearman_depends_on_the_order_alone():
    values = torch.tensor([0.3, -1.0, 2.0, 0.5])
    assert spearman(values, values.exp()) == pytest.approx(1)
    assert spearman(values, -(values**3)) == pytest.approx(-1)
    # Ranks 1.5, 1.5, 3 and 1, 2, 3: a correlation of √3/2.
    assert spearman(torch.tensor([1.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0])) == pytest.approx(3**0.5 / 2)
    assert spearman(torch.ones(4), values) is None
    assert spearman(torch.ones(0), torch.ones(0)) is None


def test_pairs_are_scored_by_cosine_and_unknown_words_skipped(tmp_path: Path):
    test = read_word_test(written(tmp_path, "a\tb\t9.5\na c 2\n# comment\n\nb\tc\t4\na\tx\t1\n"))
    vectors = F.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.5], [0.0, 1.0]]), dim=-1)
    score = similarity_score(test, vectors, {"a": 0, "b": 1, "c": 2}.get)
    assert (score.correlation, score.tested, score.skipped) == (pytest.approx(1), 3, 1)


def test_analogies_are_answered_by_the_nearest_other_word(tmp_path: Path):
    words = {"man": 0, "woman": 1, "king": 2, "queen": 3, "boy": 4}
    vectors = torch.tensor([[1.0, 0, 0.2], [0, 1.0, 0.2], [1.0, 0, 2], [0, 1.0, 2], [1.0, 0, 0]])
    text = ": family\nman woman king queen\nman king boy woman\n: more\nman woman pope nun\n"
    scores = analogy_scores(read_word_test(written(tmp_path, text)), F.normalize(vectors, dim=-1), words.get)
    assert scores == [AnalogyScore("family", 1, 2, 0), AnalogyScore("more", 0, 0, 1)]
    assert total(scores, "all") == AnalogyScore("all", 1, 2, 1)


def test_the_published_tests_are_read(measuring_data: Path, tmp_path: Path):
    import tarfile

    archive = measuring_data / "word-vectors" / "word-similarity-and-analogies.tar.xz"
    if not archive.exists():
        pytest.skip("no tests of word vectors in CLEARHEAD_DATA")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    sizes = {path.name: read_word_test(path).size for path in tmp_path.glob("*.txt")}
    assert sizes == {
        "EN-WS-353-ALL.txt": 353,
        "EN-SIMLEX-999.txt": 999,
        "EN-RG-65.txt": 65,
        "questions-words.txt": 19_544,
    }


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a b 1\na b c\n", "line 2: 'a b c' is neither 'word word score' nor an analogy of four words"),
        ("a b c d\na b 1\n", "line 2: 'a b 1' is neither"),
        ("a b nan\n", "line 1: 'a b nan' is neither"),
        (": section\n", "holds no tests"),
        ("", "is empty"),
    ],
)
def test_a_file_of_another_kind_is_one_line(text: str, error: str, tmp_path: Path):
    with pytest.raises(DataError, match=error) as raised:
        read_word_test(written(tmp_path, text))
    assert "\n" not in str(raised.value)
