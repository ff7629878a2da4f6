"""What an image that somebody else built holds, as pins and as a lock: facts in, text out."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import tomlkit
from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ascend_images.errors import BadInput
from ascend_images.inside.answers import of_cann
from ascend_images.inside.facts.environment import shown
from ascend_images.inside.words import INSTALL_ROOT, LISTS
from ascend_images.pins.cann_layout import cann_layout
from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.lockfile import Conflict, LockedPackage
from ascend_images.pins.model import Pins
from ascend_images.pins.platform import Arch
from ascend_images.verify.checkouts import FoundCheckout, Read, checkout_around

#: Packages that belong together by the rules and are pinned whoever asks for them: by normal name, as pins write them.
_FAMILY = {
    "torch": "torch", "torchvision": "torchvision", "torchaudio": "torchaudio", "torch-npu": "torch_npu",
    "triton-ascend": "triton-ascend",
}  # fmt: skip
# What every base image has: locked as it was found, and no pin.
_OF_BASE = ("pip",)
# The engine's, the shell's, and what a rendered file sets by itself.
_NOT_ENV = (*LISTS, "HOME", "SOC_VERSION", "CANN_VERSION", "ASCEND_TOOLKIT_LATEST_HOME")
_HIDDEN = "(hidden)"
_FOLDER = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)+")
_SYSTEM = re.compile(r"/(?:bin|boot|dev|etc|lib\w*|proc|run|sbin|sys|tmp|usr|var)(?:/|$)")
_SHELL_ADDRESS = re.compile(r"(?:ssh://)?[^@/\s]+@(?P<host>[^:/\s]+)(?::\d+/|[:/])(?P<path>\S+)")


@dataclass(frozen=True, kw_only=True)
class Package:
    """A distribution as it is installed: `name` as it writes itself, `version` in normal form."""

    name: str
    version: str

    @property
    def key(self) -> str:
        """Its name in normal form."""
        return str(canonicalize_name(self.name))


@dataclass(frozen=True, kw_only=True)
class FrozenSource:
    """A checkout that the image imports from; what is empty could not be found out."""

    name: str
    git: str
    commit: str
    tag: str
    path: str
    module: str
    distribution: str
    version: str
    local_version: str
    install: str


@dataclass(kw_only=True)
class Frozen:
    """What was found in an image, in the words of versions.toml; `review` says what a person ought to look at."""

    reference: str
    digest: str
    arch: Arch
    python: str
    python_home: str
    os: str
    cann: str
    hardware: str = ""
    packages: tuple[Package, ...] = ()
    pinned: tuple[Package, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    sources: tuple[FrozenSource, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    review: list[str] = field(default_factory=list)

    @property
    def locked(self) -> tuple[LockedPackage, ...]:
        """The packages as a lock has them, without hashes: no file is known that they came from."""
        return tuple(LockedPackage(one.key, one.version) for one in self.packages)

    @property
    def gaps(self) -> tuple[str, ...]:
        """Why each package of the lock has no hash."""
        why = "found installed; which file it was installed from is not known"
        return tuple(f"{one.key}=={one.version}: {why}" for one in self.packages)


def candidates(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return where checkouts may lie: at editable distributions, and where Python looks besides its own folders."""
    prefix = str(facts["python"]["prefix"]) or "/usr"
    own = (f"{prefix}/", "/usr/", f"{INSTALL_ROOT}/")
    editable = [str(one["editable"]) for one in facts["distributions"] if one["editable"]]
    paths = [str(path) for path in facts["python"]["paths"] if not str(path).startswith(own)]
    return tuple(dict.fromkeys([*editable, *paths]))


def freeze(
    reference: str,
    digest: str,
    arch: Arch,
    facts: Mapping[str, Any],
    config: Mapping[str, Any],
    read: Read,
    pins: Pins,
) -> Frozen:
    """Return what the facts of an image say; `read` gives its files, of which those of checkouts are asked for.

    Raises BadInput for an image without a Python or without CANN, which no variant could be made of.
    """
    python = ".".join(str(facts["python"]["version"]).split(".")[:2])
    release = _release(facts, pins)
    if not python or not release:
        raise BadInput(
            f"{reference} has no {'CANN release' if python else 'Python'} that it says the version of",
            wanted="an image on a CANN base: its Python and its toolkit's version files",
            do=f"nox -s verify -- --image {reference}",
        )
    made = Frozen(
        reference=reference,
        digest=digest,
        arch=arch,
        python=python,
        python_home=str(facts["python"]["prefix"]),
        os=f"{str(facts['system']['id']).lower()}{facts['system']['version']}",
        cann=release,
        workdir=str(config.get("WorkingDir") or "").rstrip("/"),
    )
    made.hardware = _hardware(facts, config, pins)
    if not made.hardware:
        made.review.append("for which hardware it is could not be found out: name it in the variant's table")
    made.sources = tuple(_sources(made, facts, read))
    _freeze_packages(made, facts)
    made.env = dict(_environment(made, config))
    return made


# --- what it is


def _release(facts: Mapping[str, Any], pins: Pins) -> str:
    """Return the CANN release as the pins spell it where they know it, as the image does else."""
    for said in facts["cann"]["toolkit"]:
        try:
            found = ReleaseVersion.parse(str(said["version"]))
        except BadInput:
            continue
        known = [name for name in pins.cann if ReleaseVersion.parse(name) == found]
        return known[0] if known else str(said["version"]).lower()
    return ""


def _hardware(facts: Mapping[str, Any], config: Mapping[str, Any], pins: Pins) -> str:
    """Return the hardware by CANN's operator package, by what vLLM Ascend was built for, or by SOC_VERSION."""
    env = _variables(config)
    chips = {str(one["chip"]).lower() for one in facts["cann"]["ops"] if one["chip"]}
    built = str(facts["built_for"]["device_type"]).lower()
    soc = env.get("SOC_VERSION", "").lower()
    for ask in (
        lambda one: {one.ops_package.lower(), one.cann_tag.lower()} & chips,
        lambda one: one.device_type.lower() == built,
        lambda one: soc in {one.soc_version.lower(), *(known.lower() for known in one.soc_versions)},
    ):
        names = [name for name, one in pins.hardware.items() if ask(one)]
        if len(names) == 1:
            return names[0]
    return ""


def _variables(config: Mapping[str, Any]) -> dict[str, str]:
    return dict(entry.partition("=")[::2] for entry in config.get("Env") or ())


def _environment(made: Frozen, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the variables that differ from what a rendered file sets for the release; secrets stay where they are."""
    usual = cann_layout(made.cann, made.python_home).environment
    for name, value in shown(_variables(config)).items():
        if name in _NOT_ENV or usual.get(name) == value:
            continue
        if _HIDDEN in value:
            made.review.append(f"env {name} looks like a secret: it is not written down, and ought to be in no image")
        elif name in usual:
            made.review.append(f"env {name} is {value!r}; for CANN {made.cann} {usual[name]!r} will be set")
        else:
            yield name, value


# --- sources


def _sources(made: Frozen, facts: Mapping[str, Any], read: Read) -> Iterator[FrozenSource]:
    """Yield a source for each checkout, those that lie in another (submodules) left out."""
    around = {place: checkout_around(place, read) for place in candidates(facts)}
    checkouts = {place: found for place, found in around.items() if found is not None}
    roots = {found.path: found for found in checkouts.values()}
    outer = [path for path in sorted(roots) if not any(path.startswith(f"{other}/") for other in roots)]
    names: set[str] = set()
    for path in outer:
        mine = [place for place, found in checkouts.items() if f"{found.path}/".startswith(f"{path}/")]
        owners = [
            one
            for one in facts["distributions"]
            if one["editable"] in mine or (one["location"] in mine and not one["editable"])
        ]
        source = _source(made, roots[path], owners[0] if owners else None, read)
        while source.name.lower() in names:
            source = _renamed(source)
        names.add(source.name.lower())
        if len(owners) > 1:
            others = ", ".join(str(one["name"]) for one in owners[1:])
            made.review.append(f"sources.{source.name}: {others} is installed from there too, which no pin can say")
        yield source
    for one in facts["distributions"]:
        if one["editable"] and one["editable"] not in checkouts:
            made.review.append(
                f"{one['name']} {one['version']} is installed from {one['editable']}, which is no git checkout: "
                "its commit is not known, so it is left out"
            )


def _source(made: Frozen, found: FoundCheckout, owner: Mapping[str, Any] | None, read: Read) -> FrozenSource:
    git, remark = https_address(found.remote)
    name = (
        re.sub(r"[^A-Za-z0-9._+-]+", "-", (git or found.path).rstrip("/").rpartition("/")[2]).strip("-._+") or "source"
    )
    where = f"sources.{name}"
    for empty, what in (
        (git, "has no remote of which the address is known"),
        (found.commit, "has no commit checked out"),
    ):
        if not empty:
            made.review.append(f"{where}: the checkout at {found.path} {remark or what}")
    path = found.path
    if not _FOLDER.fullmatch(path) or _SYSTEM.match(path):
        path = f"/{name}"
        made.review.append(f"{where}: it lies at {found.path}, where no source may lie; {path} is written instead")
    module = _module(owner, found, read)
    if not module:
        made.review.append(f"{where}: which module is imported from it is not known: write its module")
    version, local = _version_parts(str(owner["version"])) if owner else ("", "")
    return FrozenSource(
        name=name,
        git=git,
        commit=found.commit,
        tag=found.tag,
        path=path,
        module=module,
        distribution=str(owner["name"]) if owner else "",
        version=version,
        local_version=local,
        install="editable" if owner else "pythonpath",
    )


def _renamed(source: FrozenSource) -> FrozenSource:
    fields = {name: getattr(source, name) for name in source.__dataclass_fields__}
    return FrozenSource(**{**fields, "name": f"{source.name}-2"})


def https_address(remote: str) -> tuple[str, str]:
    """Return a remote as an https address without a password, and what is to be said where there is none."""
    if not remote:
        return "", ""
    shell = _SHELL_ADDRESS.fullmatch(remote)
    if shell and not remote.startswith(("http://", "https://")):
        return f"https://{shell['host']}/{shell['path']}".removesuffix(".git"), ""
    try:
        parts = urlsplit(remote)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https"):
        return "", "has a remote that is no address of the web"
    return f"https://{host}{port}{parts.path}".rstrip("/").removesuffix(".git"), ""


def _module(owner: Mapping[str, Any] | None, found: FoundCheckout, read: Read) -> str:
    """Return the module of a checkout: the first that is seen to lie in it, of those that it may be called."""
    names = [found.path.rpartition("/")[2].replace("-", "_")]
    if owner is not None:
        project = re.sub(r"[-_.]+", "_", str(owner["name"]))
        names[:0] = [project, project.lower()]
        for folder in (found.path, f"{found.path}/src"):
            listed = read(f"{folder}/{project}.egg-info/top_level.txt") or b""
            names[:0] = listed.decode(errors="replace").split()
    for name in names:
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and any(
            read(f"{folder}/{name}/__init__.py") is not None for folder in (found.path, f"{found.path}/src")
        ):
            return name
    return ""


def _version_parts(text: str) -> tuple[str, str]:
    try:
        version = Version(text)
    except InvalidVersion:
        return "", ""
    return version.public, version.local or ""


# --- packages


def _freeze_packages(made: Frozen, facts: Mapping[str, Any]) -> None:
    """Fill in the packages, which of them are pinned, and which demands they do not meet."""
    sources = {str(canonicalize_name(one.distribution)) for one in made.sources if one.distribution}
    installed: dict[str, Mapping[str, Any]] = {}
    for one in facts["distributions"]:
        key = str(canonicalize_name(str(one["name"])))
        if of_cann(one) or key in sources or one["editable"] or not _is_python_own(made, one):
            continue
        if key in installed:
            first = installed[key]
            made.review.append(f"{key} is there twice: {first['version']}, which counts, and {one['version']}")
        elif (
            not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", str(one["name"]))
            or not _version_parts(str(one["version"]))[0]
        ):
            made.review.append(f"{one['metadata']} says no name and version that a lock could hold: it is left out")
        else:
            installed[key] = one
    made.packages = tuple(
        Package(name=str(installed[key]["name"]), version=str(Version(str(installed[key]["version"]))))
        for key in sorted(installed)
    )
    markers = {str(name): str(value) for name, value in facts["python"]["markers"].items()}
    demands = list(_demands(installed, markers))
    wanted = {str(canonicalize_name(demand.name)) for _, demand in demands}
    versions = {one.key: one.version for one in made.packages}
    made.conflicts = tuple(_conflicts(demands, installed, {**versions, **_source_versions(made)}, made.reference))
    forced = {str(canonicalize_name(Requirement(one.demand).name)) for one in made.conflicts if one.found}
    made.pinned = tuple(
        one
        for one in made.packages
        if (one.key not in wanted and one.key not in _OF_BASE) or one.key in _FAMILY or one.key in forced
    )


def _is_python_own(made: Frozen, one: Mapping[str, Any]) -> bool:
    """Tell whether a distribution lies in Python's own folders: what apt installed comes with the system's packages."""
    location = str(one["location"])
    return location.startswith(f"{made.python_home}/") and not location.endswith("/python3/dist-packages")


def _source_versions(made: Frozen) -> dict[str, str]:
    return {str(canonicalize_name(one.distribution)): one.version for one in made.sources if one.distribution}


def _demands(
    installed: Mapping[str, Mapping[str, Any]], markers: Mapping[str, str]
) -> Iterator[tuple[str, Requirement]]:
    """Yield what each package asks for in this environment, with the name of the package."""
    for key, one in installed.items():
        for line in one["requires"]:
            try:
                demand = Requirement(str(line))
                holds = demand.marker is None or demand.marker.evaluate({**markers, "extra": ""})
            except (InvalidRequirement, UndefinedEnvironmentName):
                continue
            if holds:
                yield key, demand


def _conflicts(
    demands: Iterable[tuple[str, Requirement]],
    installed: Mapping[str, Mapping[str, Any]],
    versions: Mapping[str, str],
    reference: str,
) -> Iterator[Conflict]:
    """Yield the demands that the image does not meet, each once."""
    told = set()
    for whose, demand in demands:
        found = versions.get(str(canonicalize_name(demand.name)), "")
        text = f"{demand.name}{demand.specifier}"
        if (found and demand.specifier.contains(found, prereleases=True)) or (whose, text) in told:
            continue
        told.add((whose, text))
        reason = f"{reference} has {f'{demand.name} {found}' if found else f'no {demand.name}'}"
        version = str(Version(str(installed[whose]["version"])))
        yield Conflict(whose=whose, version=version, demand=text, found=found, reason=reason)


# --- as text of versions.toml


def stack_text(made: Frozen, name: str, pins: Pins) -> str:
    """Return the start of a stack, and a variant of it where the hardware is known, as text of versions.toml."""
    lines = [
        f"# {made.reference} ({made.digest}), as it was found on {made.arch.platform}.",
        "# Frozen from the outside: what lies in no distribution and in no checkout is not told here.",
        *_cann_table(made, pins),
        "",
        f"[stack.{_key(name)}]",
        f"repository = {_value(_repository(made.reference, name))}",
        f'tag = "{name}-cann{{cann}}-{{cann_tag}}-{{os}}-py{{python}}"',
        f"cann = {_value(made.cann)}",
        f"os = {_value(made.os)}",
        f"python = {_value(made.python)}",
        *([f"workdir = {_value(made.workdir)}"] if made.workdir else []),
        "",
        f"# Of {len(made.packages)} packages those that no other asks for or that are forced; the lock has all.",
        f"[stack.{_key(name)}.packages]",
        *(f"{_key(_FAMILY.get(one.key, one.name))} = {_value(_pin(one))}" for one in made.pinned),
        *_relaxed(made, name),
        *_excluded(made, name),
        *(line for source in made.sources for line in _source_table(source, name)),
    ]
    if made.env:
        lines += ["", f"[stack.{_key(name)}.env]", *(f"{_key(key)} = {_value(text)}" for key, text in made.env.items())]
    lines += ["", *_variant_table(made, name)]
    return "\n".join(lines) + "\n"


def _variant_table(made: Frozen, name: str) -> list[str]:
    table = [
        f"[variant.{_key(name)}]",
        f"stack = {_value(name)}",
        f"hardware = {_value(made.hardware)}",
        f'platforms = ["{made.arch.value}"]',
    ]
    return table if made.hardware else ["# For which hardware it is, is not known.", *(f"# {line}" for line in table)]


def _cann_table(made: Frozen, pins: Pins) -> list[str]:
    """Return the table of a CANN release that the pins do not know."""
    if made.cann in pins.cann:
        return []
    return [
        "",
        f"[cann.{_key(made.cann)}]",
        "bases = []",
        "complete = false",
        f"python_home = {{ {_value(made.python)} = {_value(made.python_home)} }}",
    ]


def _pin(package: Package) -> str:
    """Return a version as it is pinned: that torch is the CPU build follows from the architecture."""
    return package.version.removesuffix("+cpu") if package.key in _FAMILY else package.version


def _relaxed(made: Frozen, name: str) -> Iterator[str]:
    for one in made.conflicts:
        if one.found:
            yield from ("", f"[[stack.{_key(name)}.relax]]", f"whose = {_value(one.whose)}")
            yield from (f"demand = {_value(one.demand)}", f"reason = {_value(one.reason)}")


def _excluded(made: Frozen, name: str) -> Iterator[str]:
    missing: dict[str, list[str]] = {}
    for one in made.conflicts:
        if not one.found:
            missing.setdefault(str(canonicalize_name(Requirement(one.demand).name)), []).append(one.whose)
    have = {one.key for one in made.packages}
    if "torch-npu" in have and "triton-ascend" not in have:
        # Else it would come with the release, unasked.
        missing.setdefault("triton-ascend", ["CANN"])
    if missing:
        yield from ("", f"[stack.{_key(name)}.exclude]")
    for key, whose in sorted(missing.items()):
        reason = f"{made.reference} does not have it, though {', '.join(whose)} asks for it"
        yield f"{_key(key)} = {_value(reason)}"


def _source_table(source: FrozenSource, name: str) -> Iterator[str]:
    yield from ("", f"[stack.{_key(name)}.sources.{_key(source.name)}]")
    fields = {
        "git": source.git,
        "ref": source.commit,
        "path": source.path,
        "module": source.module,
        "distribution": source.distribution,
        "version": source.version,
        "local_version": source.local_version,
    }
    for key, value in fields.items():
        if value:
            yield f"{key} = {_value(value)}{f'  # {source.tag}' if key == 'ref' and source.tag else ''}"
    if source.install != "editable":
        yield f"install = {_value(source.install)}"


def _repository(reference: str, name: str) -> str:
    """Return the repository of a reference; one of nobody where it names an image of the engine alone."""
    text = reference.partition("@")[0]
    head, colon, tag = text.rpartition(":")
    repository = head if colon and "/" not in tag else text
    return (
        repository if re.fullmatch(r"[a-z0-9.-]+(?::\d+)?(?:/[a-z0-9._-]+)+", repository) else f"example.invalid/{name}"
    )


def _key(text: str) -> str:
    return tomlkit.key(text).as_string()


def _value(value: str | Sequence[str]) -> str:
    return str(tomlkit.item(value).as_string())
