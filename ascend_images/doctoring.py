"""The doctor: whether this machine can build the images and run them, line by line, with what to do."""

import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ascend_images.errors import AscendImagesError, BadInput, MissingTool
from ascend_images.host import gather
from ascend_images.host.connect import connect
from ascend_images.host.doctor import Line, Question, State, User, examine
from ascend_images.host.engine import ENGINE_NEXT, engine_facts
from ascend_images.host.facts import EngineFacts
from ascend_images.host.request import host_folder, parse_devices
from ascend_images.images import network
from ascend_images.images.builder import find_builder
from ascend_images.images.cost import GB, cost_of
from ascend_images.images.engine import (
    BUILDX_MINIMUM,
    ENGINE_MINIMUM,
    WANTED,
    Engine,
    ImageStore,
    Run,
    dotted_version,
    find_engine,
    free_bytes,
    run_command,
)
from ascend_images.images.gate import load_lock
from ascend_images.images.plan import Choices, Rendered, make_plan
from ascend_images.pins.load import load
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.variant import Variant
from ascend_images.selection import PINS_FILE

# A real base image with one image on it, as `cost_of` has it for most variants.
_ROOM = 42 * GB
# The same of the sandbox.
_LITTLE_ROOM = 8 * GB

#: Variables that name certificates to programs here: a file, or a directory of them.
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT")
_BUNDLE_DIRECTORY = "SSL_CERT_DIR"

_BINFMT = Path("/proc/sys/fs/binfmt_misc")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the doctor found; `variant` is empty where none was asked for."""

    schema: int = 1
    variant: str = ""
    lines: tuple[Line, ...]

    @property
    def problems(self) -> tuple[Line, ...]:
        """The lines that name a problem."""
        return tuple(line for line in self.lines if line.state is State.PROBLEM)


def diagnose(
    question: Question,
    *,
    root: str = "/",
    project: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    run: Run = run_command,
) -> Report:
    """Look at this machine, its engine and its NPUs; nothing is changed, and whatever is missing gets a line.

    The NPUs are this machine's, or those of the host for which the directory `root` stands; an engine elsewhere has
    others, of which a line says so. `project` is the folder of versions.toml, whose locks say what an image takes.
    Raises BadInput for a `root` that is no folder.
    """
    root = host_folder(root)
    variant = question.variant
    engine, lines = _engine(run)
    lines += [*(_building(engine, variant, project, run) if engine else ()), *_certificates(environment)]
    if engine and not engine.is_local and root == "/":
        lines.append(_elsewhere(engine))
    else:
        known, said = _containers() if engine else (None, ())
        lines += [*said, *examine(gather.local(root), known, question)]
    return Report(variant=variant.name if variant else "", lines=tuple(lines))


def question_for(root: Path, names: Sequence[str] = (), devices: str = "") -> Question:
    """Return what a command line asks: at most one variant by name, devices as `0,1` or `0-3`, this process's user.

    `root` is the folder of versions.toml. A variant with a broken rule is taken as it is. Raises BadInput.
    """
    if len(names) > 1:
        raise BadInput(f"--variant {' --variant '.join(names)}", wanted="one variant to compare this host with")
    pins = load(root / PINS_FILE)
    return Question(
        pins=pins,
        variant=resolve(pins, names[0], allow_broken=True) if names else None,
        devices=_devices(devices),
        user=User(os.geteuid(), os.getegid(), tuple(sorted({os.getegid(), *os.getgroups()}))),
    )


def _devices(text: str) -> tuple[int, ...]:
    try:
        return parse_devices(text) if text else ()
    except BadInput as error:
        wanted = "numbers of /dev/davinciN such as 0,1 or 0-3"
        raise BadInput(error.found, wanted=wanted, do="invoke doctor without --devices, which looks at all") from None


def require_sound(report: Report) -> None:
    """Raise MissingTool naming the problems, if there are any; what is unknown or not here is none."""
    if report.problems:
        subjects = ", ".join(dict.fromkeys(line.subject for line in report.problems))
        count = len(report.problems)
        raise MissingTool(
            f"{count} problem{'s' if count > 1 else ''}: {subjects}",
            wanted="no problem; what is unknown or not here is none",
            do="do what `next:` says below each problem, then invoke doctor again",
        )


def as_text(report: Report) -> str:
    """Return the lines for people, as they were asked, each with what was wanted and what to do where it is not ok."""
    width = max(len(line.subject) for line in report.lines)
    shown = []
    for line in report.lines:
        shown.append(_wrapped(f"{line.state.value:<8}  {line.subject:<{width}}  ", line.found))
        if line.state is not State.OK:
            indent = " " * (width + 12)
            shown += [_wrapped(f"{indent}wanted: ", line.wanted)] if line.wanted else []
            shown += [_wrapped(f"{indent}next:   ", line.next)] if line.next else []
        elif line.next:
            shown.append(_wrapped(f"{' ' * (width + 12)}note:   ", line.next))
    return "\n".join(shown)


def _wrapped(start: str, text: str) -> str:
    """Return a text after its start, as a paragraph of its own; words that may be typed are never broken."""
    return textwrap.fill(
        text,
        width=max(120, len(start) + 40),
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _engine(run: Run) -> tuple[Engine | None, list[Line]]:
    try:
        engine = find_engine(run=run)
    except AscendImagesError as error:
        return None, [_problem("engine", error)]
    where = f"Docker Engine {engine.version} ({engine.endpoint or 'unknown address'}, context {engine.context})"
    version, buildx = dotted_version(engine.version), dotted_version(engine.buildx)
    upgrade = "upgrade that engine, or name a newer one: docker context use NAME"
    plugin = "install it: apt-get install docker-buildx (Debian, Ubuntu) or docker-buildx-plugin (Docker's packages)"
    switch = 'add {"features": {"containerd-snapshotter": true}} to its /etc/docker/daemon.json and restart it'
    return engine, [
        _line(version is not None and version >= ENGINE_MINIMUM, "engine", where, WANTED, upgrade),
        _line(
            buildx is not None and buildx >= BUILDX_MINIMUM,
            "buildx",
            f"buildx {engine.buildx}" if engine.buildx else "the docker client has no buildx plugin",
            "buildx 0.13 or newer",
            plugin,
        ),
        _line(
            engine.store is ImageStore.CONTAINERD,
            "image store",
            f"{engine.store.value} ({engine.driver})",
            "the containerd image store: without it images have no attestations and other digests",
            switch,
        ),
    ]


def _building(engine: Engine, variant: Variant | None, project: Path | None, run: Run) -> Iterator[Line]:
    yield _disk(engine, _room(engine, variant, project, run))
    yield from _emulation(engine, variant, run)


def _room(engine: Engine, variant: Variant | None, project: Path | None, run: Run) -> tuple[int, str]:
    """Return the bytes that `invoke build` wants of the disk, and of what; of any image where none can be counted."""
    if variant is not None and project is not None and engine.arch in variant.platforms:
        nothing = Rendered(file=project, text="", image={})
        with suppress(AscendImagesError):
            plan = make_plan(variant, engine.arch, root=project, rendered=nothing, choices=Choices())
            builder = find_builder(context=engine.context, run=run)
            costs = cost_of([plan], [load_lock(plan)], engine=engine, builder=builder, at_once=1, run=run)
            return costs.disk, f"to build {variant.name}"
    return _ROOM, "for a base image and an image on it"


def _disk(engine: Engine, room: tuple[int, str]) -> Line:
    size, what = room
    free = free_bytes(engine)
    if free is None:
        return Line(State.UNKNOWN, "disk", f"the disk of {engine.endpoint} cannot be seen from here")
    found = f"{free / GB:.1f} GB free where the engine keeps images ({engine.root})"
    if free >= size:
        return Line(State.OK, "disk", found)
    state = State.UNKNOWN if free >= _LITTLE_ROOM else State.PROBLEM
    wanted = f"about {size / GB:.1f} GB {what}, or `invoke build` refuses; less will do to run images or the sandbox"
    return Line(state, "disk", found, wanted, "docker system df says what takes the room")


def _emulation(engine: Engine, variant: Variant | None, run: Run) -> Iterator[Line]:
    """Ask for each architecture that is not the engine's own: whether its programs run there under emulation.

    Needed only to build for an architecture without a machine of it; a problem where a variant has no other.
    """
    try:
        builder = find_builder(context=engine.context, run=run)
    except AscendImagesError as error:
        yield Line(State.UNKNOWN, "emulation", error.found, error.wanted, error.do)
        return
    wanted = variant.platforms if variant else tuple(Arch)
    for arch in wanted:
        if arch is engine.arch:
            continue
        subject = f"emulation of {arch.kernel}"
        if arch.platform in builder.platforms:
            yield Line(State.OK, subject, f"the builder {builder.name} builds for {arch.platform}, many times slower")
            continue
        found = _binfmt(arch) if engine.is_local else f"the builder {builder.name} does not build for {arch.platform}"
        state = State.ABSENT if engine.arch in wanted else State.PROBLEM
        then = f"only to build for {arch.value} here: apt-get install qemu-user-static, or --builder of such a machine"
        yield Line(state, subject, found, f"{arch.qemu} in {_BINFMT}, enabled, with flag F", then)


def _binfmt(arch: Arch, folder: Path = _BINFMT) -> str:
    """Say what this machine's kernel knows of an emulator of an architecture."""
    entry = folder / arch.qemu
    try:
        text = entry.read_text(encoding="utf-8")
    except OSError:
        return f"no {entry}" if (folder / "status").exists() else f"{folder} is not mounted, so no emulator is known"
    words = text.split()
    flags = words[words.index("flags:") + 1] if "flags:" in words[:-1] else ""
    if words[:1] != ["enabled"]:
        return f"{entry} is not enabled"
    missing = "" if "F" in flags else " lacks flag F, so that containers do not find the emulator"
    return f"{entry}{missing or ' is enabled, and yet the builder does not know of it (restart the engine)'}"


def _certificates(environment: Mapping[str, str]) -> Iterator[Line]:
    """Ask for the certificates that are named here, and say whose the engine uses."""
    subject = "CA bundle"
    try:
        network.require_tls(environment)
    except BadInput as error:
        yield _problem("TLS", error)
    named = {name: environment[name] for name in _BUNDLES if environment.get(name)}
    note = "base images are fetched by the engine: a company's CA must be in its own machine's trust store as well"
    good = True
    for name, value in named.items():
        try:
            network.read_ca(Path(value))
        except BadInput as error:
            good = False
            yield Line(State.PROBLEM, subject, f"{name}: {error.found}", error.wanted, f"mend or unset {name}")
    directory = environment.get(_BUNDLE_DIRECTORY, "")
    if directory and not any(Path(part).is_dir() for part in directory.split(":")):
        good = False
        found = f"{_BUNDLE_DIRECTORY}={directory} is no directory"
        yield Line(State.PROBLEM, subject, found, "directories of certificates", f"unset {_BUNDLE_DIRECTORY}")
    if good:
        files = dict.fromkeys(named.values())
        places = ", ".join(f"{file} ({', '.join(n for n, v in named.items() if v == file)})" for file in files)
        found = f"{places or 'none named, so the trust store of the system'}; builds take one by --ca-bundle"
        yield Line(State.OK, subject, found, next=note)


def _containers() -> tuple[EngineFacts | None, tuple[Line, ...]]:
    """Ask the engine which containers run; a line where it does not say."""
    try:
        client = connect()
    except MissingTool as error:
        return None, (Line(State.PROBLEM, "containers", error.found, error.wanted, ENGINE_NEXT),)
    try:
        return engine_facts(client), ()
    except MissingTool as error:
        return None, (_problem("containers", error),)


def _elsewhere(engine: Engine) -> Line:
    found = f"the engine is on another machine ({engine.endpoint}), whose NPUs are not looked at from here"
    return Line(State.UNKNOWN, "NPU", found, next="type `invoke doctor` there, or nox -s verify -- --host")


def _line(good: bool, subject: str, found: str, wanted: str, then: str) -> Line:
    return Line(State.OK, subject, found) if good else Line(State.PROBLEM, subject, found, wanted, then)


def _problem(subject: str, error: AscendImagesError) -> Line:
    return Line(State.PROBLEM, subject, error.found, error.wanted, error.do)
