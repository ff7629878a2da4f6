"""The words of `--publish`: docker's own grammar, read and written."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.host.ports import Ports, parse_ports


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("8000:8000", Ports(8000, 8000, 8000)),
        ("80:8000/tcp", Ports(8000, 8000, 80)),
        ("8000", Ports(8000, 8000)),
        (":8000", Ports(8000, 8000)),
        ("8000/UDP", Ports(8000, 8000, protocol="udp")),
        ("9000-9002:90-92/sctp", Ports(90, 92, 9000, protocol="sctp")),
        ("127.0.0.1:80:8000", Ports(8000, 8000, 80, "127.0.0.1")),
        ("127.0.0.1::8000", Ports(8000, 8000, 0, "127.0.0.1")),
        ("[::1]:80:8000", Ports(8000, 8000, 80, "::1")),
        ("[::]::8000", Ports(8000, 8000, 0, "::")),
    ],
)
def test_ports_are_written_as_docker_writes_them(text: str, ports: Ports) -> None:
    assert parse_ports(text) == ports


@pytest.mark.parametrize(
    "text",
    [
        "", ":", "x", "8000:", "0", "80:0", "65536:80", "80:65536", "80:9000-9001", "9000-9001:80", "91-90",
        "80:80/", "80:80/icmp", "80:80/tcp/udp", "localhost:80:80", "1.2.3:80:80", "::1:80:80", "[::1]:80",
        "[127.0.0.1]:80:80", "[::1%eth0]:80:80", "[::1:80:80", "127.0.0.1:80", "80 :80", "8000=8000", "٨٠",
    ],
)  # fmt: skip
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--publish") as error:
        parse_ports(text)
    assert error.value.wanted
    assert error.value.do == "--publish 8000:8000"


PORT = st.integers(1, 65000)
ADDRESS = st.sampled_from(["", "127.0.0.1", "::1", "0.0.0.0", "fe80::1"])


@given(PORT, st.integers(0, 500), st.just(0) | PORT, ADDRESS, st.sampled_from(["tcp", "udp", "sctp"]))
def test_what_is_written_is_read_back(first: int, more: int, host: int, address: str, protocol: str) -> None:
    ports = Ports(first, first + more, host, address, protocol)
    assert parse_ports(str(ports)) == ports
    assert len(ports.host) == len(ports.container) == more + 1


@given(st.text() | st.text("0123456789:-/[].tcpud"))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadInput):
        assert parse_ports(str(parse_ports(text))) == parse_ports(text)
