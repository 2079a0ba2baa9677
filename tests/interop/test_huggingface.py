"""Imported and exported models have the same logits, greedy texts and bits as the originals."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from clearhead.checkpoint import load_checkpoint, weights
from clearhead.interop.huggingface import export_model, import_model
from clearhead.tasks.load import load_for
from clearhead.text.tokenizer import Tokenizer

from .conftest import MODELS, TEXT, VOCABULARY, huggingface_model, write_tokenizer


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_an_imported_model_has_the_same_logits_and_greedy_text(name, folders, tmp_path):
    import_model(folders[name], tmp_path / "clearhead")
    ours, theirs = load_for("language", tmp_path / "clearhead"), huggingface_model(folders[name])
    tokens = torch.randint(1, 300, (3, 40), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(ours.model(tokens), theirs(tokens).logits, atol=1e-4, rtol=0)
    result = ours.generate(TEXT[:30], tokens=25, temperature=0)
    expected = [number for number in greedy(theirs, ours.encode(TEXT[:30])) if number]
    assert result.text == ours.tokenizer.decode(expected)
    assert len(result.tokens) == len(expected)


def greedy(model: transformers.PreTrainedModel, prompt: list[int]) -> list[int]:
    """The greedy continuation by transformers, including the end token."""
    model.generation_config.pad_token_id = 0
    tokens = model.generate(torch.tensor([prompt]), max_new_tokens=25, do_sample=False)[0]
    return tokens.tolist()[len(prompt) :]


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@torch.no_grad()
def test_the_first_of_several_end_tokens_ends_a_text(file, folders, tmp_path):
    folder = Path(shutil.copytree(folders["llama"], tmp_path / "huggingface"))
    prompt = Tokenizer.from_huggingface(folder, VOCABULARY).encode(TEXT[:30])
    written = greedy(huggingface_model(folder), prompt)
    end = max(written.index(token) for token in set(written[:15]))
    assert end
    never = [number for number in range(1, VOCABULARY) if number not in written]
    ends = [never[0], written[end], never[1]]
    if file == "config.json":
        (folder / "generation_config.json").unlink()
    settings = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(settings | {"eos_token_id": ends}))
    import_model(folder, tmp_path / "clearhead")
    ours = load_for("language", tmp_path / "clearhead")
    result = ours.generate(TEXT[:30], tokens=25, temperature=0)
    expected = greedy(huggingface_model(folder), prompt)
    assert expected == written[: end + 1]
    assert (result.text, result.ended) == (ours.tokenizer.decode(expected[:-1]), "end")
    assert len(result.tokens) == end
    assert "".join(one.text for one in ours.stream(TEXT[:30], tokens=25, temperature=0)) == result.text
    assert ours.explain(TEXT[:30], tokens=25).target[-1].next == expected[-1]
    export_model(tmp_path / "clearhead", tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["eos_token_id"] == ends
    assert greedy(huggingface_model(tmp_path / "again"), prompt) == expected


@pytest.mark.parametrize("name", MODELS)
def test_export_undoes_import(name, folders, tmp_path):
    import_model(folders[name], tmp_path / "clearhead")
    model_type = export_model(tmp_path / "clearhead", tmp_path / "huggingface")
    assert name.startswith(model_type)
    before, after = (
        load_file(folder / "model.safetensors") for folder in (folders[name], tmp_path / "huggingface")
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    tokens = torch.randint(1, 300, (2, 20), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        one, other = (
            huggingface_model(folder)(tokens).logits for folder in (folders[name], tmp_path / "huggingface")
        )
    assert torch.equal(one, other)
    import_model(tmp_path / "huggingface", tmp_path / "again")
    one, other = (weights(load_checkpoint(tmp_path / folder).model) for folder in ("clearhead", "again"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_tensor_names_may_lack_the_prefix(folders, tmp_path):
    """As in the original GPT-2 checkpoint, which also stores its causal masks."""
    folder = Path(shutil.copytree(folders["gpt2"], tmp_path / "huggingface"))
    tensors = load_file(folder / "model.safetensors")
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    tensors |= {f"h.{number}.attn.bias": torch.ones(1, 1, 64, 64) for number in range(2)}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    one, other = (import_model(source, tmp_path / "in" / source.name) for source in (folders["gpt2"], folder))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_half_precision_survives_import_and_export(folders, tmp_path):
    half = tmp_path / "half"
    model = huggingface_model(folders["llama"]).to(torch.bfloat16)
    model.save_pretrained(half)
    write_tokenizer(half, one_file=True)
    import_model(half, tmp_path / "clearhead")
    export_model(tmp_path / "clearhead", tmp_path / "huggingface")
    before, after = (load_file(folder / "model.safetensors") for folder in (half, tmp_path / "huggingface"))
    assert all(torch.equal(before[key], after[key]) and after[key].dtype == torch.bfloat16 for key in before)


@pytest.mark.parametrize("one_file", [True, False])
def test_tokenization_is_the_same_and_text_never_becomes_a_special_token(one_file, tmp_path):
    write_tokenizer(tmp_path, one_file)
    (tmp_path / "config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": 0}))
    ours = Tokenizer.from_huggingface(tmp_path, VOCABULARY)
    if not one_file:
        write_tokenizer(tmp_path, one_file=True)
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for text in (TEXT, TEXT[::-1], "  a  b\n\n", "don't", "x" * 50):
        assert ours.encode(text) == theirs(text)["input_ids"]
        assert ours.decode(ours.encode(text)) == text
    assert 0 not in ours.encode("<|endoftext|>")
    assert ours.decode(ours.encode("<|endoftext|>")) == "<|endoftext|>"
    assert (ours.size, ours.bos_id, ours.eos_id, ours.adds_bos) == (VOCABULARY, 0, 0, False)
    again = Tokenizer.from_json(ours.to_json())
    assert again.to_json() == ours.to_json()
    assert again.encode(TEXT) == ours.encode(TEXT)


def test_a_start_token_is_added_where_the_original_adds_one(folders, tmp_path):
    folder = Path(shutil.copytree(folders["llama"], tmp_path / "huggingface"))
    write_tokenizer(folder, one_file=True, adds_bos=True)
    import_model(folder, tmp_path / "clearhead")
    language = load_for("language", tmp_path / "clearhead")
    assert language.encode("to be") == [0, *language.tokenizer.encode("to be")]
    export_model(tmp_path / "clearhead", tmp_path / "again")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert again("to be")["input_ids"] == language.encode("to be")


def test_a_trained_model_is_exported_with_its_tokenizer(babbler, tmp_path):
    export_model(babbler, tmp_path / "huggingface")
    theirs, tokenizer = (
        huggingface_model(tmp_path / "huggingface"),
        transformers.AutoTokenizer.from_pretrained(tmp_path / "huggingface"),
    )
    ours = load_for("language", babbler)
    tokens = torch.tensor([tokenizer("to be or not")["input_ids"]])
    assert tokens[0].tolist() == ours.encode("to be or not")
    with torch.no_grad():
        torch.testing.assert_close(ours.model(tokens), theirs(tokens).logits, atol=1e-4, rtol=0)
    assert tokenizer.decode([2, *tokens[0].tolist(), 3], skip_special_tokens=True) == "to be or not"
