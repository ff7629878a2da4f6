"""Names of images: tags of CANN base images, image references, and the tags that our own images get."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from ascend_images.errors import BadInput, nearest, unknown
from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.platform import Arch

MAX_TAG_LENGTH = 128  # characters, by the reference grammar of github.com/distribution/reference
_MAX_REPOSITORY_LENGTH = 255  # characters, by the same grammar
_MAX_REGISTRY_LENGTH = 261  # a DNS name of at most 255 characters and a port
_MAX_PORT = 65535

# --- tags of CANN base images -----------------------------------------------------------------------------------------


class OsFamily(StrEnum):
    """An operating system that CANN base images exist for."""

    UBUNTU = "ubuntu"
    OPENEULER = "openeuler"


_OS = re.compile(r"([A-Za-z_]+)([0-9]{2}\.[0-9]{2})", re.ASCII)
# A pattern rather than a list: a new chip is a table in versions.toml, not a change here.
_CHIP = re.compile(r"[0-9]{3}[a-z]?|a[0-9]", re.ASCII)
_PYTHON = re.compile(r"3\.(?:0|[1-9][0-9]?)", re.ASCII)

_CANN_EXAMPLES = "a CANN release such as 9.1.0, 8.3.rc2, 9.1.0-beta.3 or 8.5.0.alpha002"
_CHIP_EXAMPLES = "a chip as CANN's tags write it: 310p, 910, 910b, 950, a3"
_OS_EXAMPLES = "an operating system and its version, such as ubuntu22.04 or openeuler24.03"
_PYTHON_EXAMPLES = "py and Python's X.Y, such as py3.12"
_BASE_TAG_FORM = "<cann>-<chip>-<os>-py<X.Y>, with -devel behind it or not, such as 9.1.0-910b-ubuntu22.04-py3.12"


def split_os(text: str) -> tuple[OsFamily, str]:
    """Return family and version of an operating system as tags write it, `ubuntu22.04`; raises BadInput."""
    match = _OS.fullmatch(text)
    if match is None:
        raise BadInput(f"{text!r} is not an operating system as base-image tags write it", wanted=_OS_EXAMPLES)
    if match[1] not in set(OsFamily):
        raise BadInput(f"unknown operating system {text!r}", wanted=nearest(match[1], OsFamily))
    return OsFamily(match[1]), match[2]


def _is_os(text: str) -> bool:
    """Say whether `text` names an operating system that CANN base images exist for."""
    match = _OS.fullmatch(text)
    return match is not None and match[1] in set(OsFamily)


def _is_release(text: str) -> bool:
    """Say whether `text` is the version of a CANN release."""
    try:
        ReleaseVersion.parse(text)
    except BadInput:
        return False
    return True


def _is_chip(text: str) -> bool:
    """Say whether `text` has the form of CANN's words for chips."""
    return _CHIP.fullmatch(text) is not None


def _is_python(text: str) -> bool:
    """Say whether `text` is the Python part of a tag."""
    return text.startswith("py") and _PYTHON.fullmatch(text, 2) is not None


_PARTS = {"CANN": _is_release, "chip": _is_chip, "operating system": _is_os, "Python": _is_python}
_BASE_TAG_PARTS = len(_PARTS)


@dataclass(frozen=True)
class BaseTag:
    """The tag of a CANN base image in its parts; `str()` gives back the text it was read from.

    The form is that of github.com/Ascend/cann-container-image (its `cann/` directories). `cann` keeps the tag's own
    spelling: `9.1.0-beta.3`, `8.3.rc2`, the outlier `8.1.RC1.alpha001`. `chip` is CANN's word (`910` is the first
    generation, not the A2's `910b`), `os` family and version, `python` X.Y, `devel` the image with the whole
    toolchain. Raises BadInput that says which part is wrong.
    """

    cann: str
    chip: str
    os: str
    python: str
    devel: bool = False

    def __post_init__(self) -> None:
        _check_part(self, "Python", f"py{self.python}", _PYTHON_EXAMPLES)
        _check_part(self, "operating system", self.os, _OS_EXAMPLES)
        _check_part(self, "chip", self.chip, _CHIP_EXAMPLES)
        _check_part(self, "CANN", self.cann, _CANN_EXAMPLES)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the parts of `text`, split from the right since a CANN release may hold hyphens itself.

        Raises BadInput; for an alias such as `latest` too, since that does not name what the image holds.
        """
        if not text or "-" not in text or _is_release(text):
            raise BadInput(
                f"base-image tag {text!r} is an alias or no tag: it does not name the chip, OS and Python it holds",
                wanted=_BASE_TAG_FORM,
            )
        stem = text.removesuffix("-devel")
        parts = stem.rsplit("-", 3)
        if len(parts) < _BASE_TAG_PARTS:
            missing = [name for name, fits in _PARTS.items() if not any(fits(part) for part in parts)]
            raise BadInput(f"base-image tag {text!r} lacks its part for {' and '.join(missing)}", wanted=_BASE_TAG_FORM)
        cann, chip, os, python = parts
        if not python.startswith("py"):
            raise BadInput(
                f"base-image tag {text!r}: {python!r} is not its Python part",
                wanted=f"{_PYTHON_EXAMPLES}; the whole tag is {_BASE_TAG_FORM}",
            )
        return cls(cann=cann, chip=chip, os=os, python=python.removeprefix("py"), devel=stem != text)

    @property
    def release(self) -> ReleaseVersion:
        """The CANN release, to be compared."""
        return ReleaseVersion.parse(self.cann)

    @property
    def os_family(self) -> OsFamily:
        """The operating system without its version."""
        return split_os(self.os)[0]

    @property
    def os_version(self) -> str:
        """The version of the operating system, such as `22.04`."""
        return split_os(self.os)[1]

    def __str__(self) -> str:
        return f"{self.cann}-{self.chip}-{self.os}-py{self.python}" + ("-devel" if self.devel else "")


def _check_part(tag: BaseTag, part: str, value: str, wanted: str) -> None:
    """Raise BadInput unless `value` can be that part of a tag; points to lower case where only that is wrong."""
    fits = _PARTS[part]
    if not fits(value):
        lower = value.lower()
        raise BadInput(
            f"base-image tag {str(tag)!r}: {value!r} is not its {part} part",
            wanted=wanted,
            do=f"write it in lower case: {lower}" if fits(lower) else "",
        )


# --- image references -------------------------------------------------------------------------------------------------

# The productions of the grammar in github.com/distribution/reference (reference.go), which Docker, containerd and
# registries share. Its `\w` is ASCII only, and an empty separator is left out: it adds no name and costs Python
# exponential time.
_PATH_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PATH_COMPONENT}(?:/{_PATH_COMPONENT})*")
_HOST_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = re.compile(rf"(?:{_HOST_LABEL}(?:\.{_HOST_LABEL})*|\[[0-9A-Fa-f:]+\])(?::(?P<port>[0-9]+))?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
# Hex digits by algorithm: those of the OCI image specification (descriptor.md, registered algorithms) and sha384,
# which github.com/opencontainers/go-digest knows besides.
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_HEX = re.compile(r"[a-f0-9]+")

_REFERENCE_FORM = "[registry/]repository[:tag][@digest], such as quay.io/ascend/cann:9.1.0-910b-ubuntu22.04-py3.12"


@dataclass(frozen=True)
class ImageRef:
    """An image reference in its parts; `str()` gives back the text it was read from.

    `registry` is a host with or without a port, or empty, which Docker takes for docker.io; `repository` is the path
    there. Nothing is filled in: no default registry, no `latest`. Raises BadInput that says which part is wrong.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    def __post_init__(self) -> None:
        _check_registry(self.registry)
        _check_repository(self.registry, self.repository)
        if self.tag is not None:
            _check_reference_tag(self.tag)
        if self.digest is not None:
            _check_digest(self.digest)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the parts of `text`; raises BadInput.

        As Docker does it, what precedes the first slash is a registry when it holds a dot or a colon, is `localhost`
        or has upper-case letters; `ascend/cann` is a repository without a registry.
        """
        name, at, digest = text.partition("@")
        path, slash, last = name.rpartition("/")
        last, colon, tag = last.partition(":")
        first, separator, rest = f"{path}{slash}{last}".partition("/")
        has_registry = separator and (
            not {".", ":"}.isdisjoint(first) or first == "localhost" or first != first.lower()
        )
        return cls(
            registry=first if has_registry else "",
            repository=rest if has_registry else f"{first}{separator}{rest}",
            tag=tag if colon else None,
            digest=digest if at else None,
        )

    @property
    def name(self) -> str:
        """Registry and repository, without tag and digest."""
        return f"{self.registry}/{self.repository}" if self.registry else self.repository

    def require_tag(self) -> Self:
        """Return this reference if it says which image of the repository is meant, by tag or digest; else BadInput."""
        if self.tag is None and self.digest is None:
            raise BadInput(
                f'base image "{self}" has no tag',
                wanted="a tag or a digest, since without one Docker takes whatever latest is",
                do=f"write {self.name}:<tag>, for instance {self.name}:9.1.0-910b-ubuntu22.04-py3.12",
            )
        return self

    def __str__(self) -> str:
        tag = "" if self.tag is None else f":{self.tag}"
        digest = "" if self.digest is None else f"@{self.digest}"
        return f"{self.name}{tag}{digest}"


def is_tag(text: str) -> bool:
    """Say whether a text is a tag as references may hold one."""
    return len(text) <= MAX_TAG_LENGTH and _TAG.fullmatch(text) is not None


def _check_registry(registry: str) -> None:
    found = _REGISTRY.fullmatch(registry) if len(registry) <= _MAX_REGISTRY_LENGTH else None
    if registry and found is None:
        raise BadInput(f"{registry!r} is not a registry's address", wanted="host or host:port, without http://")
    if found and found["port"] and int(found["port"]) > _MAX_PORT:
        raise BadInput(f"{registry!r}: there is no port {found['port']}", wanted=f"a port of at most {_MAX_PORT}")


def _check_repository(registry: str, repository: str) -> None:
    if len(repository) > _MAX_REPOSITORY_LENGTH:
        raise BadInput(
            f"the image repository {repository[:40]!r}… has {len(repository)} characters",
            wanted=f"at most {_MAX_REPOSITORY_LENGTH}",
        )
    if not _REPOSITORY.fullmatch(repository):
        only_case = _REPOSITORY.fullmatch(repository.lower())
        raise BadInput(
            f"{repository!r} is not an image repository",
            wanted=f"lower-case names separated by /, in {_REFERENCE_FORM}",
            do=f"write it in lower case: {repository.lower()}" if only_case else "",
        )
    if not registry and _IDENTIFIER.fullmatch(repository):
        raise BadInput(f"{repository!r} is the id of an image, not a repository", wanted=_REFERENCE_FORM)


def _check_reference_tag(tag: str) -> None:
    if len(tag) > MAX_TAG_LENGTH:
        raise BadInput(f"the tag {tag[:40]!r}… has {len(tag)} characters", wanted=f"at most {MAX_TAG_LENGTH}")
    if not _TAG.fullmatch(tag):
        raise BadInput(
            f"{tag!r} is not a legal tag",
            wanted=f"a letter, digit or _, then letters, digits and _.-, in {_REFERENCE_FORM}",
        )


def _check_digest(digest: str) -> None:
    algorithm, _, value = digest.partition(":")
    if len(value) != _DIGEST_LENGTHS.get(algorithm) or not _HEX.fullmatch(value):
        raise BadInput(f"{digest!r} is not an image digest", wanted="sha256: and 64 hex digits in lower case")


# --- tags of our own images -------------------------------------------------------------------------------------------

# What stands for hardware, OS and the like is written once in versions.toml in its final form: other spellings of it
# are mistakes, since artifact names are case-sensitive (https://github.com/Ascend/cann-container-image/pull/98).
# All other values are refs and versions that others chose (`fix/x`, `2.9.0+cpu`, `8.3.RC2`) and are folded.
EXACT_PLACEHOLDERS = frozenset({"arch", "cann_tag", "chip", "hardware", "os", "python"})

_ILLEGAL = re.compile(r"[^a-z0-9_.-]")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_LEGAL_CHARACTERS = "lower-case letters, digits, _ . and -"


def fold_tag(text: str) -> str:
    """Return `text` as a legal tag: in lower case, each character that a tag cannot hold turned into `-`.

    Raises BadInput when the result does not begin with a letter, a digit or `_`, or has more than 128 characters.
    """
    tag = _fold(text)
    if not tag or tag[0] in ".-":
        raise BadInput(
            f"{text!r} makes no legal tag: " + (f"{tag!r} begins with {tag[0]!r}" if tag else "it is empty"),
            wanted=f"a lower-case letter, a digit or _ first, then {_LEGAL_CHARACTERS}",
        )
    if len(tag) > MAX_TAG_LENGTH:
        raise BadInput(f"the tag {tag!r} is too long: {len(tag)} characters", wanted=f"at most {MAX_TAG_LENGTH}")
    return tag


def check_tag_value(name: str, value: str) -> None:
    """Raise BadInput unless `value`, which stands for `name` in a tag, is legal there as it is, without folding."""
    illegal = sorted(set(_ILLEGAL.findall(value)))
    if value and not illegal:
        return
    only_case = not _ILLEGAL.search(value.lower())
    raise BadInput(
        f"{name} is {value!r}: " + (f"not legal in a tag: {' '.join(illegal)}" if value else "nothing to put in a tag"),
        wanted=_LEGAL_CHARACTERS,
        do=f"write it in lower case: {value.lower()}" if value and only_case else "",
    )


def placeholders(template: str) -> tuple[str, ...]:
    """Return the names in braces in a tag template, in their order; raises BadInput for unbalanced braces."""
    parts = _PLACEHOLDER.split(template)
    if any("{" in literal or "}" in literal for literal in parts[::2]):
        raise BadInput(
            f"tag template {template!r}: a brace is opened and not closed, or the other way round",
            wanted="placeholders such as {os}, one pair of braces each",
        )
    return tuple(parts[1::2])


def render_tag(template: str, values: Mapping[str, str], *, exact: Collection[str] = EXACT_PLACEHOLDERS) -> str:
    """Return the tag that `template` gives with `values` for its `{names}`.

    Values are folded as by `fold_tag`, except those named in `exact`, which must be legal as they are; so must the
    text between the placeholders. Raises BadInput for a placeholder that has no value, an empty value, unbalanced
    braces, and a result that is no legal tag.
    """
    names = placeholders(template)
    literals = _PLACEHOLDER.split(template)[::2]
    for literal in filter(None, literals):
        check_tag_value(f"the text of tag template {template!r}", literal)
    folded = [_value(template, name, values, exact) for name in names]
    return fold_tag("".join(part for pair in zip(literals, [*folded, ""], strict=True) for part in pair))


def arch_tag(tag: str, arch: Arch) -> str:
    """Return the tag under which one architecture of `tag` is found, `…-aarch64`; raises BadInput when too long."""
    return fold_tag(f"{tag}-{arch.kernel}")


def unique_tags(
    pairs: Iterable[tuple[str, str]], values: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, str]:
    """Return the variant of each tag, given pairs of variant and tag.

    Raises BadInput when two variants have one tag. `values`, by variant, are what their placeholders stand for; with
    them the error names the placeholder that tells the two apart.
    """
    owners: dict[str, str] = {}
    for variant, tag in pairs:
        owner = owners.setdefault(tag, variant)
        if owner != variant:
            raise BadInput(
                f'variants "{owner}" and "{variant}" give the same tag {tag}',
                wanted="a tag of its own for each variant",
                do=_way_out(owner, variant, values or {}),
            )
    return owners


def _way_out(one: str, other: str, values: Mapping[str, Mapping[str, str]]) -> str:
    """Return what to change so that two variants no longer give the same tag."""
    if one not in values or other not in values:
        return "add {os} or {cann_tag} to the tag template, whichever differs between the two"
    ours, theirs = values[one], values[other]
    differing = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    # OS and hardware first: they are what a tag must say in any case.
    differing.sort(key=lambda name: name not in ("os", "cann_tag"))
    telling = [name for name in differing if _fold(ours[name]) != _fold(theirs[name])]
    if telling:
        return f"add {{{telling[0]}}} to the tag template"
    if differing:
        name = differing[0]
        return (
            f"rename one: {name} is {ours[name]!r} and {theirs[name]!r}, and both stand as {_fold(ours[name])} in a tag"
        )
    return (
        f"give {other} a `tag` of its own in [variant.{other}], or its stack another `repository`; or drop one of the "
        "two: nothing that can stand in a tag differs"
    )


def _value(template: str, name: str, values: Mapping[str, str], exact: Collection[str]) -> str:
    """Return what stands for `name` in the tag; raises BadInput."""
    if name not in values:
        raise unknown("placeholder", name, values, where=f"tag template {template!r}")
    value = values[name]
    if not value:
        raise BadInput(f"tag template {template!r}: {{{name}}} stands for nothing", wanted=f"a value for {name}")
    if name in exact:
        check_tag_value(name, value)
    return _fold(value)


def _fold(text: str) -> str:
    """Return `text` in lower case with `-` for each character that a tag cannot hold."""
    return _ILLEGAL.sub("-", text.lower())
