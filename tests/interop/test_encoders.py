"""Imported and exported encoders have the same logits, losses and tokens as the originals."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

import clearhead
from clearhead.checkpoint import load_checkpoint
from clearhead.data.batching.masking import MaskedBatch
from clearhead.errors import ModelError
from clearhead.interop.huggingface import export_model, import_model
from clearhead.tasks.events import Finished
from clearhead.tasks.masked.loss import masked_loss
from clearhead.tasks.recipe import parse_recipe
from clearhead.tasks.run import resume, train
from clearhead.text.tokenizer import Tokenizer

from .conftest import TEXT

VOCABULARY, WIDTH = 120, 32
SPECIAL = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"]
BERT = {
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
    "vocab_size": VOCABULARY,
    "id2label": {0: "dull", 1: "fair", 2: "fine"},
    "label2id": {"dull": 0, "fair": 1, "fine": 2},
}
DISTILBERT = {
    "dim": WIDTH,
    "hidden_dim": 48,
    "n_layers": 2,
    "n_heads": 4,
    "max_position_embeddings": 40,
    "vocab_size": VOCABULARY,
}
CONFIGS = {
    "bert": lambda: transformers.BertConfig(**BERT),
    "roberta": lambda: transformers.RobertaConfig(
        **BERT, type_vocab_size=1, layer_norm_eps=1e-5, bos_token_id=2, eos_token_id=3
    ),
    "distilbert": lambda: transformers.DistilBertConfig(**DISTILBERT),
}
PREFIXES = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}
HEADS = ["ForMaskedLM", "ForSequenceClassification", "ForQuestionAnswering"]
CLASSES = [(name, head) for name in CONFIGS for head in HEADS if (name, head) != ("roberta", HEADS[2])]


@functools.cache
def word_pieces() -> tokenizers.Tokenizer:
    """A small BERT tokenizer."""
    inner = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY - 4, special_tokens=SPECIAL, show_progress=False
    )
    inner.train_from_iterator([TEXT] * 3, trainer)
    inner.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return inner


def huggingface_folder(folder: Path, name: str, head: str) -> transformers.PreTrainedModel:
    """A model of the transformers library in a folder, with weights far from zero."""
    torch.manual_seed(1)
    config = CONFIGS[name]()
    if head == "ForQuestionAnswering":
        config.num_labels = 2
    model = getattr(transformers, PREFIXES[name] + head)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    word_pieces().save(str(folder / "tokenizer.json"))
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, lengths and token types of three texts."""
    random, lengths = torch.Generator().manual_seed(2), torch.tensor([30, 17, 9])
    tokens = torch.randint(5, VOCABULARY, (3, 30), generator=random)
    types = (torch.arange(30) >= 6).long().expand(3, -1)
    return tokens, lengths, types


@torch.no_grad()
def theirs(model: transformers.PreTrainedModel) -> torch.Tensor:
    """The logits by transformers; padding is its own padding token, as RoBERTa's positions depend on it."""
    tokens, lengths, types = batch()
    inside = torch.arange(tokens.shape[1]) < lengths[:, None]
    typed = {"token_type_ids": types} if model.config.to_dict().get("type_vocab_size", 0) > 1 else {}
    tokens = tokens.masked_fill(~inside, model.config.pad_token_id)
    output = model(input_ids=tokens, attention_mask=inside.long(), **typed)
    spans = [output[name] for name in ("start_logits", "end_logits") if name in output]
    logits = torch.stack(spans, -1) if spans else output.logits
    return logits[inside] if logits.dim() == 3 else logits


@torch.no_grad()
def ours(folder: Path) -> torch.Tensor:
    model: Any = load_checkpoint(folder).model
    tokens, lengths, types = batch()
    logits = model(tokens, lengths, types if model.config.token_types > 1 else None)
    return logits[torch.arange(tokens.shape[1]) < lengths[:, None]] if logits.dim() == 3 else logits


@pytest.mark.parametrize(("name", "head"), CLASSES)
def test_an_imported_encoder_has_the_same_logits_and_export_undoes_import(name, head, tmp_path):
    original = huggingface_folder(tmp_path / "huggingface", name, head)
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    torch.testing.assert_close(ours(tmp_path / "clearhead"), theirs(original), atol=1e-4, rtol=0)
    assert export_model(tmp_path / "clearhead", tmp_path / "again") == name
    again = type(original).from_pretrained(tmp_path / "again").eval()
    torch.testing.assert_close(theirs(again), theirs(original), atol=1e-6, rtol=0)
    before, after = (load_file(tmp_path / one / "model.safetensors") for one in ("huggingface", "again"))
    assert before.keys() == after.keys()
    # RoBERTa's first two positions are those of padding, which no text has.
    unused = "embeddings.position_embeddings.weight" if name == "roberta" else "none"
    assert all(torch.equal(before[key], after[key]) for key in before if not key.endswith(unused))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_classifier_says_what_the_pipeline_of_transformers_says(name, tmp_path):
    model = huggingface_folder(tmp_path / "huggingface", name, "ForSequenceClassification")
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    classifier = clearhead.load(tmp_path / "clearhead")
    texts = ["To be, or not to be", "naïve café?", "the question " * 40]
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=word_pieces(), pad_token="[PAD]")
    for text in texts[:2]:
        inputs = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        expected = model(**inputs).logits[0].softmax(-1).tolist()
        found = classifier.classify(text)
        assert list(found.probabilities) == [model.config.id2label[number] for number in range(len(expected))]
        assert list(found.probabilities.values()) == pytest.approx(expected, abs=1e-4)
    assert classifier.classify(texts[2]).label in classifier.labels
    assert classifier.classify("to be ж").unknown == ("ж",)


def test_tokens_are_those_of_transformers_also_after_export(tmp_path):
    huggingface_folder(tmp_path / "huggingface", "bert", "ForSequenceClassification")
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    export_model(tmp_path / "clearhead", tmp_path / "again")
    ours = clearhead.load(tmp_path / "clearhead").tokenizer
    exported = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    for text in (TEXT, "To be [MASK] not [SEP]", "unbelievable zzz"):
        expected = word_pieces().encode(text.replace("[", "( ")).ids
        assert ours.with_special_tokens(ours.encode(text.replace("[", "( "))) == expected
        assert exported(text.replace("[", "( "))["input_ids"] == expected
    pair, expected = exported("to be", "or not"), word_pieces().encode("to be", "or not")
    assert (pair["input_ids"], pair["token_type_ids"]) == (expected.ids, expected.type_ids)
    # What a user types never becomes a special token.
    assert not {2, 3, 4} & {*ours.encode("[CLS] to [SEP] be [MASK]")}


def test_a_vocabulary_file_makes_the_same_tokenizer(tmp_path):
    inner = word_pieces()
    inner.model.save(str(tmp_path))
    from_file = Tokenizer.from_huggingface(tmp_path, VOCABULARY)
    inner.save(str(tmp_path / "tokenizer.json"))
    from_json = Tokenizer.from_huggingface(tmp_path, VOCABULARY)
    assert (from_file.bos_id, from_file.eos_id, from_file.adds_bos) == (2, 3, True)
    assert from_file.with_special_tokens(from_file.encode(TEXT)) == inner.encode(TEXT).ids
    assert from_json.with_special_tokens(from_json.encode(TEXT)) == inner.encode(TEXT).ids
    assert (from_file.config.kind, from_file.unk_id) == ("wordpiece", 0)


def test_a_pre_trained_bert_with_its_next_sentence_head_is_imported(tmp_path):
    original = huggingface_folder(tmp_path / "huggingface", "bert", "ForPreTraining")
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    tokens, lengths, types = batch()
    with torch.no_grad():
        expected = original(input_ids=tokens[:1], token_type_ids=types[:1]).prediction_logits
        model: Any = load_checkpoint(tmp_path / "clearhead").model
        torch.testing.assert_close(model(tokens[:1], lengths[:1], types[:1]), expected, atol=1e-4, rtol=0)


def test_old_names_and_other_heads_of_a_checkpoint_are_understood(tmp_path):
    """As in the first BERT checkpoints."""
    original = huggingface_folder(tmp_path / "huggingface", "bert", "ForSequenceClassification")
    path = tmp_path / "huggingface" / "model.safetensors"
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = {}
    for name, tensor in load_file(path).items():
        for new, before in old.items():
            name = name.replace(new, before)
        tensors[name] = tensor
    tensors["cls.seq_relationship.weight"] = torch.zeros(2, WIDTH)
    tensors["bert.embeddings.position_ids"] = torch.arange(40)[None]
    save_file(tensors, path, {"format": "pt"})
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    torch.testing.assert_close(ours(tmp_path / "clearhead"), theirs(original), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"architectures": ["BertModel"]},
            "architectures: 'BertModel' is not one of ",
        ),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type: 'relative_key' is not supported; expected 'absolute'",
        ),
        ({"is_decoder": True}, "is_decoder: True is not supported; expected False"),
        ({"problem_type": "regression"}, "problem_type: 'regression' is not supported; expected None or "),
        ({"id2label": {"0": "one"}}, "id2label: one are not two or more distinct labels; fix the file"),
        ({"id2label": {"1": "a", "2": "b"}}, "id2label: does not name the classes 0, 1, 2 …; fix the file"),
        ({"id2label": ["a", "b"]}, "id2label: does not name the classes 0, 1, 2 …; fix the file"),
        ({"vocab_size": "many"}, "vocab_size: 'many' is not a number of tokens"),
    ],
)
def test_unsupported_settings_are_named(changes, message, tmp_path):
    folder = tmp_path / "huggingface"
    huggingface_folder(folder, "bert", "ForSequenceClassification")
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | changes))
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "clearhead")
    assert str(caught.value).startswith(f"{folder / 'config.json'}: {message}")
    assert not (tmp_path / "clearhead").exists()


def test_a_vocabulary_that_is_not_berts_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("one\ntwo\n")
    with pytest.raises(ModelError, match=r"vocab\.txt: has no \[CLS\], as the vocabulary of a BERT does"):
        Tokenizer.from_huggingface(tmp_path, 10)


def test_answers_are_spans_that_transformers_prefers(tmp_path):
    """The rows have the text first, but the positions and types of BERT's own order."""
    model = huggingface_folder(tmp_path / "huggingface", "bert", "ForQuestionAnswering")
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    ours = clearhead.load(tmp_path / "clearhead")
    question, context = "to be?", "whether that is the question or not, nobler two"
    encoded = word_pieces().encode(question, context)
    inputs = {"input_ids": encoded.ids, "token_type_ids": encoded.type_ids}
    with torch.no_grad():
        output = model(**{name: torch.tensor([values]) for name, values in inputs.items()})
    inside = [
        index
        for index, (sequence, special) in enumerate(
            zip(encoded.sequence_ids, encoded.special_tokens_mask, strict=True)
        )
        if sequence == 1 and not special
    ]
    spans = [(a, b) for a in inside for b in inside if a <= b < a + ours.config.max_tokens]
    scores = torch.tensor([float(output.start_logits[0, a] + output.end_logits[0, b]) for a, b in spans])
    first, last = spans[int(scores.argmax())]
    expected = context[encoded.offsets[first][0] : encoded.offsets[last][1]]
    answer = ours.answer(question, context)
    assert (answer.text, answer.score) == (expected, pytest.approx(float(scores.softmax(0).max()), abs=1e-4))


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_the_loss_of_masked_tokens_is_that_of_transformers(name, tmp_path):
    """Two texts that share a row have the loss that they have alone."""
    original = huggingface_folder(tmp_path / "huggingface", name, "ForMaskedLM")
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    model: Any = load_checkpoint(tmp_path / "clearhead").model
    random = torch.Generator().manual_seed(3)
    texts = [torch.randint(5, VOCABULARY, (length,), generator=random) for length in (14, 10)]
    columns = [torch.tensor([2, 3, 9]), torch.tensor([1, 4, 6])]
    expected = torch.tensor(0.0)
    for text, hidden in zip(texts, columns, strict=True):
        masked, labels = text.clone(), torch.full_like(text, -100)
        masked[hidden], labels[hidden] = 4, text[hidden]
        expected += original(input_ids=masked[None], labels=labels[None]).loss * len(hidden)
    tokens = torch.cat(texts)
    masked_at = torch.cat([columns[0], columns[1] + len(texts[0])])
    segments = torch.cat([torch.full_like(text, number) for number, text in enumerate(texts, start=1)])
    positions = torch.cat([torch.arange(len(text)) for text in texts])
    inputs = tokens.clone()
    inputs[masked_at] = 4
    batch = MaskedBatch(
        torch.stack([inputs, segments, positions])[:, None],
        torch.stack([masked_at, tokens[masked_at]])[:, None],
    )
    torch.testing.assert_close(masked_loss(model, batch), expected, atol=1e-4, rtol=0)


@torch.no_grad()
def test_masks_are_filled_with_the_words_that_transformers_prefers(tmp_path):
    original = huggingface_folder(tmp_path / "huggingface", "bert", "ForMaskedLM")
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    model = clearhead.load(tmp_path / "clearhead")
    text = "To be, or [MASK] to be: that is the [MASK]?"
    encoded = word_pieces().encode(text)
    logits = original(input_ids=torch.tensor([encoded.ids])).logits[0]
    masked_at = [index for index, token in enumerate(encoded.tokens) if token == "[MASK]"]
    filled = model.fill(text, top=VOCABULARY)
    assert len(masked_at) == len(filled.masks) == 2
    for mask, candidates in zip(masked_at, filled.masks, strict=True):
        # Special tokens are no candidates; the last embeddings have no token.
        ranked = logits[mask].argsort(descending=True).tolist()
        expected = [number for number in ranked if 4 < number < word_pieces().get_vocab_size()]
        words = {one.token: one.probability for one in candidates}
        tokens = [word_pieces().id_to_token(number) for number in expected]
        first, second = tokens[:2]
        ratio = (logits[mask, expected[0]] - logits[mask, expected[1]]).exp()
        assert [one.token for one in candidates if one.token in {first, second}] == [first, second]
        assert words[first] / words[second] == pytest.approx(float(ratio), rel=1e-3)


def test_a_classifier_is_trained_from_an_imported_model_and_resumed(tmp_path):
    huggingface_folder(tmp_path / "huggingface", "bert", "ForMaskedLM")
    import_model(tmp_path / "huggingface", tmp_path / "bert")
    lines = [
        f"{label}\t{text} {number}" for number in range(20) for label, text in (("a", "to be"), ("b", "or"))
    ]
    (tmp_path / "texts.tsv").write_text("\n".join(lines) + "\n")
    head = {"kind": "classifier", "pooling": "first", "pooler": "tanh"}
    values = {
        "kind": "classification",
        "data": {"train": [str(tmp_path / "texts.tsv")]},
        "model": {"kind": "encoder", "head": head},
        "training": {"init_from": str(tmp_path / "bert"), "steps": 2, "validate_every": 2, "device": "cpu"},
    }
    list(train(parse_recipe(values), tmp_path / "run"))
    *_, last = resume(tmp_path / "run", ["training.steps=3"])
    assert isinstance(last, Finished)
    assert export_model(tmp_path / "run", tmp_path / "again") == "bert"
    theirs = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "again").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    expected = theirs(**tokenizer("to be or", return_tensors="pt")).logits[0].softmax(-1).tolist()
    found = clearhead.load(tmp_path / "run").classify("to be or").probabilities
    assert list(found.values()) == pytest.approx(expected, abs=1e-4)


def test_a_classifier_of_several_labels_stays_one(tmp_path):
    original = huggingface_folder(tmp_path / "huggingface", "bert", "ForSequenceClassification")
    path = tmp_path / "huggingface" / "config.json"
    settings = json.loads(path.read_text()) | {"problem_type": "multi_label_classification"}
    path.write_text(json.dumps(settings))
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    encoded = word_pieces().encode("to be")
    expected = original(input_ids=torch.tensor([encoded.ids])).logits[0].sigmoid().tolist()
    found = clearhead.load(tmp_path / "clearhead").classify("to be")
    assert list(found.probabilities.values()) == pytest.approx(expected, abs=1e-4)
    export_model(tmp_path / "clearhead", tmp_path / "again")
    again = json.loads((tmp_path / "again" / "config.json").read_text())
    assert again["problem_type"] == "multi_label_classification"
