"""What the template shows of a Variant: data shaped and quoted, so that the template only places it."""

import json
import re
import shlex
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput
from ascend_images.images.image_json import entrypoint, pins_digest
from ascend_images.images.indexes import uv_project
from ascend_images.images.stages import STAGE_NAME
from ascend_images.images.uv_tool import UV_REQUIREMENT
from ascend_images.inside.facts.imports import entry_points
from ascend_images.pins.cann_layout import INSTALL_ROOT, TOOLKIT_SCRIPT, cann_layout
from ascend_images.pins.texts import text_faults
from ascend_images.pins.variant import IMAGE_FOLDER, Checkout, RunFile, Variant

#: Labels of this project; those of the Open Container Initiative come first.
LABEL_PREFIX = "io.ascend-images."
CANN_TERMS = "https://www.hiascend.com/en/legal/cannua-download?isNewCon=true"

_PACKAGE_MANAGERS = {"ubuntu": "apt", "openeuler": "yum"}
# Both write into one folder: whatever base has one of them, neither may stay when the locked one comes.
_SHARED_FOLDER = ("triton", "triton-ascend")
_LABELLED = ("torch", "torch_npu", "triton-ascend")
_LINE = 100
_BUILD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*")
_PATH = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._-]+)+")


@dataclass(frozen=True, kw_only=True)
class SourceView:
    """A source in the template: shell words, already quoted; `ref` is what its commit is called.

    `entry_points` are the names that import once it is there, each with a blank before it.
    """

    stage: str
    path: str
    url: str
    ref: str
    fetch: str
    editable: bool
    compiles: bool
    environment: str
    entry_points: str


@dataclass(frozen=True, kw_only=True)
class RunView:
    """The CANN packages of one architecture: the stage that holds them, and the words that fetch each."""

    stage: str
    files: tuple[str, ...]
    unlocked: bool


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A CANN release laid over a base image of another: what is installed, and what of the old one goes."""

    release: str
    old_release: str
    home_name: str
    old_home: str
    old_name: str
    old_pattern: str
    first: str
    nnal: str
    toolkit_script: str
    must_be: str


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """An architecture by Docker's name and by the kernel's."""

    docker: str
    kernel: str


@dataclass(frozen=True, kw_only=True)
class View:
    """All that the template names."""

    name: str
    base_image: str
    python: str
    cann_home: str
    cann_scripts: tuple[str, ...]
    family: str
    system_packages: tuple[str, ...]
    clang: str
    indexes: str
    uv_requirement: str
    install_env: str
    removed: str
    patches: str
    sources: tuple[SourceView, ...]
    runs: tuple[RunView, ...]
    overlay: Overlay | None
    kernels: tuple[Kernel, ...]
    folders: tuple[str, ...]
    env: tuple[str, ...]
    workdir: str
    entry_points: str
    entrypoint: str
    labels: tuple[str, ...]
    library: Mapping[str, str]


def view_of(variant: Variant, library: Mapping[str, str]) -> View:
    """Return what the template shows; `library` are the scripts that a rendered file carries, by name.

    Raises BadInput for an operating system that has no known package manager, and for texts that would be read as
    something else where they are put: in a stage's name, a path, a shell command, a line of the file.
    """
    _check_texts(variant)
    _check_name("variant", variant.name, _BUILD_NAME)
    return View(
        name=variant.name,
        base_image=variant.base_reference,
        python=variant.python,
        cann_home=variant.cann_home,
        cann_scripts=variant.cann_scripts,
        family=_package_manager(variant),
        system_packages=_wrapped(variant.system_packages),
        clang=_clang(variant.system_packages),
        indexes=uv_project(variant),
        uv_requirement=UV_REQUIREMENT,
        install_env=_assignments(variant.install_env, "install_env"),
        removed=" ".join(shlex.quote(name) for name in _removed(variant)),
        patches=_patches(variant),
        sources=_sources(variant),
        runs=_runs(variant),
        overlay=_overlay(variant) if variant.overlay else None,
        kernels=tuple(Kernel(docker=arch.value, kernel=arch.kernel) for arch in variant.platforms),
        folders=_folders(variant),
        env=tuple(f"{_checked(key, 'env')}={_quoted(value, kernel=True)}" for key, value in variant.env.items()),
        workdir=_checked_path("workdir", variant.workdir) if variant.workdir else "",
        entry_points=_further(entry_points({"checks": variant.checks}, [{"name": name} for name in variant.packages])),
        entrypoint=json.dumps(entrypoint(variant)),
        labels=tuple(f"{key}={_quoted(value)}" for key, value in labels(variant).items()),
        library=library,
    )


def _check_texts(variant: Variant) -> None:
    """Raise BadInput for a control character in any text: a line break would begin another instruction."""
    # What reads pins refuses it as well; a variant may be made otherwise.
    found = [*text_faults(msgspec.to_builtins(variant))]
    if found:
        raise BadInput(f"variant {variant.name!r}: " + "; ".join(map(str, found)), wanted="text on one line")


def labels(variant: Variant) -> dict[str, str]:
    """Return the labels of the image: what it is, under which terms, and its pins. Nothing in them depends on when."""
    ours = {
        "variant": variant.name,
        "stack": variant.stack,
        "hardware": variant.hardware,
        "chip": variant.chip.cann_tag,
        "soc-version": variant.soc_version,
        "cann": variant.cann,
        "os": variant.os,
        "python": variant.python,
        **{name.replace("_", "-"): variant.packages[name] for name in _LABELLED if name in variant.packages},
        **{f"source.{source.name.lower()}": source.revision for source in variant.sources},
        "pins": pins_digest(variant),
        "terms.cann": CANN_TERMS,
        "terms.packages": "each Python package and source under its own licence: *.dist-info, and the checkouts",
        **({"experimental": variant.experimental} if variant.experimental else {}),
    }
    return {
        "org.opencontainers.image.title": f"{variant.stack} for {variant.chip.name}",
        "org.opencontainers.image.description": (
            f"{variant.stack} on CANN {variant.cann} for {variant.chip.name} ({variant.soc_version}), "
            f"{variant.os}, Python {variant.python}; image.json and report.json are in {IMAGE_FOLDER}"
        ),
        "org.opencontainers.image.version": variant.tag,
        "org.opencontainers.image.source": _main_source(variant),
        "org.opencontainers.image.licenses": "Apache-2.0 AND LicenseRef-CANN",
        "org.opencontainers.image.base.name": variant.base_image,
        **({"org.opencontainers.image.base.digest": variant.base_digest} if variant.base_digest else {}),
        **{f"{LABEL_PREFIX}{key}": value for key, value in ours.items()},
    }


def _main_source(variant: Variant) -> str:
    """Return the address of the source the stack is called after, or of the last one: it is what the image is for."""
    named = [source.git for source in variant.sources if variant.stack.startswith(source.name)]
    return (named or [source.git for source in variant.sources] or [""])[-1]


def _patches(variant: Variant) -> str:
    changes = [msgspec.to_builtins(patch) for patch in variant.patches]
    return json.dumps(changes, indent=1, ensure_ascii=False) if changes else ""


def _package_manager(variant: Variant) -> str:
    manager = _PACKAGE_MANAGERS.get(variant.os_family)
    if manager is None:
        raise BadInput(
            f"variant {variant.name}: {variant.os} has no package manager that is known here",
            wanted=" or ".join(_PACKAGE_MANAGERS),
        )
    return manager


def _wrapped(names: Iterable[str]) -> tuple[str, ...]:
    for name in names:
        _check_name("system package", name, _BUILD_NAME)
    return tuple(textwrap.wrap(" ".join(names), _LINE, break_on_hyphens=False, break_long_words=False))


def _clang(packages: Iterable[str]) -> str:
    """Return N of a package clang-N, whose programs carry the number in their names."""
    return next((name.removeprefix("clang-") for name in packages if re.fullmatch(r"clang-\d+", name)), "")


def _removed(variant: Variant) -> tuple[str, ...]:
    """Return names and patterns of what may not be in the base; the names in the lock come on top."""
    names = [*variant.exclude, *(source.distribution for source in variant.sources), *_SHARED_FOLDER]
    return tuple(sorted({_normal(name) for name in names}))


def _normal(name: str) -> str:
    return "*".join(canonicalize_name(part) if part else "" for part in name.split("*"))


def _sources(variant: Variant) -> tuple[SourceView, ...]:
    views = tuple(_source(variant, source) for source in variant.sources)
    for number, view in enumerate(views):
        if view.stage in [other.stage for other in views[:number]]:
            raise BadInput(
                f"two sources would have the stage src-{view.stage}", wanted="names that differ not only in case"
            )
    return views


def _source(variant: Variant, source: Checkout) -> SourceView:
    where = f"source {source.name}"
    stage = source.name.lower()
    _check_name(where, stage, STAGE_NAME)
    _check_name(f"{where}, ref", source.ref, _REVISION)
    _check_name(f"{where}, commit", source.revision, _REVISION)
    words = (source.git, source.revision, source.commit, "yes" if source.submodules else "no")
    environment = {
        # Both a fetched commit and a commit without its history have no tags to take a version from.
        **({"SETUPTOOLS_SCM_PRETEND_VERSION": source.version} if source.version else {}),
        **({"SOC_VERSION": variant.soc_version} if source.compiles else {}),
        **source.env,
    }
    return SourceView(
        stage=stage,
        path=_checked_path(f"{where}, path", source.path),
        url=shlex.quote(source.git),
        # What people call the commit; where they call it by itself, or it is not known, there is nothing to say.
        ref=source.ref if source.revision != source.ref else "",
        fetch=" ".join(shlex.quote(word) for word in words),
        editable=source.install == "editable",
        compiles=source.compiles and source.install == "editable",
        environment=_assignments(environment, f"sources.{source.name}.env"),
        entry_points=_further(entry_points({"sources": [msgspec.to_builtins(source)]}, [])),
    )


def _runs(variant: Variant) -> tuple[RunView, ...]:
    views = []
    for arch in variant.platforms:
        files = [run for run in variant.runs if run.arch is arch]
        if files:
            views.append(
                RunView(
                    stage=f"cann-run-{arch.value}",
                    files=tuple(" ".join(map(shlex.quote, (run.url, run.file, run.checksum))) for run in files),
                    unlocked=any(not run.checksum for run in files),
                )
            )
    return tuple(views)


def _overlay(variant: Variant) -> Overlay:
    old = cann_layout(variant.base_cann, variant.python_home)
    by_part = {part: _run_word(variant, part) for part in ("toolkit", "ops", "nnal")}
    old_name = old.home.rpartition("/")[2]
    if old.home.startswith(f"{INSTALL_ROOT}/ascend-toolkit/"):
        raise BadInput(
            f"variant {variant.name}: CANN {variant.cann} cannot be laid over {variant.base_cann}",
            wanted="a base of 8.5 or later: before, releases lay elsewhere and shared links with what is laid over",
        )
    scripts = [script.split()[0] for script in variant.cann_scripts]
    return Overlay(
        release=variant.cann,
        old_release=variant.base_cann,
        home_name=variant.cann_home.rpartition("/")[2],
        old_home=old.home,
        old_name=old_name,
        old_pattern=re.escape(old_name).replace("/", r"\/").replace(r"\-", "-"),
        first=f'"{by_part["toolkit"]}" "{by_part["ops"]}"',
        nnal=by_part["nnal"],
        toolkit_script=TOOLKIT_SCRIPT,
        must_be=" ".join([variant.cann_home, *scripts]),
    )


def _run_word(variant: Variant, part: str) -> str:
    """Return the name of a CANN package for whatever architecture the step runs on."""
    names = {_for_this_machine(run) for run in variant.runs if run.part == part}
    if len(names) != 1:
        raise BadInput(
            f"variant {variant.name}: the {part} packages of CANN {variant.cann} differ in more than the architecture",
            wanted="one address with {arch} in it",
        )
    return names.pop()


def _for_this_machine(run: RunFile) -> str:
    _check_name("CANN package", run.file, _BUILD_NAME)
    return run.file.replace(run.arch.kernel, "$(uname -m)")


def _folders(variant: Variant) -> tuple[str, ...]:
    """Return the folders that a setting names and nothing installs: caches, which must exist as all paths in ENV."""
    there = ("/usr", "/etc", "/opt", "/bin", "/sbin", *(source.path for source in variant.sources))
    values = [value for value in variant.env.values() if _PATH.fullmatch(value)]
    wanted = [*values, *([variant.workdir] if variant.workdir else [])]
    missing = (path for path in wanted if not any(path == known or path.startswith(f"{known}/") for known in there))
    return tuple(dict.fromkeys(f"/out/root{path}" for path in missing if path != "/"))


def _further(words: Iterable[str]) -> str:
    """Return words for a shell, each with a blank before it."""
    return "".join(f" {shlex.quote(word)}" for word in words)


def _assignments(environment: Mapping[str, str], where: str) -> str:
    """Return an environment as words in front of a command, with a blank at the end."""
    return "".join(f"{_checked(name, where)}={shlex.quote(value)} " for name, value in environment.items())


def _quoted(value: str, *, kernel: bool = False) -> str:
    """Return a value for ENV or LABEL; in ENV `{kernel_arch}` becomes the build argument of that meaning."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return '"' + (escaped.replace("{kernel_arch}", "${KERNEL_ARCH}") if kernel else escaped) + '"'


def _checked(name: str, where: str) -> str:
    _check_name(where, name, _ENV_NAME)
    return name


def _checked_path(where: str, path: str) -> str:
    _check_name(where, path, _PATH)
    return path


def _check_name(where: str, text: str, pattern: re.Pattern[str]) -> None:
    if not pattern.fullmatch(text):
        raise BadInput(f'{where}: "{text}" cannot stand in a Dockerfile', wanted=pattern.pattern)
