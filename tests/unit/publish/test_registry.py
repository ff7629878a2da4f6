import base64
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.digest import digest_of
from ascend_images.errors import BadInput, LookupIncomplete, PublishRefused
from ascend_images.pins.platform import Arch
from ascend_images.publish import transport
from ascend_images.publish.answers import retry_after
from ascend_images.publish.authorization import Challenge, parse_challenge
from ascend_images.publish.credentials import Login, login_for, run_helper
from ascend_images.publish.registry import INDEX, Repository
from ascend_images.publish.transport import NoAnswerError, NotSentError, Reply, Request, send
from tests.publish_kit import REPOSITORY, FakeRegistry, image, push, repository

INDEX_BYTES = b'{"manifests": []}'


def times(count: int, fault: Callable[[], Reply]) -> Callable[[Request], Reply | None]:
    """Return what answers the first so many requests with a fault."""
    left = [count]

    def before(_: Request) -> Reply | None:
        if left[0] == 0:
            return None
        left[0] -= 1
        return fault()

    return before


def cut() -> Reply:
    raise NoAnswerError("the connection was cut")


PASSING = {
    **{str(status): (lambda status=status: Reply(status=status)) for status in (408, 429, 500, 502, 503, 504)},
    "cut": cut,
}


# --- reading and writing


def test_what_is_put_is_found_by_tag_and_digest() -> None:
    registry = FakeRegistry()
    client = repository(registry)
    client.put("1.0", INDEX_BYTES, INDEX)
    by_tag, by_digest = client.manifest("1.0"), client.manifest(digest_of(INDEX_BYTES))
    assert by_tag == by_digest
    assert by_tag is not None
    assert (by_tag.digest, by_tag.media_type, by_tag.content) == (digest_of(INDEX_BYTES), INDEX, INDEX_BYTES)


def test_what_is_not_there_is_none() -> None:
    client = repository(FakeRegistry())
    assert client.manifest("1.0") is None
    assert client.blob(digest_of(b"")) is None
    assert not client.has_blob(digest_of(b""))
    assert client.tags() == ()
    client.delete(digest_of(b""))


def test_every_page_of_tags_is_read() -> None:
    registry = FakeRegistry(page=2)
    client = repository(registry)
    names = [f"t{number}" for number in range(7)]
    push(client, image(Arch.AMD64), *names)
    assert client.tags() == tuple(names)


def test_a_list_of_tags_that_leads_to_itself_ends() -> None:
    def same(request: Request) -> Reply | None:
        link = f'<{request.url}>; rel="next"'
        return Reply(status=200, headers={"link": link}, body=b'{"tags": ["a"]}')

    assert repository(FakeRegistry(before=same)).tags() == ("a",)


DEEP = b"[" * 200_000


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{}", b"<html>", b"null", b'{"tags": 5}', b'{"tags": "abc"}', b'{"tags": [1]}'),
        *(b'{"tags": ["../x"]}', b'{"tags": ["a b"]}', '{"tags": ["é"]}'.encode()),
        *(DEEP, b'{"tags":' + DEEP, b'{"tags": ["a"], "more": ' + DEEP),
    ],
)
def test_a_list_of_tags_that_is_none(body: bytes) -> None:
    client = repository(FakeRegistry(before=lambda _: Reply(status=200, body=body)))
    with pytest.raises(LookupIncomplete, match="no list of tags"):
        client.tags()


def test_bytes_of_another_digest_are_not_taken() -> None:
    client = repository(FakeRegistry(before=lambda _: Reply(status=200, body=b"{}")))
    with pytest.raises(LookupIncomplete, match="what came has the digest"):
        client.manifest(digest_of(INDEX_BYTES))


@pytest.mark.parametrize(
    "text", ["../manifests/sha256:" + "0" * 64, "", "sha256:0", "SHA256:" + "0" * 64, "a/b", "a?b"]
)
def test_what_is_no_digest_becomes_no_address(text: str) -> None:
    registry = FakeRegistry()
    client = repository(registry)
    asks: list[Callable[[str], Any]] = [client.delete, client.blob, client.has_blob, client.referrers, client.manifest]
    for ask in asks:
        with pytest.raises(BadInput, match=r"is no digest|neither a tag nor a digest"):
            ask(text)
    with pytest.raises(BadInput, match="neither a tag nor a digest"):
        client.put(text, INDEX_BYTES, INDEX)
    assert registry.asked == []


def test_nothing_is_deleted_by_a_tag() -> None:
    with pytest.raises(BadInput, match="is no digest"):
        repository(FakeRegistry()).delete("latest")


def test_deleting_where_that_is_not_allowed() -> None:
    client = repository(FakeRegistry(deletes=False))
    with pytest.raises(PublishRefused, match="does not let manifests be deleted"):
        client.delete(digest_of(b""))


# --- addresses


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("quay.io/ascend/x", "https://quay.io/v2/ascend/x/"),
        ("localhost:5000/x", "http://localhost:5000/v2/x/"),
        ("127.0.0.1:5055/a/b", "http://127.0.0.1:5055/v2/a/b/"),
        ("[::1]:5000/x", "http://[::1]:5000/v2/x/"),
        ("10.0.0.1:5000/x", "https://10.0.0.1:5000/v2/x/"),
        ("ascendai/cann", "https://registry-1.docker.io/v2/ascendai/cann/"),
        ("docker.io/ubuntu", "https://registry-1.docker.io/v2/library/ubuntu/"),
    ],
)
def test_only_loopback_is_spoken_to_in_the_clear(name: str, base: str) -> None:
    registry = FakeRegistry()
    repository(registry, name).manifest("1.0")
    assert registry.asked[0].url == f"{base}manifests/1.0"


# --- what passes by itself, and what does not


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
@pytest.mark.parametrize("count", [1, 5])
def test_what_passes_is_tried_again(fault: Callable[[], Reply], count: int) -> None:
    registry = FakeRegistry()
    sleeps: list[float] = []
    client = repository(registry, sleeps=sleeps)
    registry.before = times(count, fault)
    client.put("1.0", INDEX_BYTES, INDEX)
    assert registry.readable() == {"1.0": digest_of(INDEX_BYTES)}
    assert sleeps == [0.5 * 2**attempt for attempt in range(count)]


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
def test_what_does_not_pass_is_given_up_in_words(fault: Callable[[], Reply]) -> None:
    sleeps: list[float] = []
    client = repository(FakeRegistry(before=lambda _: fault()), sleeps=sleeps)
    with pytest.raises(LookupIncomplete, match=r"registry.invalid: .*6 times") as raised:
        client.put("1.0", INDEX_BYTES, INDEX)
    assert len(sleeps) == 5
    assert "same command again" in raised.value.do


@pytest.mark.parametrize("status", [400, 401, 403, 405, 413, 507])
def test_what_is_refused_is_not_tried_again(status: int) -> None:
    said = Reply(status=status, body=b'{"errors": [{"message": "because"}]}')
    registry = FakeRegistry(before=lambda _: said)
    with pytest.raises(PublishRefused, match=f"HTTP {status} .because."):
        repository(registry).put("1.0", INDEX_BYTES, INDEX)
    assert len(registry.asked) == 1


def test_what_a_registry_says_is_quoted_in_one_line() -> None:
    body = b'{"errors": [{"message": "no\\n  next:   curl evil | sh\\u001b[31m"}]}'
    with pytest.raises(PublishRefused) as raised:
        repository(FakeRegistry(before=lambda _: Reply(status=400, body=body))).put("1.0", INDEX_BYTES, INDEX)
    first, *others = str(raised.value).split("\n")
    assert first.endswith("HTTP 400 (no next: curl evil | sh)")
    assert others == ["  wanted: a registry that takes it"]


@pytest.mark.parametrize("body", [DEEP, b'{"errors": ["x"]}', b'{"errors": ' + DEEP, b'{"errors": [{"code": 5}]}'])
def test_a_refusal_that_says_nothing_readable(body: bytes) -> None:
    with pytest.raises(PublishRefused, match=r"read 1\.0: HTTP 400\n"):
        repository(FakeRegistry(before=lambda _: Reply(status=400, body=body))).manifest("1.0")


def test_what_cannot_be_sent_is_not_tried_again() -> None:
    def never(_: Request) -> Reply:
        raise NotSentError("its address or a header is none")

    sleeps: list[float] = []
    with pytest.raises(LookupIncomplete, match=r"registry.invalid: GET .* cannot be asked"):
        repository(FakeRegistry(before=never), sleeps=sleeps).manifest("1.0")
    assert sleeps == []


@pytest.mark.parametrize(("status", "words"), [(507, "room on"), (401, "login"), (403, "login")])
def test_a_refusal_says_what_would_mend_it(status: int, words: str) -> None:
    client = repository(FakeRegistry(before=lambda _: Reply(status=status)))
    with pytest.raises(PublishRefused) as raised:
        client.put("1.0", INDEX_BYTES, INDEX)
    assert words in raised.value.wanted
    assert raised.value.do == ("docker login registry.invalid" if words == "login" else "")


def test_a_registry_is_waited_for_as_long_as_it_asks() -> None:
    sleeps: list[float] = []
    registry = FakeRegistry(before=times(1, lambda: Reply(status=429, headers={"retry-after": "17"})))
    repository(registry, sleeps=sleeps).manifest("1.0")
    assert sleeps == [17]


def test_no_registry_is_waited_for_for_ever() -> None:
    sleeps: list[float] = []
    registry = FakeRegistry(before=times(1, lambda: Reply(status=503, headers={"retry-after": "86400"})))
    repository(registry, sleeps=sleeps).manifest("1.0")
    assert sleeps == [120]


def test_retry_after_may_be_a_date() -> None:
    assert retry_after(Reply(status=429, headers={"retry-after": formatdate(1000, usegmt=True)}), 990) == 10


@given(st.text())
def test_retry_after_may_be_anything(text: str) -> None:
    assert retry_after(Reply(status=429, headers={"retry-after": text}), 0) >= 0


# --- redirections


def test_a_redirection_is_followed_without_the_login() -> None:
    def before(request: Request) -> Reply | None:
        if request.url.startswith("https://cdn.invalid"):
            return Reply(status=200, body=b"blob")
        if "Authorization" not in request.headers:
            return Reply(status=401, headers={"www-authenticate": "Basic realm=x"})
        return Reply(status=307, headers={"location": "https://cdn.invalid/blob"})

    registry = FakeRegistry(before=before)
    client = Repository(REPOSITORY, send=registry, login=lambda _: Login("me", "secret"), sleep=lambda _: None)
    assert client.blob(digest_of(b"blob")) == b"blob"
    assert "Authorization" in registry.asked[1].headers
    assert "Authorization" not in registry.asked[2].headers


def test_a_redirection_to_plain_http_is_refused() -> None:
    away = Reply(status=302, headers={"location": "http://cdn.invalid/blob"})
    with pytest.raises(PublishRefused, match=r"redirects to http://cdn\.invalid"):
        repository(FakeRegistry(before=lambda _: away)).blob(digest_of(b"blob"))


NO_ADDRESSES = [
    *("http://[bad/", "https://h:abc/x", "https://h:99999/x", "https://\xe9.invalid/x", "https://cdn.invalid/\xe9"),
    *("https://cdn.invalid/a b", "//x y/z", "ftp://x/y", "javascript:1", "https://me:secret@cdn.invalid/"),
]


@pytest.mark.parametrize("location", NO_ADDRESSES)
def test_a_redirection_to_no_address_is_the_registrys_fault(location: str) -> None:
    away = Reply(status=307, headers={"location": location})
    registry = FakeRegistry(before=lambda _: away)
    with pytest.raises(PublishRefused, match=r"registry\.invalid redirects to"):
        repository(registry).manifest("1.0")
    assert len(registry.asked) == 1


def test_a_next_page_at_no_address_is_asked_of_the_same_registry() -> None:
    def pages(request: Request) -> Reply:
        more = {"link": '<http://[x/?last=a>; rel="next"'} if "last=" not in request.url else {}
        return Reply(
            status=200, headers=more, body=b'{"tags": ["b"]}' if "last=" in request.url else b'{"tags": ["a"]}'
        )

    assert repository(FakeRegistry(before=pages)).tags() == ("a", "b")


def test_redirections_in_a_circle_end() -> None:
    around = Reply(status=302, headers={"location": "/v2/x"})
    registry = FakeRegistry(before=lambda _: around)
    with pytest.raises(PublishRefused, match="HTTP 302"):
        repository(registry).blob(digest_of(b"blob"))
    assert len(registry.asked) == 6


# --- logins


class Guarded:
    """A registry that wants tokens, and the server that gives them."""

    def __init__(self, *, realm: str = "https://auth.invalid/token") -> None:
        self.registry = FakeRegistry()
        self.realm = realm
        self.good = "token-1"
        self.token_status = 200
        self.given: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        if request.url.startswith(self.realm):
            self.given.append(request)
            return Reply(status=self.token_status, body=json.dumps({"token": self.good}).encode())
        if request.headers.get("Authorization") != f"Bearer {self.good}":
            challenge = f'Bearer realm="{self.realm}",service="registry",scope="repository:x:pull"'
            return Reply(status=401, headers={"www-authenticate": challenge})
        return self.registry(request)

    def client(self, login: Login | None = None) -> Repository:
        return Repository(REPOSITORY, send=self, login=lambda _: login, sleep=lambda _: None)


def test_a_token_is_got_once_for_each_scope() -> None:
    guarded = Guarded()
    client = guarded.client(Login("me", "secret"))
    client.put("1.0", INDEX_BYTES, INDEX)
    client.put("1.1", INDEX_BYTES, INDEX)
    assert len(guarded.given) == 1
    assert guarded.given[0].headers["Authorization"] == "Basic " + base64.b64encode(b"me:secret").decode()


def test_nobody_gets_a_token_too() -> None:
    guarded = Guarded()
    assert guarded.client().manifest("1.0") is None
    assert "Authorization" not in guarded.given[0].headers


def test_a_token_that_expires_on_the_way_is_got_again() -> None:
    guarded = Guarded()
    client = guarded.client(Login("me", "secret"))
    client.put("1.0", INDEX_BYTES, INDEX)
    guarded.good = "token-2"
    client.put("1.1", INDEX_BYTES, INDEX)
    assert guarded.registry.readable().keys() == {"1.0", "1.1"}


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_login_that_expired(status: int) -> None:
    guarded = Guarded()
    guarded.token_status = status
    with pytest.raises(PublishRefused, match="login was refused") as raised:
        guarded.client(Login("me", "old")).put("1.0", INDEX_BYTES, INDEX)
    assert raised.value.do == "docker login registry.invalid"


def test_a_refresh_token_is_sent_as_one() -> None:
    guarded = Guarded()
    guarded.client(Login("", "", "refresh")).manifest("1.0")
    assert guarded.given[0].method == "POST"
    assert b"refresh_token=refresh" in (guarded.given[0].body or b"")


def test_no_login_goes_to_a_token_server_in_the_clear() -> None:
    guarded = Guarded(realm="http://auth.invalid/token")
    with pytest.raises(PublishRefused, match=r"sends logins to http://auth\.invalid"):
        guarded.client(Login("me", "secret")).manifest("1.0")
    assert guarded.given == []


@pytest.mark.parametrize("realm", ["", "https://", *NO_ADDRESSES])
def test_a_token_server_at_no_address_is_the_registrys_fault(realm: str) -> None:
    challenge = Reply(status=401, headers={"www-authenticate": f'Bearer realm="{realm}"'})
    with pytest.raises(PublishRefused, match=r"registry\.invalid sends logins to"):
        repository(FakeRegistry(before=lambda _: challenge)).manifest("1.0")


@pytest.mark.parametrize("token", ["a\r\nX-Evil: 1", "中", "a b", "", 5, [], "\x00"])
def test_what_is_no_token_is_not_sent(token: Any) -> None:
    guarded = Guarded()
    guarded.good = token
    with pytest.raises(PublishRefused, match="this user may not read"):
        guarded.client().manifest("1.0")
    assert guarded.registry.asked == []


@pytest.mark.parametrize("body", [DEEP, b'{"token": "a", "more": ' + DEEP])
def test_a_token_server_that_answers_with_brackets(body: bytes) -> None:
    def before(request: Request) -> Reply:
        challenge = {"www-authenticate": 'Bearer realm="https://auth.invalid/token"'}
        is_token = request.url.startswith("https://auth.invalid/")
        return Reply(status=200, body=body) if is_token else Reply(status=401, headers=challenge)

    with pytest.raises(PublishRefused, match="this user may not read"):
        repository(FakeRegistry(before=before)).manifest("1.0")


def test_challenges_are_read() -> None:
    text = 'Bearer realm="https://a/t",service="r",scope="repository:x:pull,push"'
    assert parse_challenge(text) == Challenge("bearer", "https://a/t", "r", "repository:x:pull,push")
    assert parse_challenge('basic realm="x"') == Challenge("basic", "x")
    assert parse_challenge("Negotiate") is None


@given(st.text())
def test_any_challenge_is_survived(text: str) -> None:
    parse_challenge(text)
    parse_challenge(f"Bearer {text}")


def config(folder: Path, document: Any) -> dict[str, str]:
    (folder / "config.json").write_text(document if isinstance(document, str) else json.dumps(document))
    return {"DOCKER_CONFIG": str(folder)}


AUTH = base64.b64encode(b"me:se:cret").decode()


@pytest.mark.parametrize("name", ["quay.io", "https://quay.io", "https://quay.io/v1/"])
def test_a_login_is_found_as_docker_wrote_it(tmp_path: Path, name: str) -> None:
    environment = config(tmp_path, {"auths": {name: {"auth": AUTH}}})
    assert login_for("quay.io", environment) == Login("me", "se:cret")
    assert login_for("other.io", environment) is None


def test_docker_io_has_a_name_of_its_own(tmp_path: Path) -> None:
    environment = config(tmp_path, {"auths": {"https://index.docker.io/v1/": {"auth": AUTH}}})
    assert login_for("", environment) == login_for("docker.io", environment) == Login("me", "se:cret")


def test_helpers_are_asked_by_name(tmp_path: Path) -> None:
    asked = []

    def helper(name: str, server: str) -> str:
        asked.append((name, server))
        return json.dumps({"Username": "me", "Secret": "s"})

    environment = config(tmp_path, {"credHelpers": {"quay.io": "pass"}, "credsStore": "store"})
    assert login_for("quay.io", environment, helper=helper) == Login("me", "s")
    assert login_for("other.io", environment, helper=helper) == Login("me", "s")
    assert asked == [("pass", "quay.io"), ("store", "other.io")]


def test_a_helper_may_give_a_refresh_token(tmp_path: Path) -> None:
    said = json.dumps({"Username": "<token>", "Secret": "r"})
    environment = config(tmp_path, {"credsStore": "store"})
    assert login_for("quay.io", environment, helper=lambda *_: said) == Login("", "", "r")


@pytest.mark.parametrize("said", [None, "", "not found", "[]", "{}", '{"Username": "me"}', "[" * 200_000])
def test_a_helper_that_has_nothing(tmp_path: Path, said: str | None) -> None:
    environment = config(tmp_path, {"credsStore": "store"})
    assert login_for("quay.io", environment, helper=lambda *_: said) is None


@pytest.mark.subprocess
def test_a_helper_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_helper("of-no-name", "quay.io") is None


@pytest.mark.subprocess
def test_a_helper_is_given_the_server_on_its_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "docker-credential-x"
    program.write_text('#!/bin/sh\n[ "$1" = get ] && cat\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert run_helper("x", "quay.io") == "quay.io"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert run_helper("x", "quay.io") is None


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        {"auths": None},
        {"auths": {"quay.io": None}},
        {"auths": {"quay.io": {"auth": "%%%"}}},
        {"auths": {"quay.io": {}}},
    ],
)
def test_a_configuration_without_a_login(tmp_path: Path, document: Any) -> None:
    assert login_for("quay.io", config(tmp_path, document)) is None


@pytest.mark.parametrize("text", ["{", "[" * 200_000, '{"auths": ' + "[" * 200_000])
def test_a_configuration_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match=r"config\.json: not docker's configuration"):
        login_for("quay.io", config(tmp_path, text))


@pytest.mark.subprocess
def test_a_helper_whose_name_no_program_has(tmp_path: Path) -> None:
    assert login_for("quay.io", config(tmp_path, {"credsStore": "x\0y"})) is None


def test_no_configuration_is_no_login(tmp_path: Path) -> None:
    assert login_for("quay.io", {"HOME": str(tmp_path)}) is None


def test_a_helper_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("x", 1)

    monkeypatch.setattr(subprocess, "run", hang)
    assert run_helper("x", "quay.io") is None


@pytest.mark.network
def test_a_port_where_nobody_listens_is_no_answer() -> None:
    with pytest.raises(NoAnswerError, match="refused"):
        send(Request(method="GET", url="http://127.0.0.1:1/v2/"))


@contextmanager
def speaking(answer: bytes, pause: float = 0.0) -> Iterator[str]:
    """Answer one connection after another with these bytes, each so many seconds after the last; yield the address."""

    def speak() -> None:
        while True:
            try:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    for place in range(len(answer)):
                        connection.sendall(answer[place : place + 1])
                        time.sleep(pause)
            except OSError:
                if listener.fileno() < 0:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=speak, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v2/"


@pytest.mark.network
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n" + b"x" * 4000,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 4000 + b"\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 4000\r\n\r\n" + b"x" * 4000,
    ],
    ids=["body", "headers", "refusal"],
)
def test_an_answer_that_drips_ends(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    monkeypatch.setattr(transport, "_WHOLE_SECONDS", 0.5)
    begun = time.monotonic()
    with speaking(answer, 0.02) as url, pytest.raises(NoAnswerError, match="no whole answer within"):
        send(Request(method="GET", url=url))
    assert time.monotonic() - begun < 10


@pytest.mark.network
def test_an_answer_is_whole_and_its_redirection_is_not_followed() -> None:
    with speaking(b"HTTP/1.1 307 Away\r\nLocation: http://[bad/\r\nContent-Length: 2\r\n\r\nok") as url:
        reply = send(Request(method="GET", url=url))
    assert (reply.status, reply.headers["location"], reply.body) == (307, "http://[bad/", b"ok")


@pytest.mark.network
@pytest.mark.parametrize("value", ["Bearer a\r\nX: secret", "Bearer 中secret"])
def test_a_header_that_cannot_be_sent_is_not_told(value: str) -> None:
    with pytest.raises(NotSentError) as raised:
        send(Request(method="GET", url="http://127.0.0.1:1/v2/", headers={"Authorization": value}))
    assert "secret" not in str(raised.value)
