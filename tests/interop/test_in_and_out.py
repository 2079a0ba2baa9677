"""Models of Hugging Face come in and go out: the same logits, the same words, the same bits."""

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

from .conftest import ROWS, TEXT, THEIRS, their_model, write_tokenizer


@pytest.mark.parametrize("name", THEIRS)
@torch.no_grad()
def test_logits_and_greedy_words_are_theirs(name, folders, tmp_path):
    import_model(folders[name], tmp_path / "ours")
    ours, theirs = load_for("language", tmp_path / "ours"), their_model(folders[name])
    words = torch.randint(1, 300, (3, 40), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(ours.model(words), theirs(words).logits, atol=1e-4, rtol=0)
    said = ours.generate(TEXT[:30], tokens=25, temperature=0)
    expected = [number for number in continued(theirs, ours.encode(TEXT[:30])) if number]
    assert said.text == ours.tokenizer.decode(expected)
    assert len(said.tokens) == len(expected)


def continued(theirs: transformers.PreTrainedModel, prompt: list[int]) -> list[int]:
    """What their greedy search writes after a prompt, its end included."""
    theirs.generation_config.pad_token_id = 0
    return theirs.generate(torch.tensor([prompt]), max_new_tokens=25, do_sample=False)[0].tolist()[
        len(prompt) :
    ]


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@torch.no_grad()
def test_whichever_of_several_ends_comes_first_ends_a_text_as_theirs(file, folders, tmp_path):
    folder = Path(shutil.copytree(folders["llama"], tmp_path / "theirs"))
    prompt = Tokenizer.from_huggingface(folder, ROWS).encode(TEXT[:30])
    written = continued(their_model(folder), prompt)
    place = max(written.index(word) for word in set(written[:15]))
    assert place
    never = [number for number in range(1, ROWS) if number not in written]
    ends = [never[0], written[place], never[1]]
    if file == "config.json":
        (folder / "generation_config.json").unlink()
    told = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(told | {"eos_token_id": ends}))
    import_model(folder, tmp_path / "ours")
    ours = load_for("language", tmp_path / "ours")
    said = ours.generate(TEXT[:30], tokens=25, temperature=0)
    expected = continued(their_model(folder), prompt)
    assert expected == written[: place + 1]
    assert (said.text, said.ended) == (ours.tokenizer.decode(expected[:-1]), "end")
    assert len(said.tokens) == place
    assert "".join(one.text for one in ours.stream(TEXT[:30], tokens=25, temperature=0)) == said.text
    assert ours.explain(TEXT[:30], tokens=25).target[-1].next == expected[-1]
    export_model(tmp_path / "ours", tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["eos_token_id"] == ends
    assert continued(their_model(tmp_path / "again"), prompt) == expected


@pytest.mark.parametrize("name", THEIRS)
def test_a_model_comes_out_as_it_went_in(name, folders, tmp_path):
    import_model(folders[name], tmp_path / "ours")
    family = export_model(tmp_path / "ours", tmp_path / "theirs")
    assert name.startswith(family)
    before, after = (load_file(place / "model.safetensors") for place in (folders[name], tmp_path / "theirs"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    words = torch.randint(1, 300, (2, 20), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        one, other = (their_model(place)(words).logits for place in (folders[name], tmp_path / "theirs"))
    assert torch.equal(one, other)
    import_model(tmp_path / "theirs", tmp_path / "again")
    one, other = (weights(load_checkpoint(tmp_path / place).model) for place in ("ours", "again"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_names_without_their_prefix_are_understood(folders, tmp_path):
    """As in the folder of the first GPT-2, which also holds the tables of its masks."""
    folder = Path(shutil.copytree(folders["gpt2"], tmp_path / "theirs"))
    tensors = load_file(folder / "model.safetensors")
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    tensors |= {f"h.{number}.attn.bias": torch.ones(1, 1, 64, 64) for number in range(2)}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    one, other = (import_model(place, tmp_path / "in" / place.name) for place in (folders["gpt2"], folder))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_half_precision_comes_out_as_it_went_in(folders, tmp_path):
    half = tmp_path / "half"
    model = their_model(folders["llama"]).to(torch.bfloat16)
    model.save_pretrained(half)
    write_tokenizer(half, whole=True)
    import_model(half, tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "theirs")
    before, after = (load_file(place / "model.safetensors") for place in (half, tmp_path / "theirs"))
    assert all(torch.equal(before[key], after[key]) and after[key].dtype == torch.bfloat16 for key in before)


@pytest.mark.parametrize("whole", [True, False])
def test_texts_are_cut_as_theirs_are_and_no_text_makes_a_sign(whole, tmp_path):
    write_tokenizer(tmp_path, whole)
    (tmp_path / "config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": 0}))
    ours = Tokenizer.from_huggingface(tmp_path, ROWS)
    if not whole:
        write_tokenizer(tmp_path, whole=True)
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for text in (TEXT, TEXT[::-1], "  a  b\n\n", "don't", "x" * 50):
        assert ours.encode(text) == theirs(text)["input_ids"]
        assert ours.decode(ours.encode(text)) == text
    assert 0 not in ours.encode("<|endoftext|>")
    assert ours.decode(ours.encode("<|endoftext|>")) == "<|endoftext|>"
    assert (ours.size, ours.bos_id, ours.eos_id, ours.adds_bos) == (ROWS, 0, 0, False)
    again = Tokenizer.from_json(ours.to_json())
    assert again.to_json() == ours.to_json()
    assert again.encode(TEXT) == ours.encode(TEXT)


def test_texts_begin_with_a_sign_where_theirs_do(folders, tmp_path):
    folder = Path(shutil.copytree(folders["llama"], tmp_path / "theirs"))
    write_tokenizer(folder, whole=True, leads=True)
    import_model(folder, tmp_path / "ours")
    language = load_for("language", tmp_path / "ours")
    assert language.encode("to be") == [0, *language.tokenizer.encode("to be")]
    export_model(tmp_path / "ours", tmp_path / "again")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert again("to be")["input_ids"] == language.encode("to be")


def test_a_model_of_ours_goes_out_with_its_tokenizer(babbler, tmp_path):
    export_model(babbler, tmp_path / "theirs")
    theirs, tokenizer = (
        their_model(tmp_path / "theirs"),
        transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs"),
    )
    ours = load_for("language", babbler)
    words = torch.tensor([tokenizer("to be or not")["input_ids"]])
    assert words[0].tolist() == ours.encode("to be or not")
    with torch.no_grad():
        torch.testing.assert_close(ours.model(words), theirs(words).logits, atol=1e-4, rtol=0)
    assert tokenizer.decode([2, *words[0].tolist(), 3], skip_special_tokens=True) == "to be or not"
