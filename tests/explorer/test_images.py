"""The explorer with a model that reads images: samples, uploads, patches, and what hiding them does."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image

from clearhead.data.caption_processor import CaptionProcessor
from clearhead.data.image_processor import ImageProcessor
from clearhead.explorer.app import make_app
from clearhead.explorer.images import ImageStore
from clearhead.explorer.library import Library
from clearhead.explorer.limits import MAX_IMAGE_BYTES
from clearhead.explorer.standalone import standalone_page
from clearhead.inspection import HidePatches, intervene
from clearhead.inspection.image import attention_distance
from clearhead.inspection.summaries import rollout
from clearhead.models.captioner import Captioner, CaptionerConfig
from clearhead.tasks.captioning.model import CaptionModel
from clearhead.tasks.image_classification.model import ImageClassificationModel
from clearhead.tasks.samples import sample_images, write_samples
from clearhead.tasks.translation.options import SearchConfig
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

from ..inspection.image_models import POOLED, PROCESSOR, SMALL, STEM, random_pixels, vit


def file_of(seed: int, kind: str = "png") -> bytes:
    """A random image as a file."""
    buffer = io.BytesIO()
    Image.fromarray(random_pixels(seed).permute(1, 2, 0).numpy()).save(buffer, kind)
    return buffer.getvalue()


def captioner() -> CaptionModel:
    """An untrained captioner of images of 8 pixels."""
    torch.manual_seed(0)
    words = Tokenizer.train(
        ["a red wall on the left", "a blue dog"], TokenizerConfig(kind="word", vocabulary=20)
    )
    processor = CaptionProcessor(ImageProcessor(PROCESSOR.size), words)
    small = {"width": 16, "ffn_width": 24, "attention": {"heads": 2}, "dropout": 0.0}
    settings = {
        **small,
        "decoder_layers": 2,
        "max_length": 12,
        "encoder": {**SMALL, "head": {"pooling": "mean"}},
    }
    model = Captioner.build(CaptionerConfig.model_validate(settings), processor)
    return CaptionModel(model, processor, SearchConfig(beam=3))


def model_folder(folder: Path) -> Path:
    """A folder with two random images as samples."""
    write_samples(folder, torch.stack([random_pixels(0), random_pixels(1)]), ["cat", "dog"])
    return folder


def image_models(folder: Path) -> dict[str, Any]:
    """Classifiers with a class token, sequence pooling and a convolutional stem, and a captioner."""
    found: dict[str, Any] = {
        "vit": ImageClassificationModel(vit(), PROCESSOR),
        "pooled": ImageClassificationModel(vit(**POOLED), PROCESSOR),
        "stem": ImageClassificationModel(vit(**STEM), PROCESSOR),
        "captions": captioner(),
    }
    found["vit"].name = str(folder)
    return found


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> dict[str, Path]:
    return sample_images(str(model_folder(tmp_path_factory.mktemp("run"))))


@pytest.fixture(scope="module")
def classifiers(samples) -> dict[str, Any]:
    return image_models(samples["0-cat"].parents[1])


@pytest.fixture(scope="module")
def images(classifiers) -> Iterator[TestClient]:
    library = Library([(name, model) for name, model in classifiers.items()])
    with TestClient(make_app(library), base_url="http://127.0.0.1") as client:
        yield client


def trace_of(client: TestClient, **request) -> dict:
    response = client.post("/api/trace", json={"text": "", **request})
    assert response.status_code == 200, response.text
    return client.get(f"/api/trace/{response.json()['id']}").json()


def upload(client: TestClient, data: bytes, name: str = "photo.png") -> str:
    response = client.post("/api/image", params={"name": name}, content=data)
    assert response.status_code == 200, response.text
    return response.json()["image"]


def test_the_list_of_models_says_what_they_read(images):
    found = {one["name"]: one["input"] for one in images.get("/api/models").json()["models"]}
    assert found["vit"] == "image"
    assert found["en-de"] == "text"
    assert images.get("/api/model", params={"model": "vit"}).json()["input"] == "image"


def test_samples_are_listed_and_have_thumbnails(images, samples):
    assert images.get("/api/images").json() == {"samples": ["0-cat", "1-dog"]}
    assert images.get("/api/images", params={"model": "stem"}).json() == {"samples": []}
    response = images.get("/api/image/1-dog")
    assert response.headers["content-type"] == "image/png"
    shown = np.array(Image.open(io.BytesIO(response.content)))
    assert np.array_equal(shown, np.array(Image.open(samples["1-dog"])))


def test_the_first_sample_is_traced_by_default(images, classifiers, samples):
    trace = trace_of(images)
    assert trace["text"] == str(samples["0-cat"])
    image = trace["images"]["image"]
    assert {key: image[key] for key in ("height", "width", "grid", "before")} == {
        "height": 8,
        "width": 8,
        "grid": [4, 4],
        "before": 1,
    }
    pixels = np.frombuffer(base64.b64decode(image["pixels"]), np.uint8).reshape(8, 8, 3)
    assert np.array_equal(pixels, np.array(Image.open(samples["0-cat"])))
    assert [token["piece"] for token in trace["sides"]["image"]][:3] == ["[CLS]", "0,0", "0,1"]
    assert trace["output"]["probabilities"] == classifiers["vit"].classify(samples["0-cat"]).probabilities
    assert trace["difference"] < 1e-5


def test_an_uploaded_image_is_traced_by_its_key(images, classifiers):
    key = upload(images, file_of(7, "gif"), "my cat.gif")
    trace = trace_of(images, image=key)
    assert trace["text"] == "my cat.gif"
    assert trace["image"] == key
    assert trace["output"]["probabilities"] == classifiers["vit"].classify(file_of(7, "gif")).probabilities
    assert "model.explain('my cat.gif')" in trace["python"]
    assert images.get(f"/api/image/{key}").status_code == 200


def test_hiding_patches_changes_the_probabilities_as_in_python(images, classifiers, samples):
    hide = {"kind": "hide", "side": "image", "patches": [[0, 1], [3, 2]]}
    trace = trace_of(images, image="1-dog", interventions=[hide])
    model = classifiers["vit"]
    with intervene(model.model, {"embedding.pixels": HidePatches([(0, 1), (3, 2)])}):
        changed = model.classify(samples["1-dog"]).probabilities
    assert trace["output"]["probabilities"] == changed
    assert trace["before"]["probabilities"] == model.classify(samples["1-dog"]).probabilities != changed
    assert "HidePatches(patches=((0, 1), (3, 2)))" in trace["python"]


def test_the_python_of_a_sample_gives_the_same_output(images, classifiers, monkeypatch, capsys):
    hide = {"kind": "hide", "side": "image", "patches": [[1, 1]]}
    trace = trace_of(images, image="1-dog", interventions=[hide])
    monkeypatch.setattr("clearhead.load", lambda name: classifiers[name])
    exec(compile(trace["python"], "python", "exec"), {})
    assert capsys.readouterr().out.strip() == trace["output"]["text"]


@pytest.mark.parametrize("name", ["vit", "pooled", "stem"])
def test_the_summaries_of_an_image_are_those_of_python(images, classifiers, samples, name):
    key = upload(images, samples["0-cat"].read_bytes())
    trace = trace_of(images, model=name, image=key)
    found = images.get(f"/api/trace/{trace['id']}/summaries").json()
    explanation = classifiers[name].explain(samples["0-cat"])
    weights = [explanation[f"encoder.blocks.{layer}.attention.weights"] for layer in range(2)]
    over = found["images"]["encoder"]
    if name == "vit":
        reader = torch.eye(17)[0]
    elif name == "pooled":
        reader = explanation["head.pooling_scores"][:, 0].softmax(0)
    else:
        reader = torch.full((16,), 1 / 16)
    assert over["weights"] == pytest.approx(reader.tolist(), abs=1e-6)
    assert over["rollout"][1] == pytest.approx((reader @ rollout(torch.stack(weights))[1]).tolist(), abs=1e-6)
    heads = found["attentions"]["encoder"]
    assert heads["distance_unit"] == "pixels"
    distances = [attention_distance(one, explanation.images["image"]).tolist() for one in weights]
    assert [one["distance"] for one in heads["heads"]] == pytest.approx(
        [*distances[0], *distances[1]], abs=1e-5
    )


def test_relevance_and_filters_are_served(images, classifiers, samples):
    trace = trace_of(images, image="0-cat")
    found = images.get(f"/api/trace/{trace['id']}/relevance").json()
    expected = classifiers["vit"].relevance(samples["0-cat"]).record()
    assert found["label"] == expected["label"]
    for method, values in expected["values"].items():
        assert found["values"][method] == pytest.approx(values, abs=1e-5)
    filters = images.get(f"/api/trace/{trace['id']}/filters").json()
    assert len(filters["images"]) == 12
    assert {"relevance", "filters"} <= set(trace["parts"])
    text = trace_of(images, model="en-de", text="A dog.")
    for part in ("relevance", "filters"):
        assert part not in text["parts"]
        response = images.get(f"/api/trace/{text['id']}/{part}")
        assert response.status_code == 400
        assert response.json()["error"].startswith(f"{part}: this model")


def test_a_captioner_is_traced_with_its_image(images, classifiers, samples):
    key = upload(images, samples["0-cat"].read_bytes(), "cat.png")
    trace = trace_of(images, model="captions", image=key)
    model = classifiers["captions"]
    explanation = model.explain(samples["0-cat"])
    assert trace["output"]["text"] == explanation.output == str(model.caption(samples["0-cat"]))
    assert trace["images"]["image"]["grid"] == [4, 4]
    assert {"logits", "beam", "lens"} <= set(trace["parts"])
    response = images.get(
        f"/api/trace/{trace['id']}/t/decoder.blocks.*.cross_attention.weights", params={"layer": 1, "head": 0}
    )
    weights = np.frombuffer(response.content, np.float32).reshape(-1, 16)
    expected = explanation["decoder.blocks.1.cross_attention.weights"][0].numpy()
    assert weights == pytest.approx(expected, abs=1e-6)


def test_the_start_of_a_caption_can_be_forced(images, classifiers, samples):
    key = upload(images, samples["0-cat"].read_bytes())
    forced = classifiers["captions"].tokenizer.encode("blue dog")
    trace = trace_of(images, model="captions", image=key, forced=forced)
    assert trace["output"]["text"].startswith("blue dog")
    assert "prefix=" in trace["python"]


def test_hiding_a_patch_changes_a_caption_as_in_python(images, classifiers, samples):
    key = upload(images, samples["0-cat"].read_bytes())
    patches = [[row, column] for row in range(4) for column in range(2)]
    hide = {"kind": "hide", "side": "image", "patches": patches}
    trace = trace_of(images, model="captions", image=key, interventions=[hide])
    model = classifiers["captions"]
    hidden = HidePatches([(row, column) for row, column in patches])
    with intervene(model.model, {"encoder.embedding.pixels": hidden}):
        explanation = model.explain(samples["0-cat"])
    assert trace["output"]["log_prob"] == pytest.approx(explanation.sum_log_prob, abs=1e-4)
    before = model.explain(samples["0-cat"])
    assert trace["before"]["log_prob"] == pytest.approx(before.sum_log_prob, abs=1e-4)
    assert trace["before"]["log_prob"] != trace["output"]["log_prob"]


def test_a_page_of_an_image_holds_its_pixels(classifiers, samples):
    page = standalone_page(classifiers["vit"].explain(samples["0-cat"]))
    assert base64.b64encode(np.array(Image.open(samples["0-cat"])).tobytes()).decode() in page


@pytest.mark.parametrize(
    ("request_body", "status", "line"),
    [
        ({"image": "gone"}, 404, "image: 'gone' is not there any more; choose an image"),
        ({"model": "stem"}, 400, "image: this model has no sample images; choose an image of your own"),
        (
            {"interventions": [{"kind": "hide", "side": "image", "patches": [[9, 0]]}]},
            400,
            "embedding.pixels: there is no patch 9,0; the image has 4 rows of 4",
        ),
        (
            {"interventions": [{"kind": "hide", "side": "text", "patches": []}]},
            400,
            "interventions.0: the model has no side text, only image",
        ),
        (
            {"interventions": [{"kind": "embedding", "side": "image", "position": 1, "token": "cat"}]},
            400,
            "has no tokenizer, so it cannot do this",
        ),
    ],
)
def test_a_request_that_an_image_model_cannot_serve_is_one_line(images, request_body, status, line):
    response = images.post("/api/trace", json={"text": "", **request_body})
    assert response.status_code == status, response.text
    assert line in response.json()["error"]


def test_patches_of_a_text_cannot_be_hidden(images):
    hide = {"kind": "hide", "side": "source", "patches": [[0, 0]]}
    response = images.post("/api/trace", json={"model": "en-de", "text": "A dog.", "interventions": [hide]})
    assert response.json()["error"] == "interventions.0: source has no patches to hide"


@pytest.mark.parametrize("data", [b"", b"not an image", file_of(0)[:60]])
def test_an_upload_that_is_no_image_is_refused_by_name(images, data):
    response = images.post("/api/image", params={"name": "notes.png"}, content=data)
    assert response.status_code == 400
    assert response.json()["error"].startswith("notes.png: not an image, or damaged")


def test_a_large_upload_is_refused(images):
    response = images.post("/api/image", content=b"0" * (MAX_IMAGE_BYTES + 1))
    assert response.status_code == 413
    assert "16,000,000 bytes" in response.json()["error"]


def test_the_store_drops_the_oldest_files():
    files = [file_of(seed) for seed in range(3)]
    store = ImageStore(max_bytes=len(files[1]) + len(files[2]))
    keys = [store.add("one.png", data) for data in files]
    assert store.get(keys[0]) is None
    assert store.get(keys[2]) == ("one.png", files[2])
