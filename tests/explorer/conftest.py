"""The explorer's server over toys: a translator that has learned numbers, a GPT that has learned nothing."""

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
def asked(client):
    """Asks for a trace, and gives its manifest."""

    def ask(text: str = TEXT, **more) -> dict:
        answer = client.post("/api/trace", json={"text": text, **more})
        assert answer.status_code == 200, answer.text
        return client.get(f"/api/trace/{answer.json()['id']}").json()

    return ask


@pytest.fixture
def got(client):
    """What a path answers with, as JSON."""

    def get(path: str, **query) -> dict:
        answer = client.get(f"/api/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return get
