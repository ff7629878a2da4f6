"""Names of places and small texts that everything here shares."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

FOLDER = "/opt/ascend-images"
INSTALL_ROOT = "/usr/local/Ascend"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: A JSON document; what `gather` returns is described there.
Facts = dict[str, Any]

ARCH_OF_MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}
#: e_machine of an ELF file (System V ABI).
ELF_MACHINE = {62: "x86_64", 183: "aarch64"}

#: Variables that are lists of paths; their order matters.
LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CMAKE_PREFIX_PATH", "LD_PRELOAD")

#: Every process has its own, or a build step has them from ARG: no part of the image, and its report must not vary.
OWN_VARIABLES = tuple(
    """
    PWD OLDPWD SHLVL _ HOSTNAME TERM COLUMNS LINES UNLOCKED TARGETPLATFORM TARGETOS TARGETARCH TARGETVARIANT
    BUILDPLATFORM BUILDOS BUILDARCH BUILDVARIANT KERNEL_ARCH
    """.split()
)

#: How many examples a message names.
FEW = 5


def canonical(name: str) -> str:
    """Return a distribution's name in normal form, without extras: Foo_Bar[x] -> foo-bar."""
    return re.sub(r"[-_.]+", "-", name.split("[", maxsplit=1)[0].strip()).lower()


def few(items: Iterable[str]) -> str:
    """Return the first items and how many more there are."""
    known = list(items)
    more = f" and {len(known) - FEW} more" if len(known) > FEW else ""
    return ", ".join(known[:FEW]) + more


def count(number: int, word: str) -> str:
    """Return a number with its word: 1 file, 2 files."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def entries(value: str) -> list[str]:
    """Return the elements of a list of paths; an empty one means the current directory."""
    return value.split(":") if value else []


HIDDEN = "(hidden)"

_USERINFO = re.compile(r"://[^/@\s\"']+@")
#: Tokens that are known by their shape: of OpenAI and those who copy it, GitHub, GitLab, Hugging Face, ModelScope, npm,
#: PyPI, Docker, Slack, Google and AWS; JSON web tokens, private keys, and what stands in an Authorization header.
_SECRET_VALUE = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,}|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|"
    r"ms-[0-9a-f]{8}-[0-9a-f-]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}|dckr_pat_[\w-]{16,}|xox[a-z]-[\w-]{10,}|"
    r"AIza[\w-]{30,}|(?:AKIA|ASIA)[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]|-(?!----))*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
    r"|(?:(?<=\bBearer )|(?<=\bBasic ))(?=\S*[0-9])[\w.~+/-]{12,}=*",
    re.ASCII | re.IGNORECASE,
)
_SECRET_NAME = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIAL|PRIVATE|COOKIE|API_?KEY|ACCESS_?KEY|"
    r"(?:^|_)(?:KEY|KEYS|AUTH|AUTHORIZATION|CREDS?|PASS|PWD|PAT)$|(?:^|_)AUTH_",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Hide user and password of every address in a text, and whatever is a token or a private key by its shape."""
    return _SECRET_VALUE.sub(HIDDEN, _USERINFO.sub(f"://{HIDDEN}@", text))


def shown_value(name: str, value: str) -> str:
    """Return the value of a variable as it may be shown: hidden as a whole where its name promises a secret."""
    return HIDDEN if value and _SECRET_NAME.search(name) else without_secrets(value)


_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
# What a terminal obeys, what reverses the direction of writing, and what neither XML nor UTF-8 can hold.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


def visible(text: str) -> str:
    r"""Return text from an image as it may be shown: line ends as \n, colours left out, control characters as \xNN."""
    plain = _COLOURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _UNSEEN.sub(lambda sign: f"\\x{ord(sign[0]):02x}" if ord(sign[0]) < 256 else f"\\u{ord(sign[0]):04x}", plain)


def comes_from_host(path: str) -> bool:
    """Tell whether a path belongs to the host's driver or stands in for it (devlib): not the image's business."""
    return path.startswith(f"{INSTALL_ROOT}/driver") or "devlib" in path.split("/")


def release_key(release: str) -> str:
    """Return a CANN release in a form to compare: files write 8.3.RC2, tags 8.3.rc2."""
    return re.sub(r"[-_.]+", ".", release.strip().lower())


_RELEASE_IN_PATH = re.compile(
    r"/Ascend/(?:cann[-_]|ascend-toolkit/|nnal/(?:atb/)?)?(?P<release>\d+\.\d[0-9A-Za-z.]*(?:-[A-Za-z][0-9A-Za-z.]*)?)"
)


def releases_named(text: str) -> list[str]:
    """Return the CANN releases that paths in a text name, each once, in order."""
    return list(dict.fromkeys(found["release"].rstrip(".") for found in _RELEASE_IN_PATH.finditer(text)))


def plain_version(pin: str) -> str:
    """Return the version where a pin is an exact one (2.9.0 or ==2.9.0), else an empty text."""
    found = re.fullmatch(r"(?:==)?\s*([0-9][0-9A-Za-z.+!_-]*)", pin.strip())
    return found.group(1) if found else ""


def same_version(wanted: str, found: str) -> bool:
    """Compare exact versions as `==` does: a local part (+cpu) counts where it is asked for."""
    wanted, found = wanted.lower(), found.lower()
    return found == wanted or ("+" not in wanted and found.split("+")[0] == wanted)


def base_version(version: str) -> str:
    """Return the release numbers of a version alone: 2.9.0.post1+git1 -> 2.9.0."""
    found = re.match(r"[0-9]+(\.[0-9]+)*", version)
    return found.group(0) if found else version


def json_object(text: str | None) -> Facts:
    """Read a JSON object; an empty one where the text is none."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


#: Stands before what a program of ours answers: what Python starts with (sitecustomize.py) may print before and after.
MARK = "\x1eascend-images\x1e"


def marked(output: bytes) -> str:
    """Return what a program of ours printed behind `MARK`, up to the end of that line; empty where there is none."""
    text = output.decode(errors="replace")
    return text.rpartition(MARK)[2].split("\n", 1)[0] if MARK in text else ""


_NUMBERS = re.compile(r"\s*([0-9]{1,4})(?:-([0-9]{1,4}))?\s*")


def device_numbers(text: str) -> tuple[int, ...] | None:
    """Return N of each /dev/davinciN that `0,2-3` names, each once, in their order; None for another text."""
    numbers: dict[int, None] = {}
    for part in text.split(","):
        found = _NUMBERS.fullmatch(part)
        if not found or int(found[2] or found[1]) < int(found[1]):
            return None
        numbers.update(dict.fromkeys(range(int(found[1]), int(found[2] or found[1]) + 1)))
    return tuple(numbers)


def last_line(text: str) -> str:
    """Return the last line of a text that holds anything."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


#: What torch_npu puts behind its messages: a line of a log, which differs from process to process.
_LOG_LINE = re.compile(r"\[[A-Z]+\] [0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9:]{8} \(PID:[0-9]+,")


def without_log_lines(text: str) -> str:
    """Return a text without the lines of torch_npu's log; the text as it is where there is nothing else."""
    lines = [line for line in text.splitlines() if not _LOG_LINE.match(line.strip())]
    return "\n".join(lines) if last_line("\n".join(lines)) else text


def numbers_of(text: str) -> list[int]:
    """Return the numbers in a text, to order versions by."""
    return [int(number) for number in re.findall(r"\d+", text)]
