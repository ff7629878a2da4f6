"""Checks: architecture, operating system, Python."""

from __future__ import annotations

from ..answers import NO_PINS, Given, Said, check, failed, passed, unknown
from ..words import last_line


@check(
    "architecture",
    "Is the image for the architecture that it was made for?",
    "Build each platform from its own lock (`invoke build` does), and push each architecture under its own tag.",
)
def check_architecture(given: Given) -> list[Said]:
    """A lock of one architecture in an image of another installs wheels that do not load."""
    found, platforms = given.arch, given.image.get("platforms")
    if given.lock and given.lock.platform and given.lock.platform != f"linux/{found}":
        return [
            failed(
                "lock.txt",
                f"a lock for {given.lock.platform} in an image for linux/{found}",
                f"linux/{found}",
                "build this platform from its own lock",
            )
        ]
    if not platforms:
        return [NO_PINS]
    if found not in platforms:
        return [
            failed(
                found, f"Python is built for {found}", " or ".join(platforms), "build with --platform for one of these"
            )
        ]
    return [passed(found)]


@check(
    "operating-system",
    "Is the operating system the one in the image's tag?",
    "Take the base image of the operating system that the pins name, or correct `os` in versions.toml.",
)
def check_operating_system(given: Given) -> list[Said]:
    """A public image for one operating system was once published under the tag of another (vllm-ascend#586)."""
    wanted, system = given.image.get("os"), given.facts["system"]
    found = f"{system['id']}{system['version']}"
    if not wanted:
        return [NO_PINS]
    if not found:
        return [unknown(wanted, "/etc/os-release is missing or says nothing")]
    if found.lower() != wanted.lower():
        return [
            failed("os-release", found, wanted, f"look at the base image: {given.image.get('base_image', 'not known')}")
        ]
    return [passed(found)]


@check(
    "python",
    "Is `python3` the pinned Python of the base image?",
    "Put the pinned Python's `bin` first in PATH, and leave out operating-system packages that bring another one.",
)
def check_python(given: Given) -> list[Said]:
    """An operating-system package can bring a second Python, which then has none of the image's packages."""
    python, wanted = given.facts["python"], given.image.get("python")
    if python["error"] or not python["version"]:
        return [
            failed(
                "python3",
                f"python3 does not run: {last_line(python['error']) or 'it is not there'}",
                wanted or "a Python",
                "look at PATH and LD_LIBRARY_PATH",
            )
        ]
    if not wanted:
        return [NO_PINS]
    home = given.image.get("python_home", "")
    if not f"{python['version']}.".startswith(f"{wanted}."):
        return [
            failed(
                "python3",
                f"{python['executable']} is Python {python['version']}",
                f"Python {wanted} in {home}",
                "look at PATH, and at what the operating system's packages brought",
            )
        ]
    if home and python["prefix"] and python["prefix"].rstrip("/") != home.rstrip("/"):
        return [failed("python3", f"python3 is the one in {python['prefix']}", home, f"put {home}/bin first in PATH")]
    return [passed(f"Python {python['version']}")]
