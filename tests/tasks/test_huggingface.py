"""Models of Hugging Face come in and go out: the same logits, the same words, the same bits."""

import json
import shutil
from pathlib import Path

import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from clearhead.checkpoint import load_checkpoint, weights
from clearhead.config import read_toml
from clearhead.errors import ModelError
from clearhead.models import GPTConfig
from clearhead.models.families import family_for
from clearhead.tasks.events import Finished
from clearhead.tasks.huggingface import export_model, import_model
from clearhead.tasks.loading import load_language
from clearhead.tasks.recipes import parse_recipe
from clearhead.tasks.run import resume, train
from clearhead.text.tokenizer import Tokenizer

TEXT = "To be, or not to be: that is the question; whether 'tis nobler… naïve café, 北京 🙂  two blanks\n"
ROWS = 340
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "vocab_size": ROWS,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
GPT2 = {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "vocab_size": ROWS,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
THEIRS = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2)),
    "gpt2, untied": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**GPT2, tie_word_embeddings=False, n_inner=40, activation_function="gelu")
    ),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, rms_norm_eps=1e-5)),
    "llama, tied": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            **SMALL,
            tie_word_embeddings=True,
            head_dim=6,
            attention_bias=True,
            mlp_bias=True,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        )
    ),
    "mistral": lambda: transformers.MistralForCausalLM(
        transformers.MistralConfig(**SMALL, sliding_window=5, head_dim=8)
    ),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SMALL, head_dim=8)),
}


def write_tokenizer(folder: Path, whole: bool, leads: bool = False) -> None:
    """A byte-level tokenizer in one of the two forms that folders have."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator([TEXT] * 3, trainer)
    if leads:
        inner.post_processor = processors.TemplateProcessing(
            single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
        )
    if whole:
        inner.save(str(folder / "tokenizer.json"))
    else:
        inner.model.save(str(folder))


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """A folder of each family as their library writes it, with weights that are far from zero."""
    made = {}
    for name, make in THEIRS.items():
        torch.manual_seed(1)
        model = make().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        made[name] = tmp_path_factory.mktemp("theirs")
        model.save_pretrained(made[name])
        write_tokenizer(made[name], whole=name != "gpt2")
    return made


def their_model(folder: Path) -> transformers.PreTrainedModel:
    return transformers.AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.mark.parametrize("name", THEIRS)
@torch.no_grad()
def test_logits_and_greedy_words_are_theirs(name, folders, tmp_path):
    import_model(folders[name], tmp_path / "ours")
    ours, theirs = load_language(tmp_path / "ours"), their_model(folders[name])
    words = torch.randint(1, 300, (3, 40), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(ours.model(words), theirs(words).logits, atol=1e-4, rtol=0)
    prompt = ours.encode(TEXT[:30])
    theirs.generation_config.pad_token_id = 0
    continued = theirs.generate(torch.tensor([prompt]), max_new_tokens=25, do_sample=False)[0, len(prompt) :]
    said = ours.generate(TEXT[:30], tokens=25, temperature=0)
    expected = [number for number in continued.tolist() if number]
    assert said.text == ours.tokenizer.decode(expected)
    assert len(said.tokens) == len(expected)


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
    folder = damaged(folders, tmp_path)
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
    assert (ours.size, ours.signs.start, ours.signs.end, ours.signs.leads) == (ROWS, 0, 0, False)
    again = Tokenizer.from_json(ours.to_json())
    assert again.to_json() == ours.to_json()
    assert again.encode(TEXT) == ours.encode(TEXT)


def test_texts_begin_with_a_sign_where_theirs_do(folders, tmp_path):
    folder = Path(shutil.copytree(folders["llama"], tmp_path / "theirs"))
    write_tokenizer(folder, whole=True, leads=True)
    import_model(folder, tmp_path / "ours")
    language = load_language(tmp_path / "ours")
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
    ours = load_language(babbler)
    words = torch.tensor([tokenizer("to be or not")["input_ids"]])
    assert words[0].tolist() == ours.encode("to be or not")
    with torch.no_grad():
        torch.testing.assert_close(ours.model(words), theirs(words).logits, atol=1e-4, rtol=0)
    assert tokenizer.decode([2, *words[0].tolist(), 3], skip_special_tokens=True) == "to be or not"


def damaged(folders: dict[str, Path], place: Path, name: str = "gpt2") -> Path:
    return Path(shutil.copytree(folders[name], place / "damaged"))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "gpt2",
            lambda tensors: tensors.pop("transformer.h.1.mlp.c_fc.bias"),
            "transformer.h.1.mlp.c_fc.bias is missing; copy the folder again",
        ),
        (
            "gpt2",
            lambda tensors: tensors.update({"transformer.h.2.ln_1.bias": torch.zeros(32)}),
            "transformer.h.2.ln_1.bias has no place in a model of model_type gpt2",
        ),
        (
            "llama",
            lambda tensors: tensors.pop("model.layers.0.self_attn.k_proj.weight"),
            "model.layers.0.self_attn.k_proj.weight is missing; copy the folder again",
        ),
        (
            "llama",
            lambda tensors: tensors.update({"model.norm.weight": torch.zeros(31)}),
            "model.norm.weight make 31, config.json asks for 32; the files belong to different models",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_named(name, change, message, folders, tmp_path):
    folder = damaged(folders, tmp_path, name)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "ours")
    assert str(caught.value) == f"{folder / 'model.safetensors'}: {message}"
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, "model_type: 'bert' is not one of gpt2, llama, mistral, qwen3"),
        ({"activation_function": "tanh"}, "activation_function: 'tanh' is not supported, but 'gelu_new'"),
        ({"n_head": 5}, "width 32 is not divisible by attention.heads 5"),
        ({"n_layer": "two"}, "layers: 'two' is not a whole number"),
        (
            {"attn_pdrop": "x"},
            "a value is of another type than gpt2 has (could not convert string to float: 'x'); "
            "copy it again",
        ),
    ],
)
def test_settings_that_are_not_ours_are_named(changes, message, folders, tmp_path):
    folder = damaged(folders, tmp_path)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | changes))
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "ours")
    assert str(caught.value) == f"{folder / 'config.json'}: {message}"


@pytest.mark.parametrize(
    ("name", "changes", "asked"),
    [
        ("gpt2", {"n_embd": 2 * 10**9}, "tokens of width 2,000,000,000"),
        ("gpt2", {"n_inner": 10**12}, "width 32 and hidden 1,000,000,000,000"),
        ("gpt2", {"n_layer": 10**9}, "1,000,000,000 layers"),
        ("gpt2", {"n_positions": 10**12}, "places for 1,000,000,000,000 tokens"),
        ("gpt2", {"vocab_size": 10**15}, "1,000,000,000,000,000 tokens of width 32"),
        ("llama", {"max_position_embeddings": 10**12}, "places for 1,000,000,000,000 tokens"),
        ("llama", {"head_dim": 10**12}, "heads of size 1,000,000,000,000"),
    ],
)
def test_settings_far_beyond_the_weights_are_refused_before_memory_is_taken(
    name, changes, asked, folders, tmp_path
):
    folder = damaged(folders, tmp_path, name)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | changes))
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "ours")
    assert str(caught.value).startswith(f"{folder / 'config.json'}: asks for ")
    assert f"{asked}, but there are " in str(caught.value)
    assert not (tmp_path / "ours").exists()


def test_a_folder_of_our_own_need_not_be_imported(babbler, tmp_path):
    with pytest.raises(ModelError, match="is a model of this package already; use it as it is"):
        import_model(babbler, tmp_path / "ours")


def test_an_index_without_files_is_refused(folders, tmp_path):
    folder = damaged(folders, tmp_path)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": ["model.safetensors"]}')
    with pytest.raises(ModelError, match=r"index\.json: weight_map: does not name the file of each tensor"):
        import_model(folder, tmp_path / "ours")


def test_stretched_positions_are_refused(folders, tmp_path):
    folder = damaged(folders, tmp_path, "llama")
    settings = json.loads((folder / "config.json").read_text())
    settings["rope_parameters"] = {"rope_type": "llama3", "rope_theta": 10000.0}
    (folder / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="rope_type: 'llama3' is not supported, but 'default'"):
        import_model(folder, tmp_path / "ours")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "no model of Hugging Face here, config.json is missing"),
        ("model.safetensors", "model.safetensors is missing; a pytorch_model.bin may run code"),
        ("vocab.json", "no tokenizer here; it needs tokenizer.json, or vocab.json and merges.txt"),
    ],
)
def test_files_that_are_missing_are_named(name, message, folders, tmp_path):
    folder = damaged(folders, tmp_path)
    (folder / name).unlink()
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "ours")
    assert str(caught.value).startswith(f"{folder}: {message}")


def test_a_model_of_theirs_is_trained_on_and_the_run_resumed(tmp_path):
    """Its tokenizer is of a kind that no run of ours would learn."""
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question\n" * 50)
    shape = {"preset": "shakespeare-small", "activation": "swiglu", "width": 16, "hidden": 32, "longest": 16}
    training = {"device": "cpu", "steps": 2, "validate_every": 2}
    values = {
        "kind": "language",
        "data": {"train": [str(tmp_path / "text.txt")]},
        "batches": {"tokens": 64},
        "training": training,
    }
    tokenizer = {"kind": "character", "vocabulary": 60}
    list(train(parse_recipe(values | {"model": shape, "tokenizer": tokenizer}), tmp_path / "ours"))
    export_model(tmp_path / "ours", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "back")
    on = parse_recipe(values | {"training": training | {"begin": str(tmp_path / "back")}})
    list(train(on, tmp_path / "on"))
    *_, finished = resume(tmp_path / "on", ["training.steps=3"])
    assert isinstance(finished, Finished)
    assert finished.step == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"preset": "shakespeare"},
            "model.activation: 'squared_relu' has no place in their library: the nearest models there, "
            "qwen3, have 'swiglu'; a model trained with --set model.activation=swiglu can go there",
        ),
        ({"position": "alibi"}, "model.position: 'alibi' has no place in their library"),
        (
            {"bias": False},
            "model.bias: False has no place in their library: the nearest models there, gpt2, "
            "have True; a model trained with --set model.bias=true can go there",
        ),
        ({"attention": {"heads": 12, "score": "cosine"}}, "model.attention.score: 'cosine' has no place"),
    ],
)
def test_models_that_their_library_does_not_have_are_refused(settings, message):
    with pytest.raises(ModelError) as caught:
        family_for(GPTConfig.model_validate(settings))
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(" can go there")


def test_a_run_that_began_with_words_that_are_not_of_bytes_goes_on(folders, tmp_path):
    shutil.copytree(folders["llama"], tmp_path / "theirs")
    inner = tokenizers.Tokenizer(models.BPE())
    inner.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=100, show_progress=False))
    inner.save(str(tmp_path / "theirs" / "tokenizer.json"))
    import_model(tmp_path / "theirs", tmp_path / "ours")
    (tmp_path / "text.txt").write_text(TEXT * 20)
    values = {
        "kind": "language",
        "data": {"train": [str(tmp_path / "text.txt")]},
        "model": read_toml(tmp_path / "ours" / "config.toml")["model"],
        "batches": {"tokens": 64},
        "training": {"begin": str(tmp_path / "ours"), "steps": 1, "device": "cpu"},
    }
    for _ in train(parse_recipe(values), tmp_path / "run"):
        pass
    assert Tokenizer.load(tmp_path / "run" / "tokenizer.json").config.kind == "bpe"
    *_, last = resume(tmp_path / "run", ["training.steps=2"])
    assert isinstance(last, Finished)
    assert last.step == 2
