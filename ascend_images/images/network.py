"""The network of one build: mirrors, proxies and a company's CA, which enter as build secrets and are left nowhere."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from ascend_images.errors import BadInput, unknown
from ascend_images.files import read_regular
from ascend_images.pins.addresses import is_https, masked, parts_of
from ascend_images.pins.model import Mirror
from ascend_images.pins.tls import environment_faults
from ascend_images.pins.variant import Variant
from ascend_images.scratch import private_folder

#: Ids of the two optional secrets that each networked RUN of a rendered file mounts.
NETWORK_SECRET = "network"  # noqa: S105
CA_SECRET = "ca"  # noqa: S105

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_LOOPBACK = re.compile(r"localhost|127(?:\.\d+){3}|\[?::1\]?")
_OS_SETTING = {"ubuntu": "APT_MIRROR", "openeuler": "YUM_MIRROR"}


@dataclass(frozen=True, kw_only=True)
class Network:
    """What a build needs to reach the network from where it runs; empty where it reaches everything directly.

    `settings` are variables for the networked RUN steps, `ca` certificates in PEM, `base` the mirrored base image or
    empty, `hide` the passwords that must appear in no log, `notes` what the caller ought to be told.
    """

    settings: Mapping[str, str]
    ca: bytes = b""
    base: str = ""
    hide: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def secrets(self) -> dict[str, bytes]:
        """Return the content of each build secret by its id."""
        given: dict[str, bytes] = {}
        if self.settings:
            lines = [f"{name}={shlex.quote(value)}\n" for name, value in self.settings.items()]
            given[NETWORK_SECRET] = "".join(lines).encode()
        if self.ca:
            given[CA_SECRET] = self.ca
        return given


DIRECT = Network(settings={})


def network_for(
    variant: Variant,
    *,
    mirrors: Mapping[str, Mirror],
    mirror: str = "",
    ca_bundle: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Network:
    """Return the network for building `variant`: a mirror by name, the caller's proxies, a CA bundle.

    Raises BadInput for an unknown mirror, an address without TLS, TLS switched off in the environment, and a bundle
    that holds no certificates or holds a private key.
    """
    require_tls(environment)
    if mirror and mirror not in mirrors:
        raise unknown("mirror", mirror, mirrors, where="--mirror")
    chosen = mirrors[mirror] if mirror else Mirror()
    proxies, notes = _proxy_settings(environment)
    settings = {
        **_index_settings(variant, chosen, mirror),
        **_git_settings(chosen, mirror),
        **_os_settings(variant, chosen),
        **proxies,
    }
    return Network(
        settings=settings,
        ca=read_ca(ca_bundle) if ca_bundle else b"",
        base=mirrored_image(variant.base_reference, chosen.registry),
        hide=_passwords(settings.values()),
        notes=notes,
    )


def require_tls(environment: Mapping[str, str]) -> None:
    """Raise BadInput if a variable switches off the checking of certificates, for git, pip, uv, curl or another."""
    # By name alone: a value may hold a password. Functions that a shell exports are nothing a program obeys.
    off = [
        name
        for name, value in environment.items()
        if not name.startswith("BASH_FUNC_") and any(environment_faults("", {**_git_keys(environment), name: value}))
    ]
    if off:
        raise BadInput(
            f"the environment switches TLS off: {', '.join(off)}",
            wanted="certificates that are checked, against your company's CA as well",
            do=f"unset {' '.join(off)}; name the CA instead: --ca-bundle corp.pem",
        )


def mirrored_image(image: str, registries: Mapping[str, str]) -> str:
    """Return `image` at its mirror, or nothing where no entry is for it; the longest repository that matches counts."""
    for repository in sorted(registries, key=len, reverse=True):
        rest = image.removeprefix(repository)
        # A repository's name ends at a tag, a digest or a slash: `ascend/cann` is not for `ascend/cannery`.
        if rest != image and rest[:1] in ("", ":", "@", "/"):
            return registries[repository] + rest
    return ""


def read_ca(path: Path) -> bytes:
    """Return the certificates in a PEM file; raises BadInput when there are none, or more than certificates."""
    wanted = "a file of certificates in PEM (-----BEGIN CERTIFICATE-----)"
    try:
        content = read_regular(path)
    except OSError as error:
        raise BadInput(f"the CA bundle {path} cannot be read: {error.strerror}", wanted=wanted) from None
    if b"PRIVATE KEY-----" in content:
        raise BadInput(f"the CA bundle {path} holds a private key", wanted=f"{wanted} and nothing else")
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=content.decode("ascii", errors="ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise BadInput(f"the CA bundle {path} holds no certificates that can be read: {error}", wanted=wanted) from None
    return content


@contextmanager
def secret_files(contents: Mapping[str, bytes]) -> Iterator[dict[str, Path]]:
    """Yield a file for each secret in a private folder (mode 0700, files 0600) that is removed whatever happens."""
    with private_folder() as folder:
        paths = {}
        for name, content in contents.items():
            paths[name] = folder / name
            handle = os.open(paths[name], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
        yield paths


def _index_settings(variant: Variant, chosen: Mirror, name: str) -> dict[str, str]:
    """Return uv's indexes: all of the variant's once one is mirrored, since a variable replaces the whole list."""
    known = {*variant.indexes, "default"}
    addresses = {index: _https(url, f"mirror.{name}.index.{index}") for index, url in chosen.index.items()}
    settings = {}
    if "default" in addresses:
        settings["UV_DEFAULT_INDEX"] = addresses["default"]
    if known.intersection(addresses) - {"default"}:
        listed = (f"{index}={addresses.get(index, entry.url)}" for index, entry in variant.indexes.items())
        settings["UV_INDEX"] = " ".join(listed)
    return settings


def _git_settings(chosen: Mirror, name: str) -> dict[str, str]:
    """Return git's configuration by environment (git 2.31 on): each address prefix is replaced by its mirror's."""
    settings = {"GIT_CONFIG_COUNT": str(len(chosen.git))} if chosen.git else {}
    for number, (original, replacement) in enumerate(chosen.git.items()):
        settings[f"GIT_CONFIG_KEY_{number}"] = f"url.{_https(replacement, f'mirror.{name}.git')}.insteadOf"
        settings[f"GIT_CONFIG_VALUE_{number}"] = original
    return settings


def _os_settings(variant: Variant, chosen: Mirror) -> dict[str, str]:
    """Return the mirror of the operating system's packages; http will do there, as the packages are signed."""
    address = chosen.os.get(variant.os_family)
    return {_OS_SETTING[variant.os_family]: address} if address else {}


def _proxy_settings(environment: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the caller's proxies in both spellings (apt and curl read the lower-case one only), and notes.

    A proxy on loopback is left out, with a note: a build step would look for it in its own container.
    """
    settings = {}
    notes = []
    for name in _PROXIES:
        value = environment.get(name) or environment.get(name.lower()) or ""
        address = parts_of(value if "//" in value else f"//{value}") if name != "NO_PROXY" else None
        if name != "NO_PROXY" and value and (address is None or not address.hostname):
            raise BadInput(
                f"{name} is {masked(value)}",
                wanted="the address of a proxy: http://proxy.example:3128",
                do=f"unset {name}, or set it right",
            )
        host = (address.hostname or "") if address else ""
        if name != "NO_PROXY" and _LOOPBACK.fullmatch(host):
            notes.append(f"{name} is {masked(value)}: build steps go without, having a loopback of their own")
        elif value:
            settings[name] = settings[name.lower()] = value
    return settings, tuple(notes)


def _git_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the settings that git is given by environment; each one's value is another variable."""
    return {name: value for name, value in environment.items() if name.startswith("GIT_CONFIG_KEY_")}


def _https(address: str, key: str) -> str:
    if not is_https(address):
        raise BadInput(
            f"{key} is {masked(address)}",
            wanted="an https address: TLS stays on, with your company's CA if need be",
            do="write https:// there, and name the CA: --ca-bundle corp.pem",
        )
    return address


def _passwords(values: Iterable[str]) -> tuple[str, ...]:
    """Return the passwords in addresses, as they are written there and as programs print them."""
    found: set[str] = set()
    for address in re.findall(r"[a-z][a-z0-9+.-]*://\S+", " ".join(values)):
        parts = parts_of(address)
        password = parts.password if parts else None
        if password:
            found |= {password, unquote(password)}
    return tuple(sorted(found))
