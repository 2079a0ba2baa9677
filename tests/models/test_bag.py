"""A bag of words equals scikit-learn's pipelines, and its evidence adds up."""

import builtins
import re

import numpy as np
import pytest
import torch

from clearhead.data.bags import TOKEN, BagVocabulary
from clearhead.errors import DataError, ModelError
from clearhead.models.bag import Bag, BagConfig, CountedTexts, calibrated_temperature

sklearn = pytest.importorskip("sklearn")

WORDS = ["good", "bad", "fine", "dull", "film", "plot", "not", "very", "a", "the", ",", "actor's"]
GOOD, BAD = {"good", "fine"}, {"bad", "dull"}


def made_up(count: int, classes: int = 2, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Random texts, and classes that depend on their words."""
    random = np.random.default_rng(seed)
    texts = [" ".join(random.choice(WORDS, size=random.integers(1, 14))) for _ in range(count)]
    scores = [sum((w in GOOD) - (w in BAD) for w in text.split()) + random.normal() for text in texts]
    return texts, np.digitize(scores, np.linspace(-1, 1, classes + 1)[1:-1])


def fitted(texts: list[str], classes: np.ndarray, **settings) -> tuple[Bag, CountedTexts]:
    config = BagConfig.model_validate(settings)
    counted = CountedTexts.of(texts, tuple(map(str, range(classes.max() + 1))), config)
    return Bag.fit(config, counted, classes, seed=3)[0], counted


def margins(model: Bag, counted: CountedTexts, texts: list[str]) -> np.ndarray:
    return model.margins(model.bags(counted.vocabulary.encode(texts))).detach().numpy()


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("longest", [1, 2, 3])
def test_tfidf_with_svm_equals_scikit_learns_pipeline(classes: int, longest: int):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    (texts, labels), (others, _) = made_up(300, classes), made_up(50, classes, seed=1)
    model, counted = fitted(texts, labels, max_ngram=longest, weighting="tfidf", classifier="svm")
    vectors = TfidfVectorizer(token_pattern=TOKEN.pattern, ngram_range=(1, longest))
    reference = make_pipeline(vectors, LinearSVC(dual=True, random_state=3)).fit(texts, labels)
    expected = reference.decision_function([*others, ""]).reshape(len(others) + 1, -1)
    np.testing.assert_allclose(margins(model, counted, [*others, ""]), expected, atol=2e-3)


@pytest.mark.parametrize("min_documents", [1, 5])
def test_counts_with_logistic_regression_equal_scikit_learns_pipeline(min_documents: int):
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    texts, labels = made_up(300)
    model, counted = fitted(
        texts, labels, max_ngram=3, weighting="counts", classifier="logistic", min_documents=min_documents
    )
    vectors = CountVectorizer(token_pattern=TOKEN.pattern, ngram_range=(1, 3), min_df=min_documents)
    matrix = vectors.fit_transform(texts)
    assert {*map(counted.vocabulary.text, counted.ngrams.tolist())} == {*vectors.vocabulary_}
    solver = LogisticRegression(solver="liblinear", dual=True, random_state=3, max_iter=1000)
    expected = solver.fit(matrix, labels).decision_function(matrix)
    np.testing.assert_allclose(margins(model, counted, texts)[:, 0], expected, atol=2e-2)


def test_naive_bayes_weights_are_log_count_ratios():
    """As written by Wang and Manning 2012, with dense matrices."""
    from sklearn.linear_model import LogisticRegression

    texts, labels = made_up(300)
    model, counted = fitted(texts, labels, max_ngram=2, weighting="naive_bayes", classifier="logistic")
    occurs = np.zeros((len(texts), len(counted.ngrams)))
    occurs[counted.bags.rows(), counted.bags.columns] = 1
    p, q = (1 + occurs[labels == one].sum(0) for one in (1, 0))
    ratio = np.log((p / p.sum()) / (q / q.sum()))
    solver = LogisticRegression(solver="liblinear", dual=True, random_state=3, max_iter=1000)
    expected = solver.fit(occurs * ratio, labels).decision_function(occurs * ratio)
    np.testing.assert_allclose(margins(model, counted, texts)[:, 0], expected, atol=2e-2)


@pytest.mark.parametrize(("classes", "weighting"), [(2, "naive_bayes"), (3, "tfidf"), (2, "counts")])
def test_the_evidence_of_a_text_and_the_bias_add_up_to_its_margin(classes: int, weighting: str):
    texts, labels = made_up(200, classes)
    model, counted = fitted(texts, labels, weighting=weighting)
    for label in range(classes):
        [added] = model.contributions(counted.vocabulary.encode(texts[:1]), label)
        column, side = (0, 1 if label else -1) if classes == 2 else (label, 1)
        total = sum(added.values()) + side * float(model.bias.detach()[column])
        assert total == pytest.approx(side * margins(model, counted, texts[:1])[0, column], abs=1e-4)


def test_unigrams_ignore_order_and_bigrams_do_not():
    texts, labels = made_up(200)
    (one, words), (two, pairs) = (fitted(texts, labels, max_ngram=n) for n in (1, 2))
    order = ["not bad , very good", "very good , not bad", "bad not , good very"]
    assert np.ptp(margins(one, words, order)) < 1e-5
    assert np.ptp(margins(two, pairs, order)) > 1e-3


def test_unknown_words_break_ngrams_and_count_for_nothing():
    texts, labels = made_up(200)
    model, counted = fitted(texts, labels, max_ngram=2, weighting="counts")
    known = margins(model, counted, ["very", "good"])
    apart = margins(model, counted, ["very xyzzy good"])
    np.testing.assert_allclose(apart, known.sum(0, keepdims=True) - model.bias.item(), rtol=1e-4, atol=1e-4)
    assert margins(model, counted, ["xyzzy", ""]) == pytest.approx(model.bias.item())


def test_the_temperature_makes_held_out_labels_most_likely():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5000, 3, generator=generator) * 5
    classes = torch.multinomial((logits / 4).softmax(-1), 1, generator=generator)[:, 0]
    found = calibrated_temperature(logits, classes.numpy())
    loss = [
        float(torch.nn.functional.cross_entropy(logits / t, classes))
        for t in (found, 0.97 * found, 1.03 * found)
    ]
    assert min(loss) == loss[0]
    assert 3 < found < 5.5


@pytest.mark.parametrize(
    ("classes", "weighting", "classifier"), [(2, "counts", "logistic"), (3, "tfidf", "svm")]
)
def test_separable_texts_do_not_make_the_model_certain(classes: int, weighting: str, classifier: str):
    texts = [f"word{n % classes} film {n}" for n in range(90)]
    labels = np.arange(90) % classes
    model, counted = fitted(texts[:60], labels[:60], weighting=weighting, classifier=classifier)
    encode = counted.vocabulary.encode
    with torch.no_grad():
        model.temperature.fill_(calibrated_temperature(model(encode(texts[60:])), labels[60:]))
        own, nothing = model(encode(["word0 film", "xyzzy"])).softmax(-1)
    assert 0.8 < own[0] < 0.99
    np.testing.assert_allclose(nothing, np.full(classes, 1 / classes), atol=0.1)


def test_a_vocabulary_is_saved_as_plain_data(tmp_path):
    vocabulary = BagVocabulary(["gut", "böse"], 3, ("ja", "nein"), lowercase=True)
    vocabulary.save(tmp_path / BagVocabulary.FILE)
    loaded = BagVocabulary.load(tmp_path / BagVocabulary.FILE)
    assert loaded.fingerprint == vocabulary.fingerprint
    assert loaded.encode(["BÖSE neu gut"]).ids.tolist() == [2, 0, 1]
    (tmp_path / BagVocabulary.FILE).write_text(
        '{"words": ["a", "a"], "ngrams": 1, "labels": [], "lowercase": true}'
    )
    with pytest.raises(ModelError, match="'words' are not distinct texts"):
        BagVocabulary.load(tmp_path / BagVocabulary.FILE)
    (tmp_path / BagVocabulary.FILE).write_text("[]")
    with pytest.raises(ModelError, match=re.escape("has no valid 'words'; copy the file again")):
        BagVocabulary.load(tmp_path / BagVocabulary.FILE)


def test_ngrams_that_are_too_rare_are_an_error():
    with pytest.raises(DataError, match=r"no n-gram is in 5 of 2 texts; lower model\.min_documents"):
        CountedTexts.of(["a", "b"], ("0", "1"), BagConfig(min_documents=5))


def test_without_scikit_learn_one_line_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    texts, labels = made_up(20)
    find = builtins.__import__

    def missing(name, *rest):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return find(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ModelError, match="install it: pip install"):
        fitted(texts, labels)
