"""Evaluation of answers: exact match, F1, "no answer", and whether attention looks at supporting facts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.examples import check_examples
from clearhead.data.sources.questions import Question, read_questions
from clearhead.errors import DataError
from clearhead.evaluation.answers import best_over, exact_match, f1
from clearhead.inspection.trace import capture
from clearhead.models.anatomy import anatomy_of
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.question_answering.answering import Answer, batches_for
from clearhead.tasks.question_answering.data import read_out
from clearhead.tasks.question_answering.recipe import QuestionsConfig
from clearhead.wording import counted

if TYPE_CHECKING:
    from clearhead.tasks.question_answering.model import QuestionAnsweringModel

# The file in a run's folder that holds its held-out questions.
VALIDATION = "validation.jsonl"
# Questions that are answered at once, and by which attention is measured.
CHUNK, SAMPLE = 1000, 2000
# From where attention to facts is measured.
LAST, QUESTION = "last token", "question"
# Explicit attention weights need more memory.
ATTENTION_TOKENS = 4096


@dataclass(frozen=True)
class Scores:
    """How good the answers to some questions are."""

    questions: int
    exact_match: float
    f1: float

    @classmethod
    def of(cls, questions: Sequence[Question], answers: Sequence[str]) -> "Scores":
        pairs = [(text, question.answers) for text, question in zip(answers, questions, strict=True)]
        em, f = (sum(best_over(score, *pair) for pair in pairs) / len(pairs) for score in (exact_match, f1))
        return cls(len(pairs), em, f)


@dataclass(frozen=True, eq=False)
class FactAttention:
    """Whether attention from the question looks at the facts that the answer follows from."""

    questions: int
    top: NDArray[np.float64]
    """(layers, heads): the share of questions whose most attended fact is a supporting one."""
    mass: NDArray[np.float64]
    """(layers, heads): the mean share of the attention to facts that supporting ones get."""
    chance: float
    """The share of supporting facts among all, which is both numbers for attention at random."""

    @classmethod
    def mean(cls, questions: Sequence[tuple[Any, Any, float]]) -> "FactAttention":
        """The mean over questions of whether the top fact is a supporting one, of the mass, and of chance."""
        top, mass, chance = (np.mean(one, 0) for one in zip(*questions, strict=True))
        return cls(len(questions), top, mass, float(chance))

    @property
    def best(self) -> tuple[int, int]:
        """Layer and head with the largest share."""
        layer, head = np.unravel_index(int(self.top.argmax()), self.top.shape)
        return int(layer), int(head)


def test_questions(named: str | None, folder: Path) -> dict[str, list[Question]]:
    """The questions by file: of a file, else of the recipe's test files, else those held out."""
    config, held_out = QuestionsConfig.of_run(folder), folder / VALIDATION
    files = [named] if named else list(config.test or config.validation)
    if not files and held_out.exists():
        files = [str(held_out)]
    if not files:
        raise DataError(f"{folder}: this folder has no held-out questions; name a file with --data")
    check_examples(files)
    return {file: list(read_questions(file)) for file in files}


def evaluate(
    model: "QuestionAnsweringModel",
    folder: Path,
    named: str | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Evaluation:
    """Exact match and F1, in all and by file, and whether attention looks at the supporting facts."""
    blank, by_file = 0, {}
    for file, found in test_questions(named, folder).items():
        by_file[file] = [one for one in found if one.question.strip() and one.context.strip()]
        blank += len(found) - len(by_file[file])
    questions = [question for found in by_file.values() for question in found]
    where = " and ".join(by_file) if len(by_file) < 3 else f"{len(by_file)} files"
    if not questions:
        raise DataError(f"{where}: no question about a text; name another file")
    answers = _answers(model, questions, progress)
    scores = Scores.of(questions, [answer.text for answer in answers])
    lines = [
        f"{where}: {counted(len(questions), 'question')}",
        f"exact match {scores.exact_match:.2%}",
        f"F1 {scores.f1:.2%}",
    ]
    record: dict[str, Any] = {**vars(scores), "blank": blank}
    without = f"left out {counted(blank, 'question')} without words or about an empty context"
    if len(by_file) > 1:
        errors = _errors(by_file, answers)
        lines += [f"  error {error:6.2%}  {Path(file).name}" for file, error in errors.items()]
        lines.append(f"mean error over {len(errors)} files {np.mean(list(errors.values())):.2%}")
        record |= {"errors": errors, "mean_error": float(np.mean(list(errors.values())))}
    if any(not question.answers for question in questions):
        found = _no_answer(questions, answers)
        record |= found
        lines.append(f'"no answer" recognised: {found["no_answer_accuracy"]:.2%}')
        if "best_threshold" in found:
            lines.append(f"best F1 {found['best_f1']:.2%}, with --threshold {found['best_threshold']:.4g}")
    if any(question.facts for question in questions):
        supported = [question for question in questions if question.facts]
        step = max(1, len(supported) // SAMPLE)
        record["fact_attention"] = {}
        for name, attention in fact_attention(model, supported[::step][:SAMPLE]).items():
            lines += _attention_lines(name, attention)
            record["fact_attention"][name] = {
                "questions": attention.questions,
                "top": attention.top.tolist(),
                "mass": attention.mass.tolist(),
                "chance": attention.chance,
            }
    return Evaluation(tuple(lines), record, (without,) if blank else ())


@torch.no_grad()
def fact_attention(
    model: "QuestionAnsweringModel", questions: Sequence[Question]
) -> dict[str, FactAttention]:
    """Measures, for every layer and head, where attention goes, from the last token and from the question.

    A classifier with pooling "last" reads the last token; the question's attention is the mean over its
    tokens.
    """
    encoder, module = model.encoder, model.model
    rows = encoder.rows(questions)
    batches = batches_for(rows, module.config.max_length, ATTENTION_TOKENS)
    [part] = anatomy_of(module).attentions
    names = [f"{path}.weights" for path in anatomy_of(module).layers(part)]
    texts = {one: text.lines() for one, text in _encoded(encoder, questions).items()}
    found: dict[str, list[tuple[NDArray[np.bool_], NDArray[np.float64], float]]] = {LAST: [], QUESTION: []}
    for plan in batches.sequential():
        batch = batches.build(0, plan).to(model.device)
        with capture(module, names) as trace:
            read_out(module, batch)
        weights = torch.stack([trace[name] for name in names], 1).float().cpu().numpy()
        for row, number in enumerate(plan[1]):
            question = questions[int(rows.questions[number])]
            tokens, first, length = (
                int(one) for one in (batch.contexts[row], rows.first[number], batch.lengths[row])
            )
            lines = texts[question.context][first : first + tokens]
            supporting = np.isin(np.unique(lines), question.facts)
            if not supporting.any():
                continue
            for name, queries in (
                (LAST, slice(length - 1, length)),
                (QUESTION, slice(tokens + 2, length - 1)),
            ):
                received = weights[row, :, :, queries, 1 : tokens + 1].mean(2)
                # Lines follow each other, so each begins where the number changes.
                by_fact = np.add.reduceat(received, np.flatnonzero(np.diff(lines, prepend=-1)), axis=-1)
                mass = by_fact[..., supporting].sum(-1) / by_fact.sum(-1)
                found[name].append((supporting[by_fact.argmax(-1)], mass, float(supporting.mean())))
    return {name: FactAttention.mean(one) for name, one in found.items()}


def _encoded(encoder: Any, questions: Sequence[Question]) -> dict[str, Any]:
    contexts = list(dict.fromkeys(question.context for question in questions))
    return dict(zip(contexts, encoder.texts(contexts), strict=True))


def _answers(
    model: "QuestionAnsweringModel", questions: Sequence[Question], progress: ProgressCallback
) -> list[Answer]:
    found: list[Answer] = []
    progress(0, len(questions))
    for start in range(0, len(questions), CHUNK):
        found += model.answer_all(questions[start : start + CHUNK])
        progress(len(found), len(questions))
    return found


def _errors(by_file: dict[str, list[Question]], answers: Sequence[Answer]) -> dict[str, float]:
    """The share of wrong answers in each file."""
    errors, stream = {}, iter(answers)
    for file, questions in by_file.items():
        errors[file] = 1 - Scores.of(questions, [next(stream).text for _ in questions]).exact_match
    return errors


def _no_answer(questions: Sequence[Question], answers: Sequence[Answer]) -> dict[str, float]:
    """How well "no answer" is recognised, and the threshold with the best F1 on these questions.

    A threshold can be chosen only for answers that name their margin: those of a model that finds spans.
    """
    unanswerable = np.array([not question.answers for question in questions])
    empty = np.array([not answer.text for answer in answers])
    found = {"no_answer_accuracy": float((unanswerable == empty).mean())}
    if any(answer.margin is None for answer in answers):
        return found
    margins = np.array([answer.margin for answer in answers])
    gain = np.array(
        [best_over(f1, one.best_span, right.answers) for one, right in zip(answers, questions, strict=True)]
    )
    order = np.argsort(-margins)
    # From all answered to all refused, the largest margins first.
    curve = gain.sum() + np.concatenate([[0.0], np.cumsum(unanswerable[order] - gain[order])])
    best = int(curve.argmax())
    threshold = float(margins[order[best]]) if best < len(order) else float(margins.min()) - 1
    return found | {"best_threshold": threshold, "best_f1": float(curve[best] / len(questions))}


def _attention_lines(name: str, attention: FactAttention) -> list[str]:
    layer, head = attention.best
    lines = [
        f"attention from the {name} ({counted(attention.questions, 'question')} with supporting facts): "
        "share whose most attended fact is a supporting one, by layer and head"
    ]
    lines += [
        f"  layer {number}: {' '.join(f'{one:4.0%}' for one in top)}"
        for number, top in enumerate(attention.top)
    ]
    lines.append(
        f"best head from the {name}: layer {layer}, head {head}: {attention.top[layer, head]:.1%}, with "
        f"{attention.mass[layer, head]:.1%} of its attention to facts; at random {attention.chance:.1%}"
    )
    return lines
