"""The tags of a repository: pages, tokens for anybody, and registries that give no list."""

import io
import json
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter

from ascend_images.lock import image_tags
from ascend_images.lock.image_tags import RegistryTags
from ascend_images.lock.reach import UnreachableError

LIST = "https://quay.io/v2/ascend/cann/tags/list?n=1000"
TOKEN = "https://quay.io/v2/auth?service=quay.io&scope=repository%3Aascend%2Fcann%3Apull"
ASK = {"WWW-Authenticate": 'Bearer realm="https://quay.io/v2/auth",service="quay.io"'}


class Registry(BaseAdapter):
    """Answers requests from a table; a URL without an answer is a name that nobody knows."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, list[tuple[int, Any, dict[str, str]]]] = {}
        self.tokens: list[str | None] = []

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        self.tokens.append(request.headers.get("Authorization"))
        answers = self.answers.get(str(request.url))
        if not answers:
            raise requests.ConnectionError("NameResolutionError: no such host")
        status, body, headers = answers.pop(0)
        response = requests.Response()
        response.status_code, response.url, response.reason = status, str(request.url), "Somehow"
        response.headers.update(headers)
        response.raw = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        return response

    def close(self) -> None:
        pass


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    made = Registry()
    monkeypatch.setattr(image_tags, "HTTPAdapter", lambda **_: made)
    return made


def test_a_list_in_several_pages_is_read_to_its_end(registry: Registry) -> None:
    following = {"Link": '</v2/ascend/cann/tags/list?n=1000&last=b>; rel="next"'}
    registry.answers[LIST] = [(200, {"tags": ["a", "b"]}, following)]
    registry.answers[f"{LIST}&last=b"] = [(200, {"tags": ["b", "c"]}, {})]
    assert RegistryTags().tags("quay.io/ascend/cann") == ("a", "b", "c")


def test_a_registry_that_wants_a_token_is_asked_for_one_that_anybody_gets(registry: Registry) -> None:
    registry.answers[LIST] = [(401, {}, ASK), (200, {"tags": ["a"]}, {})]
    registry.answers[TOKEN] = [(200, {"token": "t"}, {})]
    assert RegistryTags().tags("quay.io/ascend/cann") == ("a",)
    assert registry.tokens == [None, None, "Bearer t"]


def test_a_mirror_is_asked_in_place_of_the_registry(registry: Registry) -> None:
    registry.answers["https://mirror.example/cann/tags/list?n=1000".replace("/cann", "/v2/cann")] = [
        (200, {"tags": None}, {})
    ]
    assert RegistryTags({"quay.io/ascend/cann": "mirror.example/cann"}).tags("quay.io/ascend/cann") == ()


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([], "its host name is not known here"),
        ([(401, {}, {})], "it asks for a login"),
        ([(401, {}, {"WWW-Authenticate": 'Bearer realm="http://quay.io/auth"'})], "it asks for a login"),
        ([(403, {}, {})], "it has no such image, or one that asks for a login"),
        ([(503, {}, {})], "it answers 503 Somehow"),
        ([(200, b"<html>", {})], "an answer that is no list of tags"),
        ([(200, ["a"], {})], "an answer that is no list of tags"),
        ([(200, {"tags": "a"}, {})], "an answer that is no list of tags"),
    ],
)
def test_whatever_else_comes_is_no_answer_and_says_why(registry: Registry, answers: list[Any], why: str) -> None:
    registry.answers[LIST] = answers
    with pytest.raises(UnreachableError) as error:
        RegistryTags().tags("quay.io/ascend/cann")
    assert str(error.value) == why


@pytest.mark.parametrize("answer", [(404, {}, {}), (200, {"tokens": 1}, {}), (200, b"", {})])
def test_a_token_that_is_not_given_is_no_answer(registry: Registry, answer: Any) -> None:
    registry.answers[LIST] = [(401, {}, ASK)]
    registry.answers[TOKEN] = [answer]
    with pytest.raises(UnreachableError):
        RegistryTags().tags("quay.io/ascend/cann")


def test_a_registry_on_loopback_may_do_without_tls(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def get(_: requests.Session, url: str, **__: Any) -> requests.Response:
        asked.append(url)
        raise requests.ConnectionError("Connection refused")

    monkeypatch.setattr(requests.Session, "get", get)
    for place in ("127.0.0.1:5000/cann", "localhost/cann", "127.0.0.1.example:5000/cann"):
        with pytest.raises(UnreachableError):
            RegistryTags().tags(place)
    assert [url.partition(":")[0] for url in asked] == ["http", "http", "https"]
