"""Every claim of every lesson is true of every built-in model, by the model's own numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from clearhead.explorer.architecture import position_rows
from clearhead.explorer.distribution import SamplingFilter, distribution, next_token
from clearhead.explorer.explorable import tokenize
from clearhead.explorer.lessons import FAMILIES, guide, lessons_of
from clearhead.explorer.lessons.attention import POSITIONS
from clearhead.explorer.lessons.facts import Facts, facts_of
from clearhead.explorer.lessons.lesson import Lesson
from clearhead.explorer.measures import beam, lens, summaries
from clearhead.explorer.projection import projection
from clearhead.explorer.trace_session import TraceSession, start_trace
from clearhead.explorer.vectors import in_contexts
from clearhead.tasks.load import load_built_in
from clearhead.tasks.zoo import built_in_names

CLAIMS: dict[str, Callable[["Shown"], object]] = {}
ENDS_WITHIN = 200
"""The most tokens that the page generates by itself."""


@cache
def model_named(name: str):
    return load_built_in(name)


@cache
def session_of(name: str, text: str) -> TraceSession:
    session = start_trace(model_named(name), name, {"text": text})
    session.run()
    return session.wait()


@cache
def summaries_of(name: str, text: str) -> dict:
    return summaries(session_of(name, text))


@dataclass(frozen=True)
class Shown:
    """A lesson as a reader of a built-in model sees it."""

    name: str
    lesson: Lesson
    line: str

    @property
    def model(self):
        return model_named(self.name)

    @cached_property
    def facts(self) -> Facts:
        return facts_of(self.model, self.name)

    @property
    def session(self) -> TraceSession:
        return session_of(self.name, self.lesson.text)

    @property
    def summaries(self) -> dict:
        return summaries_of(self.name, self.lesson.text)

    @property
    def attention(self) -> dict:
        named = self.lesson.pick.get("attention")
        found = self.facts.about["attentions"]
        return next((one for one in found if one["name"] == named), found[0])

    @property
    def head(self) -> tuple[int, int]:
        """The layer and head that the lesson opens with."""
        if self.lesson.head == "aligner":
            best = self.summaries["aligners"]["ranked"][0]
        elif self.lesson.head:
            heads = self.summaries["attentions"][self.attention["name"]]["heads"]
            best = max(heads, key=lambda one: one["roles"].get(self.lesson.head, 0))
        else:
            best = {"layer": self.lesson.pick.get("layer", 0), "head": self.lesson.pick.get("head", 0)}
        return best["layer"], best["head"]

    def tensor(self, role: str) -> torch.Tensor:
        """A tensor of the lesson's head."""
        layer, head = self.head
        return self.named(role, "attention", self.attention["name"])[layer, head]

    def named(self, role: str, key: str, value: str) -> torch.Tensor:
        """The tensor with this role in the trace’s catalogue."""
        records = [entry.record() for entry in self.session.catalogue.values()]
        return self.session.values(
            next(one["name"] for one in records if one["role"] == role and one.get(key) == value)
        )

    @cached_property
    def contexts(self) -> dict:
        meanings = self.facts.examples.meanings
        return in_contexts(self.model, meanings.word, meanings.texts, 8)

    def embedding(self, kind: str) -> torch.Tensor:
        return self.named(kind, "side", next(iter(self.session.explanation.sides)))

    def step(self, generated: list[int]) -> dict:
        to = self.session.manifest()["to"]
        return next_token(self.model, self.lesson.text, generated, to, SamplingFilter(temperature=0), 0)


def claim(name: str):
    def add(check: Callable[[Shown], object]):
        CLAIMS[name] = check
        return check

    return add


@claim("vocabulary")
def _(shown: Shown):
    assert f"{shown.model.tokenizer.size:,}" in shown.line
    assert "character" not in shown.line or shown.facts.about["tokenizer"] == "character"


@claim("prompt ids")
def _(shown: Shown):
    tokens = [one for one in shown.session.explanation.target if not one.special]
    assert f"{len(tokens)} tokens, {', '.join(str(one.id) for one in tokens[:4])}" in shown.line
    assert ("start token" in shown.line) == shown.session.explanation.target[0].special
    assert [one.id for one in tokens[:4]] != [12805, 5304, 264, 892]


@claim("longer prompt")
def _(shown: Shown):
    text = shown.line.split("“")[1].split("”")[0]
    assert text.startswith(shown.lesson.text)
    assert f"has {tokenize(shown.model, text)['count']} tokens" in shown.line


@claim("tokens of any text")
def _(shown: Shown):
    assert tokenize(shown.model, "Hello there.")["count"] > 0


@claim("capitals")
def _(shown: Shown):
    capitals = shown.lesson.text.upper()
    few, many = (tokenize(shown.model, text)["count"] for text in (shown.lesson.text, capitals))
    assert few < many
    assert f"Type {capitals} It becomes {many} tokens instead of {few}:" in shown.line


@claim("width")
def _(shown: Shown):
    assert f" {shown.embedding('embedding').shape[-1]} numbers" in shown.line


@claim("strips")
def _(shown: Shown):
    tokens = next(iter(shown.session.explanation.sides.values()))
    vectors, sums = shown.embedding("token_embeddings"), shown.embedding("embedding")
    for i, one in enumerate(tokens):
        for j, other in enumerate(tokens):
            assert torch.equal(vectors[i], vectors[j]) == (one.id == other.id)
            if not shown.facts.adds_positions:
                assert torch.equal(sums[i], sums[j]) == (one.id == other.id)
            elif i != j:
                assert not torch.allclose(sums[i], sums[j])


@claim("cosines")
def _(shown: Shown):
    unit = F.normalize(shown.embedding("token_embeddings").double(), dim=-1)
    cosines = unit @ unit.mT
    assert torch.allclose(cosines.diagonal(), torch.ones(len(unit)).double())
    assert cosines.fill_diagonal_(0).abs().max() < 0.999


@claim("one embedding")
def _(shown: Shown):
    meanings = shown.facts.examples.meanings
    texts = [meanings.first, meanings.second]
    pieces = []
    for text, positions in zip(texts, shown.contexts["positions"], strict=False):
        tokens = session_of(shown.name, text).explanation.source
        pieces.append([tokens[position].id for position in positions])
    assert pieces[0] == pieces[1]
    assert all(f"“{text}”" in shown.line for text in texts)


@claim("start at 1")
def _(shown: Shown):
    assert torch.allclose(torch.tensor(shown.contexts["similarity"][0]), torch.ones(3, 3), atol=1e-5)


@claim("apart")
def _(shown: Shown):
    curve = [row[0][1] for row in shown.contexts["similarity"]]
    assert all(after < before + 0.01 for before, after in pairwise(curve))
    assert curve[-1] < 0.95


@claim("meanings")
def _(shown: Shown):
    last = shown.contexts["similarity"][-1]
    assert last[0][1] < last[0][2] - 0.02
    first, _, moved = shown.contexts["positions"]
    assert first != moved


@claim("nearest")
def _(shown: Shown):
    for found in shown.contexts["nearest"]:
        cosines = [one["cosine"] for one in found]
        assert len(cosines) == 8
        assert cosines == sorted(cosines, reverse=True)


@claim("products")
def _(shown: Shown):
    products = shown.tensor("queries") @ shown.tensor("keys").mT
    assert torch.allclose(products * shown.facts.scale, shown.tensor("scores"), atol=1e-4)


@claim("scores")
def _(shown: Shown):
    assert shown.tensor("scores").isfinite().all()


@claim("root")
def _(shown: Shown):
    size = shown.facts.head_size
    assert f"√{size} = {math.sqrt(size):.4g}" in shown.line


@claim("scaled")
def _(shown: Shown):
    products = shown.tensor("queries") @ shown.tensor("keys").mT
    divisor = float(shown.line.split("divided by ")[1].split(":")[0])
    assert torch.allclose(products / divisor, shown.tensor("scores"), atol=1e-3)


@claim("sums")
def _(shown: Shown):
    weights = shown.tensor("weights")
    assert torch.allclose(weights.sum(-1), torch.ones(len(weights)), atol=1e-5)
    assert torch.allclose(shown.tensor("masked").softmax(-1), weights, atol=1e-5)


@claim("parameters")
def _(shown: Shown):
    attention = shown.model.model.get_submodule(shown.attention["path"].replace("*", "0"))
    matrices = attention.project.weight.numel() + attention.output.weight.numel()
    assert matrices > 0.95 * sum(one.numel() for one in attention.parameters())


@claim("projection")
def _(shown: Shown):
    pick = shown.lesson.pick
    found = projection(
        shown.session, pick["attention"], pick["layer"], pick["head"], pick["query"], "queries", 0
    )
    terms = sum(x * w for x, w in zip(found["input"], found["weight"], strict=True)) + (found["bias"] or 0)
    assert terms == pytest.approx(found["product"], abs=1e-4)


@claim("three vectors")
def _(shown: Shown):
    pick = shown.lesson.pick
    assert pick["query"] == pick["key"]
    q, k, v = (shown.tensor(part)[pick["query"]] for part in ("queries", "keys", "values"))
    assert not any(torch.allclose(*pair, atol=1e-2) for pair in ((q, k), (q, v), (k, v)))


@claim("clearest head")
def _(shown: Shown):
    name = shown.attention["name"]
    strengths = [one["roles"]["previous"] for one in shown.summaries["attentions"][name]["heads"]]
    layer, head = shown.head
    assert strengths[layer * shown.attention["heads"] + head] == max(strengths)
    weights = shown.tensor("weights")
    previous = weights.diagonal(-1)[1:].mean()
    assert previous > 0.5, "no head attends mainly to the previous token"


@claim("two rows")
def _(shown: Shown):
    tokens, word = shown.session.explanation.source, shown.facts.examples.repeated
    first, second = (shown.facts.position_of(shown.lesson.text, word, n) for n in (0, 1))
    assert f"positions {first} and {second}" in shown.line
    assert tokens[first].id == tokens[second].id
    assert tokens[first].piece.strip("▁").startswith(word[:2])
    weights = shown.tensor("weights")
    assert weights[first].argmax() != weights[second].argmax()


@claim("lines")
def _(shown: Shown):
    assert len(shown.session.explanation.source) <= 64


@claim("head count")
def _(shown: Shown):
    heads = shown.named("weights", "attention", shown.attention["name"]).shape[1]
    assert f"{heads} heads" in shown.line


@claim("tags")
def _(shown: Shown):
    roles = {one["role"] for one in shown.summaries["attentions"][shown.attention["name"]]["heads"]}
    assert len(roles - {None}) >= 2
    assert roles & {"previous", "self", "first"}


@claim("untagged")
def _(shown: Shown):
    roles = {one["role"] for one in shown.summaries["attentions"][shown.attention["name"]]["heads"]}
    assert None in roles
    assert roles - {None}


@claim("entropy order")
def _(shown: Shown):
    heads = shown.summaries["attentions"][shown.attention["name"]]["heads"]
    weights = shown.named("weights", "attention", shown.attention["name"]).flatten(0, 1).double()
    bits = -(weights * weights.clamp(min=1e-30).log2()).sum(-1).mean(-1)
    assert [one["entropy"] for one in heads] == pytest.approx(bits.tolist(), abs=1e-4)


@claim("causal")
def _(shown: Shown):
    weights = shown.tensor("weights")
    assert (weights.triu(1) == 0).all()
    assert shown.attention["causal"]
    assert weights[0, 0] == 1


@claim("masked")
def _(shown: Shown):
    query, masked = shown.lesson.pick["query"], shown.tensor("masked")
    assert (masked[query, query + 1 :] == -math.inf).all()
    assert len(masked) > query + 1
    assert (shown.tensor("weights")[query, query + 1 :] == 0).all()


@claim("position kind")
def _(shown: Shown):
    kind = shown.session.about["position"]
    assert POSITIONS[kind] in shown.line
    side = next(iter(shown.session.explanation.sides))
    path = shown.model.model.anatomy().embeddings[side]
    added = f"{path}.position_embeddings" in shown.session.catalogue
    assert added == (kind not in ("rotary", "alibi", "none"))
    assert ("adds" in POSITIONS[kind]) == added


@claim("two positions")
def _(shown: Shown):
    word = shown.facts.examples.repeated
    first, second = (shown.facts.position_of(shown.lesson.text, word, n) for n in (0, 1))
    assert f"positions {first} and {second}" in shown.line
    vectors, sums = shown.embedding("token_embeddings"), shown.embedding("embedding")
    assert torch.equal(vectors[first], vectors[second])
    assert torch.equal(sums[first], sums[second]) != shown.facts.adds_positions


@claim("nearby")
def _(shown: Shown):
    _, rows = position_rows(shown.model.model, 64)
    unit = F.normalize(rows.double(), dim=-1)
    for row in unit @ unit.mT:
        position = int(row.argmax())
        near = [row[at] for at in (position - 1, position + 1) if 0 <= at < 64]
        far = [row[at] for at in (position - 30, position + 30) if 0 <= at < 64]
        assert min(near) > max(far)


@claim("layer count")
def _(shown: Shown):
    assert f"all {len(shown.model.model.encoder.blocks)} layers" in shown.line


@claim("shares")
def _(shown: Shown):
    for steps in shown.summaries["residual"].values():
        assert min(min(step["share"]) for step in steps) > 0.001


@claim("other shares")
def _(shown: Shown):
    steps = next(iter(shown.summaries["residual"].values()))
    assert all(len({round(share, 4) for share in step["share"]}) > 1 for step in steps)


@claim("aligners")
def _(shown: Shown):
    ranked = shown.summaries["aligners"]["ranked"]
    assert sum(one["score"] > 0.6 for one in ranked) >= 2
    assert shown.summaries["aligners"]["words"]["links"]
    first, second = shown.line.split("Queries come from the ")[1].split(" words, keys and values from the ")
    languages = {"en": "English", "de": "German", "fr": "French"}
    pair = shown.facts.about["languages"][0]
    assert second.startswith(languages[pair["source"]])
    assert first in (languages[pair["target"]], "target")


@claim("best aligner")
def _(shown: Shown):
    scores = [one["score"] for one in shown.summaries["aligners"]["ranked"]]
    assert scores == sorted(scores, reverse=True)
    assert all("reads" in one for one in shown.summaries["aligners"]["ranked"])


@claim("curves")
def _(shown: Shown):
    assert len(shown.session.explanation.target) > 2


@claim("bars")
def _(shown: Shown):
    found = shown.session.logits(1, SamplingFilter())
    listed = [one["probability"] for one in found["top"] if one["id"] == found["next"]["id"]]
    assert listed == pytest.approx([math.exp(found["next"]["log_prob"])])


@claim("lens")
def _(shown: Shown):
    last = [cell[0]["id"] for cell in lens(shown.session, 1)["cells"][-1]]
    assert last == shown.session.values("logits").argmax(-1).tolist()


@claim("ends")
def _(shown: Shown):
    generated: list[int] = []
    for _ in range(ENDS_WITHIN):
        step = shown.step(generated)
        if step["ended"]:
            return
        generated.append(step["next"]["id"])
    raise AssertionError("the model never writes the end token")


@claim("instead")
def _(shown: Shown):
    first = shown.step([])
    other = first["top"][1]["id"]
    assert other != first["next"]["id"]
    assert shown.step([other])["text"]


@claim("cache")
def _(shown: Shown):
    first = shown.step([])
    second = shown.step([first["next"]["id"]])
    assert second["cache"]["positions"] == first["cache"]["positions"] + 1


@claim("top tokens")
def _(shown: Shown):
    last = len(shown.session.explanation.target) - 1
    found = shown.session.logits(last, SamplingFilter())
    assert found["next"] is None
    assert len(found["top"]) == 20


@claim("temperature")
def _(shown: Shown):
    logits = shown.session.values("logits")[-1]
    pieces = shown.model.tokenizer.pieces
    cold, warm = (distribution(pieces, logits, SamplingFilter(200, t), None)["top"] for t in (1.0, 2.0))
    assert warm[0]["probability"] < cold[0]["probability"]
    assert warm[-1]["probability"] > cold[-1]["probability"]
    kept = distribution(pieces, logits, SamplingFilter(top_p=0.5), None)["kept"]
    assert kept < len(logits)


@claim("beam size")
def _(shown: Shown):
    found = beam(shown.session)
    kept: dict[int, int] = {}
    for node in found["nodes"]:
        kept[node["step"]] = kept.get(node["step"], 0) + (node["state"] != "dropped")
    assert f"keeps {found['beam']} hypotheses" in shown.line
    assert max(kept.values()) >= found["beam"]


@claim("orange path")
def _(shown: Shown):
    best = [node["id"] for node in beam(shown.session)["nodes"] if node["best"]]
    assert shown.model.tokenizer.decode(best[:-1]) == shown.session.explanation.output


@claim("dropped")
def _(shown: Shown):
    dropped = [node for node in beam(shown.session)["nodes"] if node["state"] == "dropped"]
    assert dropped
    assert all(node["reason"] for node in dropped)


@claim("forced")
def _(shown: Shown):
    ids = [node["id"] for node in beam(shown.session)["nodes"] if node["step"] == 0 and not node["best"]][:1]
    forced = start_trace(shown.model, shown.name, {"text": shown.lesson.text, "forced": ids})
    assert [one.id for one in forced.explanation.target[1:2]] == ids


@pytest.mark.parametrize("name", built_in_names())
def test_every_claim_is_true_of_every_built_in_model(name):
    false = []
    for lesson in lessons_of(model_named(name), name):
        for line in lesson.lines:
            if line.claim is None:
                continue
            try:
                CLAIMS[line.claim](Shown(name, lesson, line.text))
            except AssertionError as error:
                false.append(f"{lesson.title}: {line.text!r} ({line.claim}): {error}")
    assert false == []


@pytest.mark.parametrize("name", built_in_names())
def test_everything_to_look_at_is_a_claim_with_a_check(name):
    lessons = lessons_of(model_named(name), name)
    assert bool(lessons) == (model_named(name).model.config.kind in FAMILIES)
    claimed = {line.claim for lesson in lessons for line in lesson.look}
    assert None not in claimed
    assert claimed <= CLAIMS.keys()


@pytest.mark.parametrize("name", built_in_names())
def test_lessons_name_no_language_that_the_model_does_not_have(name):
    model, own = model_named(name), {"en": "English", "de": "German", "fr": "French"}
    pairs = facts_of(model, name).about["languages"]
    used = {one[side] for one in pairs for side in ("source", "target")}
    text = " ".join(line.text for lesson in lessons_of(model, name) for line in lesson.lines)
    for code, language in own.items():
        assert code in used or language not in text


def test_worked_examples_are_right():
    assert 1 * 0 + 4 * 3 == 12
    assert 1 * 3 + 4 * 0 == 3
    assert 2 / math.sqrt(2) == pytest.approx(1.414, abs=1e-3)
    assert math.e / (math.e + math.exp(0.71)) == pytest.approx(0.57, abs=5e-3)
    assert math.e / (math.e + math.exp(-1)) == pytest.approx(0.88, abs=5e-3)


def test_a_model_of_another_kind_gets_texts_that_fit_it(translator, language):
    """Learned facts are the model's own: nothing is said of softmax scaling or positions that it lacks."""
    for model, name in ((translator, "numbers"), (language, "babbler")):
        facts, lessons = facts_of(model, name), lessons_of(model, name)
        text = " ".join(line.text for lesson in lessons for line in lesson.lines)
        assert POSITIONS[facts.position] in text
        assert ("Scaling: ÷ √d" in {lesson.title for lesson in lessons}) == (facts.root is not None)
        assert guide(model, name)["text"] == facts.first_text
