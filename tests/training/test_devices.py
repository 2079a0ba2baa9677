"""Device and precision follow rules, and impossible settings are refused."""

import logging

import pytest
import torch
from torch import nn

from clearhead.accel import kernels
from clearhead.errors import SettingsError
from clearhead.models import GPT, GPTConfig, Translator, TranslatorConfig
from clearhead.training import devices
from clearhead.training.devices import choose_device, choose_precision, find_device

CPU = torch.device("cpu")
MODEL = nn.Linear(512, 512)


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("without_gpu")
def test_auto_is_the_cpu_where_there_is_no_gpu(caplog):
    caplog.set_level(logging.INFO)
    assert choose_device("auto") == CPU
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("device: cpu")


@pytest.mark.usefixtures("without_gpu")
def test_a_missing_gpu_is_an_error_when_it_is_required():
    with pytest.raises(
        SettingsError, match=r"training\.device: 'cuda', but torch finds no GPU here; use 'auto'"
    ):
        choose_device("cuda")
    with pytest.raises(SettingsError, match=r"^--device: 'cuda', but torch finds no GPU"):
        choose_device("cuda", setting="--device")


def test_each_process_on_a_machine_gets_its_own_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert find_device() == torch.device("cuda", 1)
    assert find_device("cpu") == CPU
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(SettingsError, match="LOCAL_RANK: 2, but this machine has 2 GPUs; start at most 2"):
        find_device()


@pytest.mark.parametrize(
    ("option", "supported", "width", "chosen"),
    [
        ("auto", True, 512, torch.bfloat16),
        ("auto", True, 64, torch.float32),
        ("auto", False, 512, torch.float32),
        ("bf16", False, 64, torch.bfloat16),
        ("fp32", True, 1024, torch.float32),
    ],
)
def test_a_cpu_uses_bf16_if_it_supports_it_and_the_model_is_wide(
    monkeypatch, option, supported, width, chosen
):
    monkeypatch.setattr(devices, "_cpu_has_bf16", lambda: supported)
    assert choose_precision(option, CPU, nn.Linear(width, 2 * width)) == chosen


def test_the_width_of_a_transformer_is_that_of_its_settings():
    shape = {"width": 24, "ffn_width": 40, "attention": {"heads": 2}}
    assert devices._width(GPT(GPTConfig.model_validate({**shape, "layers": 1}), 30)) == 24
    config = TranslatorConfig.model_validate({**shape, "encoder_layers": 1, "decoder_layers": 1})
    assert devices._width(Translator(config, 30)) == 24
    assert devices._width(nn.LayerNorm(5)) == 0


def test_a_gpu_without_bf16_computes_in_fp32_and_warns(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    gpu = torch.device("cuda")
    assert choose_precision("auto", gpu, MODEL) == torch.float32
    assert choose_precision("bf16", gpu, MODEL) == torch.float32
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "precision: fp32, because this GPU does not support bf16 (training.precision)"
    ]


@pytest.mark.accel
@pytest.mark.parametrize(("installed", "count"), [(False, 1), (True, 0)])
def test_a_gpu_without_triton_uses_torchs_kernels_and_warns(monkeypatch, caplog, installed, count):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr(kernels, "HAS_TRITON", installed)
    assert choose_precision("auto", torch.device("cuda"), MODEL) == torch.bfloat16
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == count
    assert all("install triton" in warning for warning in warnings)
