"""Unit tests are sealed: no network ever, no other program unless a test is marked `subprocess`."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest


def _refuse(what: str) -> Any:
    def refuse(*arguments: Any, **_: Any) -> NoReturn:
        raise AssertionError(f"a unit test {what}: {arguments!r}")

    return refuse


@pytest.fixture(autouse=True)
def sealed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("network") is None:
        monkeypatch.setattr(socket.socket, "connect", _refuse("reached for the network"))
        monkeypatch.setattr(socket, "getaddrinfo", _refuse("looked up a host"))
    if request.node.get_closest_marker("subprocess") is None:
        monkeypatch.setattr(subprocess, "Popen", _refuse("started a program (mark it `subprocess`)"))


@pytest.fixture(autouse=True, scope="session")
def hangups_heard() -> Iterator[None]:
    """Under nohup a process ignores hangups, as commands do that are tried here: that is no matter of the tests."""
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
