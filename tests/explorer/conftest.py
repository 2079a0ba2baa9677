"""The explorer's server with two toys: a translator trained on numbers, and an untrained GPT."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from clearhead.explorer.app import make_app
from clearhead.explorer.library import Library
from clearhead.tasks.load import load

TEXT = "three one four one"


@pytest.fixture(scope="session")
def models(number_model, babbler) -> list:
    return [("numbers", load(number_model)), ("babbler", load(babbler))]


@pytest.fixture(scope="session")
def translator(models):
    return models[0][1]


@pytest.fixture(scope="session")
def language(models):
    return models[1][1]


@pytest.fixture(scope="session")
def client(models) -> Iterator[TestClient]:
    with TestClient(make_app(Library(models)), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
def make_trace(client):
    """Requests a trace and returns its manifest."""

    def make(text: str = TEXT, **more) -> dict:
        response = client.post("/api/trace", json={"text": text, **more})
        assert response.status_code == 200, response.text
        return client.get(f"/api/trace/{response.json()['id']}").json()

    return make


@pytest.fixture
def get_json(client):
    """The JSON response of a path."""

    def get(path: str, **query) -> dict:
        response = client.get(f"/api/{path}", params=query)
        assert response.status_code == 200, response.text
        return response.json()

    return get
