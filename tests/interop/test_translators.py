"""Translators to and from Marian and Pegasus: the same ids, logits and translations."""

import json
import shutil
from pathlib import Path

import pytest
import sentencepiece
import torch
import transformers
from safetensors.torch import load_file, save_file

import clearhead
from clearhead.checkpoint import load_checkpoint, weights
from clearhead.errors import ModelError
from clearhead.interop.architectures import architecture_for
from clearhead.interop.huggingface import export_model, import_model
from clearhead.layers.layout import Padded
from clearhead.models import TranslatorConfig
from clearhead.text.tokenizer import BOS, EOS, PAD, Tokenizer

SOURCES = ["The small dog runs.", "A cat sees the small dog.", "Where is the old house?", "He runs home."]
TARGETS = ["Der kleine Hund läuft.", "Eine Katze sieht den Hund.", "Wo ist das alte Haus?", "Er läuft heim."]
ACTIVATIONS = ("swish", "gelu", "relu")


def write_pieces(folder: Path, name: str, texts: list[str]) -> list[str]:
    """Writes a SentencePiece model, source.spm or target.spm; returns its pieces."""
    lines, model = folder / "lines.txt", folder / name
    lines.write_text("\n".join(texts))
    sentencepiece.SentencePieceTrainer.train(
        input=str(lines),
        model_prefix=str(model),
        vocab_size=50,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    model.with_suffix(model.suffix + ".model").rename(model)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


def write_marian(folder: Path, activation: str = "swish", tags: tuple[str, ...] = ()) -> Path:
    """A folder like those of opus-mt, with random weights."""
    folder.mkdir(parents=True)
    pieces = write_pieces(folder, "source.spm", SOURCES) + write_pieces(folder, "target.spm", TARGETS)
    ordinary = [piece for piece in dict.fromkeys(pieces) if piece not in ("<unk>", "<s>", "</s>")]
    vocabulary = {name: n for n, name in enumerate(["</s>", "<unk>", *ordinary, *tags, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    languages = {"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(languages))
    pad = vocabulary["<pad>"]
    torch.manual_seed(1)
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=len(vocabulary),
            d_model=18,
            encoder_layers=2,
            decoder_layers=1,
            encoder_attention_heads=3,
            decoder_attention_heads=3,
            encoder_ffn_dim=24,
            decoder_ffn_dim=24,
            max_position_embeddings=40,
            activation_function=activation,
            scale_embedding=True,
            pad_token_id=pad,
            decoder_start_token_id=pad,
            eos_token_id=0,
            forced_eos_token_id=None,
        )
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.3)
        model.final_logits_bias.normal_()
        # Sentences end after some tokens.
        model.final_logits_bias[0, 0] += 6
    model.generation_config.update(num_beams=3, length_penalty=1.0, bad_words_ids=[[pad]], max_length=39)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=ACTIVATIONS)
def marian(request, tmp_path_factory) -> tuple[Path, Path]:
    """A folder of Marian, and the imported model."""
    folder = write_marian(tmp_path_factory.mktemp("marian") / "opus-mt", request.param)
    import_model(folder, folder.parent / "clearhead")
    return folder, folder.parent / "clearhead"


def rows(folder: Path, tokenizer: Tokenizer) -> torch.Tensor:
    """The original id of each of our tokens."""
    vocabulary = json.loads((folder / "vocab.json").read_text())
    names = sorted(tokenizer.vocabulary().items(), key=lambda entry: entry[1])
    originals = {"<s>": "<pad>", "<2de>": ">>de<<", "<2fr>": ">>fr<<"}
    return torch.tensor([vocabulary[originals.get(name, name)] for name, _ in names])


@torch.no_grad()
def test_an_imported_marian_has_the_same_logits(marian):
    folder, out = marian
    ours, theirs = load_checkpoint(out), transformers.MarianMTModel.from_pretrained(folder).eval()
    ids = rows(folder, ours.processor)
    lengths, generator = torch.tensor([9, 4, 6]), torch.Generator().manual_seed(2)
    source, target = (torch.randint(4, len(ids), (3, 9), generator=generator) for _ in range(2))
    target[:, 0] = BOS
    kept = torch.arange(9) < lengths[:, None]
    logits = theirs(
        input_ids=ids[source.masked_fill(~kept, PAD)],
        attention_mask=kept.long(),
        decoder_input_ids=ids[target],
    ).logits
    found = ours.model(source.masked_fill(~kept, PAD), Padded(lengths), target)
    generated = [number for number in range(len(ids)) if number not in (PAD, BOS)]
    torch.testing.assert_close(found[..., generated], logits[..., ids[generated]], atol=1e-4, rtol=0)
    # Marian has one token for both, and never generates it.
    assert (found[..., [PAD, BOS]] < -50).all()


def test_an_imported_marian_tokenizes_and_translates_as_the_original_does(marian):
    folder, out = marian
    ours, theirs = clearhead.load(out), transformers.MarianMTModel.from_pretrained(folder).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    ids = rows(folder, ours.tokenizer)
    assert [str(one) for one in ours.directions] == ["en-de"]
    assert (ours.search.beam, ours.search.length_penalty) == (3, 1.0)
    complete = 0
    for text in SOURCES:
        encoded = tokenizer(text, return_tensors="pt")
        assert ids[[*ours.encode([text])[0], EOS]].tolist() == encoded["input_ids"][0].tolist()
        for beam in (1, 3):
            # Ours has a maximum length of its own, and another length penalty.
            written = theirs.generate(
                **encoded, num_beams=beam, do_sample=False, length_penalty=0.0, early_stopping=False
            )
            expected = [number for number in written[0].tolist()[1:] if number != tokenizer.pad_token_id]
            found = ours.translate(text, beam=beam, length_penalty=0.0)
            own = ids[[*found.ids, EOS] if found.complete else list(found.ids)].tolist()
            assert own == expected[: len(own)]
            complete += found.complete
            if found.complete:
                decoded = tokenizer.decode(written[0], skip_special_tokens=True)
                assert found.text == decoded.strip()
    assert complete


def test_targets_are_split_by_a_model_of_their_own(marian):
    folder, out = marian
    tokenizer, theirs = (
        Tokenizer.load(out / "tokenizer.json"),
        transformers.MarianTokenizer.from_pretrained(folder),
    )
    ids = rows(folder, tokenizer)
    for text in TARGETS:
        expected = theirs(text_target=text)["input_ids"]
        assert ids[[*tokenizer.for_targets.encode(text), EOS]].tolist() == expected
        assert tokenizer.decode(tokenizer.for_targets.encode(text)) == text
    assert tokenizer.encode(TARGETS[0]) != tokenizer.for_targets.encode(TARGETS[0])
    model = clearhead.load(out)
    assert model.score(SOURCES[0], TARGETS[0]).tokens[:-1] == tuple(
        tokenizer.pieces(tokenizer.for_targets.encode(TARGETS[0]))
    )


def test_what_looks_like_a_special_token_is_text(marian):
    tokenizer = Tokenizer.load(marian[1] / "tokenizer.json")
    for text in ("</s>", "<pad> dog", "a <s> b"):
        assert tokenizer.special_ids.isdisjoint({*tokenizer.encode(text)} - {tokenizer.unk_id})


def test_an_imported_marian_can_be_exported(marian, tmp_path):
    folder, out = marian
    assert export_model(out, tmp_path / "again") == "marian"
    first, again = (
        transformers.MarianMTModel.from_pretrained(one).eval() for one in (folder, tmp_path / "again")
    )
    tokenizer, own = (
        transformers.AutoTokenizer.from_pretrained(tmp_path / "again"),
        Tokenizer.load(out / "tokenizer.json"),
    )
    ids = rows(folder, own)
    found = tokenizer(SOURCES[0], return_tensors="pt")
    assert found["input_ids"][0].tolist() == [*own.encode(SOURCES[0]), EOS]
    start = {"decoder_input_ids": torch.tensor([[BOS, 7, 9]])}
    with torch.no_grad():
        logits = again(**found, **start).logits[..., EOS:]
        expected = first(ids[found["input_ids"]], decoder_input_ids=ids[start["decoder_input_ids"]]).logits
    torch.testing.assert_close(logits, expected[..., ids[EOS:]], atol=1e-4, rtol=0)
    import_model(tmp_path / "again", tmp_path / "back")
    before, after = (weights(load_checkpoint(one).model) for one in (out, tmp_path / "back"))
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert Tokenizer.load(tmp_path / "back" / "tokenizer.json").to_json() == own.to_json()


def test_language_tags_of_marian_select_the_target(tmp_path):
    folder = write_marian(tmp_path / "opus-mt", tags=(">>de<<", ">>fr<<", ">>xxx<<"))
    import_model(folder, tmp_path / "clearhead")
    model = clearhead.load(tmp_path / "clearhead")
    assert [str(one) for one in model.directions] == ["en-de", "en-fr"]
    card = (tmp_path / "clearhead" / "README.md").read_text()
    assert 'clearhead translate --model clearhead --to de "A dog runs."' in card
    theirs = transformers.MarianTokenizer.from_pretrained(folder)
    (tag,) = model.tag("fr")
    assert model.tokenizer.piece(tag) == "<2fr>"
    source = torch.tensor([tag, *model.encode(["He runs."])[0], EOS])
    assert rows(folder, model.tokenizer)[source].tolist() == theirs(">>fr<< He runs.")["input_ids"]
    export_model(tmp_path / "clearhead", tmp_path / "again")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert again("<2fr>He runs.")["input_ids"] == [tag, *model.encode(["He runs."])[0], EOS]


def test_a_length_penalty_without_meaning_is_left_out(marian, tmp_path):
    folder = Path(shutil.copytree(marian[0], tmp_path / "opus-mt"))
    generation = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(generation | {"length_penalty": -1.0}))
    import_model(folder, tmp_path / "clearhead")
    assert clearhead.load(tmp_path / "clearhead").search.length_penalty == 0.6


@pytest.mark.parametrize("tied_name", ["lm_head.weight", "model.decoder.embed_tokens.weight"])
def test_tied_embeddings_may_have_another_name(tied_name, marian, tmp_path):
    folder = Path(shutil.copytree(marian[0], tmp_path / "opus-mt"))
    tensors = load_file(folder / "model.safetensors")
    tensors[tied_name] = tensors.pop("model.shared.weight")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    import_model(folder, tmp_path / "clearhead")
    before, after = (weights(load_checkpoint(one).model) for one in (marian[1], tmp_path / "clearhead"))
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(("norm_position", "model_type"), [("post", "marian"), ("pre", "pegasus")])
@pytest.mark.parametrize("settings", [{}, {"activation": "swish", "readout_bias": "learned", "width": 30}])
@torch.no_grad()
def test_an_exported_translator_has_the_same_logits(
    norm_position, model_type, settings, write_translator, tmp_path
):
    settings = {"attention": {"heads": 3}, "norm_position": norm_position, **settings}
    model = write_translator(tmp_path / "clearhead", SOURCES + TARGETS, settings, ["<2de>"])
    tokens = len(model.readout_weight)
    assert export_model(tmp_path / "clearhead", tmp_path / "out") == model_type
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    lengths, source = torch.tensor([8, 5]), torch.randint(4, tokens, (2, 8))
    kept, target = torch.arange(8) < lengths[:, None], torch.randint(4, tokens, (2, 6))
    expected = theirs(input_ids=source, attention_mask=kept.long(), decoder_input_ids=target).logits
    torch.testing.assert_close(model(source, Padded(lengths), target), expected, atol=1e-4, rtol=0)


def test_the_built_in_translator_gives_the_same_ids_and_greedy_translations(tmp_path):
    ours = clearhead.load("en-de-fr")
    lines = (Path(ours.folder or "") / "test.en-de.tsv").read_text().splitlines()[:1000:50]
    texts = ["Two  blanks,\u200b one invisible character.", *(line.split("\t")[0] for line in lines)]
    export_model(Path(ours.folder or ""), tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    settings = json.loads((tmp_path / "out" / "config.json").read_text())["task_specific_params"]
    tag = settings["translation_en_to_de"]["prefix"]
    batch = tokenizer([tag + text for text in texts], return_tensors="pt", padding=True)
    for ids, text in zip(batch["input_ids"].tolist(), texts, strict=True):
        own = [*ours.tag("de"), *ours.encode([text])[0], EOS]
        assert ids[: len(own)] == own
        assert {*ids[len(own) :]} <= {PAD}
    written = tokenizer.batch_decode(theirs.generate(**batch, num_beams=1), skip_special_tokens=True)
    assert written == [str(one) for one in ours.translate(texts, to="de", beam=1)]
    import_model(tmp_path / "out", tmp_path / "back")
    back = clearhead.load(tmp_path / "back")
    assert (back.directions, back.search) == (ours.directions, ours.search)
    assert back.tokenizer.to_json() == ours.tokenizer.to_json()
    before, after = weights(ours.model), weights(back.model)
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"position": "rotary"},
            "model.position: 'rotary' cannot be exported: the closest architecture of Hugging Face, marian, "
            "has 'sinusoidal'; train a model with --set model.position=sinusoidal",
        ),
        ({"norm": "rms"}, "model.norm: 'rms' cannot be exported: "),
        ({"activation": "swiglu"}, "model.activation: 'swiglu' cannot be exported: "),
        ({"attention": {"score": "additive"}}, "model.attention.score: 'additive' cannot be exported: "),
        ({"attention": {"kv_heads": 2}}, "model.attention.kv_heads: 2 cannot be exported: "),
        ({"bias": False}, "model.bias: False cannot be exported: "),
        ({"tied": "target"}, "model.tied: 'target' cannot be exported: "),
        ({"window": 5}, "model.window: 5 cannot be exported: "),
    ],
)
def test_settings_that_neither_has_are_named(settings, message):
    with pytest.raises(ModelError) as caught:
        architecture_for(TranslatorConfig.model_validate(settings))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("source.spm", None, "no tokenizer; it needs source.spm, target.spm and vocab.json"),
        ("source.spm", b"\x0a\xff\xff", "source.spm: cut short or not a SentencePiece model"),
        ("source.spm", b"", "source.spm: has no pieces"),
        (
            "vocab.json",
            b'{"<unk>": 1}',
            "vocab.json: has no id for <pad>; the files belong to different models",
        ),
        (
            "tokenizer_config.json",
            b"{}",
            "tokenizer_config.json: source_lang None and target_lang None are not",
        ),
    ],
)
def test_damaged_folders_are_refused_in_one_line(name, content, message, marian, tmp_path):
    folder = Path(shutil.copytree(marian[0], tmp_path / "opus-mt"))
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "out")
    assert str(caught.value).startswith(str(folder))
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale_embedding": False}, "scale_embedding: False is not supported; expected True"),
        ({"decoder_ffn_dim": 30}, "decoder_ffn_dim: 30 is not supported; expected 24"),
        ({"normalize_before": True}, "normalize_before: True is not supported; expected False"),
    ],
)
def test_settings_that_a_translator_cannot_represent_are_named(changes, message, marian, tmp_path):
    folder = Path(shutil.copytree(marian[0], tmp_path / "opus-mt"))
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | changes))
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "out")
    assert str(caught.value) == f"{folder / 'config.json'}: {message}"
