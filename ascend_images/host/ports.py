"""Ports of a container that the host opens: words of `--publish`, read as docker reads its own."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ascend_images.errors import BadInput

_PROTOCOLS = ("tcp", "udp", "sctp")
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)
_LAST = 65535
_WANTED = "HOST:CONTAINER, [IP:][HOST]:CONTAINER or CONTAINER, ports or ranges of them, with /udp behind it or not"


@dataclass(frozen=True)
class Ports:
    """A port, or a range of as many ports on both sides; `first_host` 0 where docker chooses the host's.

    `address` is the host's, empty for all of them.
    """

    first: int
    last: int
    first_host: int = 0
    address: str = ""
    protocol: str = "tcp"

    @property
    def container(self) -> range:
        """The container's ports."""
        return range(self.first, self.last + 1)

    @property
    def host(self) -> tuple[int | None, ...]:
        """The host's port for each of the container's, None where docker chooses it."""
        return tuple(self.first_host + n if self.first_host else None for n in range(len(self.container)))

    def __str__(self) -> str:
        """The ports as docker and Compose write them."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        host = _written(self.first_host, self.first_host + self.last - self.first) if self.first_host else ""
        before = f"{address}:{host}:" if address else f"{host}:" if host else ""
        behind = "" if self.protocol == "tcp" else f"/{self.protocol}"
        return f"{before}{_written(self.first, self.last)}{behind}"


def parse_ports(text: str) -> Ports:
    """Return the ports that a word as of docker's `-p` means; raises BadInput for another form.

    The grammar is that of docs.docker.com/reference/cli/docker/container/run, --publish; but a range on the host for a
    single port of the container, of which docker takes any that is free, is refused.
    """
    word, slash, protocol = text.partition("/")
    address, host, container = _parts(word)
    ports, hosts = _range(container), _range(host) if host else range(0)
    known = not slash or protocol.lower() in _PROTOCOLS
    if not (ports and known and _is_address(address)) or hosts is None or (host and len(hosts) != len(ports)):
        raise BadInput(f'--publish "{text}"', wanted=_WANTED, do="--publish 8000:8000")
    bare = address.removeprefix("[").removesuffix("]")
    return Ports(ports[0], ports[-1], hosts[0] if hosts else 0, bare, protocol.lower() or "tcp")


def require_own_network(ports: Iterable[Ports], network: str) -> None:
    """Raise BadInput for ports of a container that has no address of its own, whose ports docker would drop unsaid."""
    words = " ".join(f"--publish {one}" for one in ports)
    if not words or not (network in ("host", "none") or network.startswith("container:")):
        return
    why = "its ports are the host's already" if network == "host" else "it has no ports of its own to open"
    raise BadInput(
        f"{words} --network {network}: {why}",
        wanted="--publish or that network, and not both",
        do="leave out --publish" if network == "host" else "leave out --network",
    )


def _parts(word: str) -> tuple[str, str, str]:
    """Return address, host's and container's part of `[IP:][HOST]:CONTAINER`; an IPv6 address is in brackets."""
    rest, _, container = word.rpartition(":")
    if rest.startswith("["):
        address, bracket, host = rest.partition("]")
        # `[::1]` alone before the container's port has no part for the host's.
        return (f"{address}{bracket}", host[1:], container) if host.startswith(":") else ("?", "", container)
    address, colon, host = rest.rpartition(":")
    return (address or "?", host, container) if colon else ("", host, container)


def _range(text: str) -> range | None:
    match = _RANGE.fullmatch(text)
    if not match:
        return None
    first, last = int(match[1]), int(match[2] or match[1])
    return range(first, last + 1) if 1 <= first <= last <= _LAST else None


def _is_address(text: str) -> bool:
    if not text:
        return True
    try:
        if text.startswith("["):
            ipaddress.IPv6Address(text.removeprefix("[").removesuffix("]"))
        else:
            ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return "%" not in text


def _written(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
