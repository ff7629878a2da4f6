"""An image that has to be fetched first: what its registry answered, and that it gave no answer, are told apart."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound, InvalidRepository

from ascend_images.errors import BadInput, LookupIncomplete, MissingTool
from ascend_images.verify import verification
from ascend_images.verify.container import Files, observe

FILES = Files(words=lambda _: (), beside=lambda _: {})


class Engine:
    """An engine without the image, and what it says when it is to fetch it: at once, or on the way."""

    def __init__(self, *, refusal: Exception | None = None, told: str = "", gives: Any = None) -> None:
        self.refusal, self.told, self.gives = refusal, told, gives
        self.fetched: list[tuple[str, str | None]] = []
        self.images = SimpleNamespace(get=self._get)
        self.api = SimpleNamespace(pull=self._pull)
        self.containers = SimpleNamespace(list=lambda **_: [], create=self._create)

    def _get(self, _: str) -> Any:
        if self.gives and self.fetched:
            return self.gives
        raise ImageNotFound("No such image")

    def _pull(self, reference: str, *, platform: str | None, **_: Any) -> Iterator[dict[str, str]]:
        self.fetched.append((reference, platform))
        if self.refusal:
            raise self.refusal
        yield {"status": "Pulling from x"}
        if self.told:
            yield {"error": self.told}

    def _create(self, *_: Any, **__: Any) -> None:
        raise APIError("there it ends")


def refused(status: int, said: str) -> APIError:
    return APIError("", response=SimpleNamespace(status_code=status, url="", reason=""), explanation=said)


HEAD = 'failed to resolve reference "r.example/x:1": failed to do request: Head "https://r.example/v2/x/manifests/1": '


@pytest.mark.parametrize(
    ("engine", "error"),
    [
        (Engine(refusal=refused(500, f"{HEAD}dial tcp 127.0.0.1:1: connect: connection refused")), LookupIncomplete),
        (Engine(refusal=refused(500, f"{HEAD}dial tcp: lookup r.example: no such host")), LookupIncomplete),
        (Engine(refusal=refused(500, f"{HEAD}x509: certificate signed by unknown authority")), LookupIncomplete),
        (Engine(refusal=refused(500, "toomanyrequests: too many requests")), LookupIncomplete),
        (Engine(refusal=refused(500, "proxyconnect tcp: Proxy Authentication Required")), LookupIncomplete),
        (Engine(told="error pulling image configuration: read tcp: i/o timeout"), LookupIncomplete),
        (Engine(refusal=refused(404, "manifest for r.example/x:1 not found: manifest unknown")), BadInput),
        (Engine(refusal=refused(404, "pull access denied for x")), BadInput),
        (Engine(refusal=refused(400, "invalid tag format")), BadInput),
        (Engine(refusal=refused(500, "Head ...: unauthorized: authentication required")), BadInput),
        (Engine(refusal=InvalidRepository("Invalid repository name (-x/y)")), BadInput),
        (Engine(told="no matching manifest for linux/arm64/v8 in the manifest list entries"), BadInput),
        (Engine(told='image operating system "windows" cannot be used on this platform'), BadInput),
        (Engine(told="write /var/lib/docker/tmp/x: no space left on device"), MissingTool),
    ],
)
def test_no_answer_is_not_taken_for_one(engine: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        observe(engine, "r.example/x:1", FILES, platform="linux/arm64", limit=1)
    assert str(raised.value).startswith("r.example/x:1 for linux/arm64: neither on the engine nor to be fetched: ")
    assert engine.fetched == [("r.example/x:1", "linux/arm64")]


def test_an_image_that_comes_is_looked_at() -> None:
    engine: Any = Engine(gives=SimpleNamespace(id="sha256:1", attrs={"Os": "linux", "Architecture": "arm64"}))
    with pytest.raises(BadInput, match="the engine cannot make a container of this image: there it ends"):
        observe(engine, "r.example/x:1", FILES, limit=1)
    assert engine.fetched == [("r.example/x:1", None)]


@pytest.mark.parametrize("error", [BadInput("nobody has it"), LookupIncomplete("no answer")])
def test_for_a_verification_either_is_a_finding_of_that_image(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(verification, "observe", failing)
    engine: Any = None
    job: Any = SimpleNamespace(reference="x", platform="", arguments={}, limit=1, build="")
    assert verification._look(engine, job) == (None, error)


def test_an_index_whose_other_image_the_engine_shows_is_refused() -> None:
    shown = SimpleNamespace(id="sha256:1", attrs={"Os": "linux", "Architecture": "amd64"})
    engine: Any = Engine(gives=shown)
    with pytest.raises(BadInput, match="several images under this name, and gives that of linux/amd64") as refused:
        observe(engine, "r.example/x@sha256:2", FILES, platform="linux/arm64", limit=1)
    assert engine.fetched == [("r.example/x@sha256:2", "linux/arm64")]
    assert "--platform linux/arm64" in refused.value.do
