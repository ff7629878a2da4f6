"""Version numbers of CANN releases and of host drivers (Ascend HDK): parsing and order."""

import functools
import re
from dataclasses import dataclass, field

from ascend_images.errors import BadInput

_WANTED = "a CANN or driver version such as 9.1.0, 8.3.RC2, 9.1.0-beta.3, 8.5.0.alpha002, 25.0.rc1.1 or 24.1.0.3"

# Longer than any real one; also keeps int() far below the digit limit at which it raises ValueError.
_MAX_LENGTH = 64

_NUMBER = r"(?:0|[1-9][0-9]*)"
_VERSION = re.compile(
    rf"""
    (?P<major>{_NUMBER}) \. (?P<minor>{_NUMBER}) \.
    (?: rc (?P<candidate>{_NUMBER}) | (?P<release>{_NUMBER}) )
    (?P<patches> (?: \. {_NUMBER} )* )
    (?: [.-] (?P<stage>alpha|beta) (?: \.? (?P<stage_number>[0-9]+) )? )?
    (?: \. b (?P<build>[0-9]+) )?
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)

_STAGES = {"alpha": 0, "beta": 1, "": 2}  # a text with neither is the release itself and comes after both
_ABSENT = -1  # sorts before every number that may stand there

_FIRMWARE_PREFIX = re.compile(r"[0-9]+(?:\.[0-9]+)+-", re.ASCII)

_Key = tuple[int, int, bool, int, tuple[int, ...], int, int, int]


@functools.total_ordering
@dataclass(frozen=True, eq=False)
class ReleaseVersion:
    """A CANN or driver (HDK) version; `str()` gives back the text it was read from.

    The vendor's numbering is neither PEP 440 nor SemVer. The rules, and where each comes from:

    * `rc` takes the place of the third number and precedes every number there, so `24.1.rc3 < 24.1.0` and
      `25.3.rc1 < 25.3.0` (release notes on hiascend.com, where X.Y.RC1 comes out before X.Y.0).
    * Further numbers are patches of what stands before them, of a candidate too: `25.0.rc1 < 25.0.rc1.1`,
      `24.1.0 < 24.1.0.3` (driver packages `…-npu-driver_25.0.rc1.1_…`, `23.0.2.1` in npu-smi output).
    * `alpha` and `beta` precede what they lead to, alpha first: `8.1.RC1.alpha001 < 8.1.RC1`,
      `8.5.0.alpha002 < 8.5.0`, `9.1.0-beta.1 < 9.1.0-beta.3 < 9.1.0` (tags of github.com/Ascend/cann-container-image).
      A dot and a hyphen before them, and leading zeros after, make no difference.
    * `.b030` is a build of the release it stands behind: after the release, before its first patch. The vendor
      documents no order for these; machines report them as their driver's version (npu-smi prints `24.1.rc1.b030`),
      so they are held to be that release and not something before it.
    * Case makes no difference: CANN's files say `8.3.RC2`, the tags of its images `8.3.rc2`
      (https://github.com/vllm-project/vllm-ascend/issues/3689, github.com/Ascend/cann-container-image).

    Two texts that mean the same release are equal and have the same hash. Raises BadInput for any other text, so
    that no instance holds nonsense.
    """

    text: str
    _key: _Key = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_key", _key_of(self.text))

    @classmethod
    def parse(cls, text: str) -> "ReleaseVersion":
        """Return the version that `text` names; raises BadInput when it names none."""
        return cls(text)

    @property
    def series(self) -> str:
        """The first two numbers, a line in the vendor's tables: `9.1` for 9.1.0-beta.3, `8.3` for 8.3.RC2."""
        return f"{self._key[0]}.{self._key[1]}"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReleaseVersion):
            return NotImplemented
        return self._key == other._key

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, ReleaseVersion):
            return NotImplemented
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)


def driver_version_of(package: str) -> ReleaseVersion:
    """Return the driver's version from a driver package string, `7.5.0.5.220-24.1.0.3` or just `24.1.0.3`.

    The package string names the firmware first, all in numbers, then a hyphen and the driver. Raises BadInput.
    """
    prefix = _FIRMWARE_PREFIX.match(package)
    driver = package[prefix.end() :] if prefix else package
    try:
        return ReleaseVersion.parse(package if _VERSION.fullmatch(package) else driver)
    except BadInput:
        raise BadInput(
            f"{package!r} names no driver version",
            wanted="<firmware>-<driver>, such as 7.5.0.5.220-24.1.0.3, or the driver's version alone",
        ) from None


def _key_of(text: str) -> _Key:
    """Return what `text` sorts by; raises BadInput."""
    match = _VERSION.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise BadInput(f"{text!r} is not a version of CANN or of a driver", wanted=_WANTED)
    is_release = match["release"] is not None
    return (
        int(match["major"]),
        int(match["minor"]),
        is_release,
        int(match["release"] if is_release else match["candidate"]),
        tuple(int(number) for number in match["patches"].split(".")[1:]),
        _STAGES[(match["stage"] or "").lower()],
        int(match["stage_number"] or _ABSENT),
        int(match["build"] or _ABSENT),
    )
