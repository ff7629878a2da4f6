"""The seal on unit tests holds."""

import socket
import subprocess

import pytest


def test_a_unit_test_cannot_reach_the_network() -> None:
    with socket.socket() as one, pytest.raises(AssertionError, match="reached for the network"):
        one.connect(("127.0.0.1", 9))


def test_a_unit_test_cannot_look_up_a_host() -> None:
    with pytest.raises(AssertionError, match="looked up a host"):
        socket.getaddrinfo("index.example", 443)


def test_a_unit_test_cannot_start_a_program() -> None:
    with pytest.raises(AssertionError, match="started a program"):
        subprocess.run(["true"])


@pytest.mark.subprocess
def test_one_that_asks_can() -> None:
    assert subprocess.run(["true"]).returncode == 0
