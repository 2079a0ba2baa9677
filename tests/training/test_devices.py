"""Device and precision follow rules, and impossible wishes are refused."""

import logging

import pytest
import torch

from clearhead.accel import kernels
from clearhead.errors import SettingsError
from clearhead.training import devices
from clearhead.training.devices import choose_device, choose_precision, find_device

CPU = torch.device("cpu")


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("without_gpu")
def test_auto_is_the_processor_where_there_is_no_gpu(caplog):
    caplog.set_level(logging.INFO)
    assert choose_device("auto") == CPU
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("device: cpu")


@pytest.mark.usefixtures("without_gpu")
def test_a_missing_gpu_is_named_when_asked_for():
    with pytest.raises(
        SettingsError, match=r"training\.device: 'cuda', but torch finds no GPU here; use 'auto'"
    ):
        choose_device("cuda")
    with pytest.raises(SettingsError, match=r"^--device: 'cuda', but torch finds no GPU"):
        choose_device("cuda", asked_by="--device")


def test_every_process_on_a_machine_has_its_own_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert find_device() == torch.device("cuda", 1)
    assert find_device("cpu") == CPU
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(SettingsError, match="LOCAL_RANK: 2, but this machine has 2 GPUs; start at most 2"):
        find_device()


@pytest.mark.parametrize(
    ("options", "able", "width", "chosen"),
    [
        ("auto", True, 512, torch.bfloat16),
        ("auto", True, 64, torch.float32),
        ("auto", False, 512, torch.float32),
        ("bf16", False, 64, torch.bfloat16),
        ("fp32", True, 1024, torch.float32),
    ],
)
def test_a_processor_uses_bf16_when_it_has_it_and_the_model_is_wide(
    monkeypatch, options, able, width, chosen
):
    monkeypatch.setattr(devices, "_processor_has_bf16", lambda: able)
    assert choose_precision(options, CPU, width) == chosen


def test_a_gpu_without_bf16_computes_in_fp32_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    gpu = torch.device("cuda")
    assert choose_precision("auto", gpu, 512) == torch.float32
    assert choose_precision("bf16", gpu, 512) == torch.float32
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "precision: fp32, as this GPU cannot compute in bf16 (training.precision)"
    ]


@pytest.mark.parametrize(("installed", "said"), [(False, 1), (True, 0)])
def test_a_gpu_without_triton_takes_the_kernels_of_torch_and_says_so(monkeypatch, caplog, installed, said):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr(kernels, "HAS_TRITON", installed)
    assert choose_precision("auto", torch.device("cuda"), 512) == torch.bfloat16
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == said
    assert all("install triton" in warning for warning in warnings)
