"""What a build will cost, said before it starts: disk, memory, emulation; refused where the machine has not got it.

Disk is estimated from the lock and from what the contexts bring. Work done aside and copied into the image takes three
times its unpacked size (build cache, the copied layer, the unpacked image) and once its compressed size; then comes the
base image, if the engine has not got it yet. What several images of one call share is counted once, what the engine has
from an earlier build of the same lock not at all.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, MissingTool
from ascend_images.images.builder import Builder
from ascend_images.images.engine import Engine, Run, free_bytes, run_command
from ascend_images.images.plan import BuildPlan
from ascend_images.images.record import Record, load_record
from ascend_images.pins.lockfile import LockFile
from ascend_images.pins.variant import Checkout

MB = 10**6
GB = 10**9

#: Copies of what is added that lie on the disk unpacked at the end.
UNPACKED_COPIES = 3
# Compressed size as a part of the unpacked one: 1.28 GB of 3.4 GB for the ms-swift stack.
_PACKED = 0.4
# Unpacked size as a multiple of a wheel's.
_WHEEL = 3.0

# Packages that take more than 30 MB unpacked, in MB: three to four times their wheels on the package index (torch's
# CPU builds of 2.9 and 2.10; triton-ascend and torch_npu, which are not there, as triton and as a guess), rounded up.
_BIG: Mapping[str, int] = {
    "torch": 700,
    "torch-npu": 300,
    "triton-ascend": 1000,
    "av": 110,
    "decord": 60,
    "grpcio": 40,
    "llvmlite": 180,
    "modelscope": 40,
    "ms-agent": 100,
    "numpy": 70,
    "onnxruntime": 80,
    "opencv-python-headless": 180,
    "pandas": 60,
    "polars": 160,
    "polars-runtime-32": 160,
    "pyarrow": 150,
    "ray": 220,
    "scikit-learn": 50,
    "scipy": 120,
    "sympy": 35,
    "transformers": 60,
}
_OTHER = 5  # of the other packages, on average, in MB

# Sources with their compressed history of one commit; one that is compiled brings its kernels. In MB.
SOURCE = 100
_COMPILED = 1500
_SYSTEM = 400  # packages of the operating system, in MB
_RUN_FILES = 12_000  # three CANN packages and what they install, in MB: 4.4 GB of packages have been seen
BASE = 16_000  # a CANN base image with operators for one chip, compressed and unpacked, in MB

_STEP_MEMORY = 2 * GB
_COMPILER_MEMORY = 2 * GB  # for each job of a C++ compiler
_JOBS = "MAX_JOBS"
_FEW_DIGITS = re.compile(r"[0-9]{1,4}")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one image costs, in bytes.

    `added` is what comes on top of its base, unpacked, `new` the part of it that is not there yet; `base` is the base
    image's size where that is missing, `memory` what the build takes while it runs.
    """

    name: str
    added: int
    new: int
    base: int
    memory: int
    emulated: bool

    @property
    def disk(self) -> int:
        """What the engine's disk needs."""
        return on_disk(self.new) + self.base


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What one call costs: each image, all together with `at_once` of them at a time, and what there is."""

    images: tuple[Cost, ...]
    at_once: int
    free: int | None
    engine_memory: int

    @property
    def disk(self) -> int:
        """Bytes of disk that all images take together."""
        return sum(cost.disk for cost in self.images)

    @property
    def memory(self) -> int:
        """Bytes of memory while the largest ones run at the same time."""
        return sum(sorted((cost.memory for cost in self.images), reverse=True)[: self.at_once])

    @property
    def lines(self) -> list[tuple[Cost, str]]:
        """Each image and what is told of it."""
        return [(cost, _line(cost)) for cost in self.images]

    @property
    def total(self) -> str:
        """What is told of all of them together."""
        there = "which cannot be seen from here" if self.free is None else f"{_gb(self.free)} free"
        text = (
            f"cost: about {_gb(self.disk)} of the engine's disk ({there}), {_gb(self.memory)} of memory with "
            f"{self.at_once} at a time"
        )
        if self.engine_memory and self.memory > self.engine_memory:
            fewer = " (fewer at a time: --jobs 1)" if self.at_once > 1 else ""
            text += f"\nnote: the engine's machine has {_gb(self.engine_memory)} of memory{fewer}"
        return text

    def __str__(self) -> str:
        return "\n".join([*(line for _, line in self.lines), self.total])


def on_disk(unpacked: int) -> int:
    """Return how many bytes of disk it takes to build what is so large unpacked."""
    return int(unpacked * (UNPACKED_COPIES + _PACKED))


def cost_of(
    plans: Sequence[BuildPlan],
    locks: Sequence[LockFile],
    *,
    engine: Engine,
    builder: Builder,
    at_once: int,
    run: Run = run_command,
) -> Costs:
    """Return what building `plans` from `locks` (one each) costs; asks the engine what it has already."""
    counted = set(there_already(plans, locks, builder=builder, run=run))
    images = []
    for plan, lock in zip(plans, locks, strict=True):
        parts, base = _parts(plan, lock), _base_key(plan.base)
        images.append(
            Cost(
                name=plan.name,
                added=sum(parts.values()),
                new=sum(size for key, size in parts.items() if key not in counted),
                base=0 if base in counted else _base_size(plan.base),
                memory=_memory(plan),
                emulated=builder.emulates(plan.arch),
            )
        )
        counted |= {*parts, base}
    return Costs(
        images=tuple(images),
        at_once=at_once,
        free=free_bytes(engine) if builder.is_own else None,
        engine_memory=engine.memory if builder.is_own else 0,
    )


def there_already(
    plans: Sequence[BuildPlan], locks: Sequence[LockFile], *, builder: Builder, run: Run = run_command
) -> frozenset[Hashable]:
    """Return the keys of the parts that an engine's own builder has of plans; of others nothing is known."""
    if not builder.is_own:
        return frozenset()
    found: set[Hashable] = {_base_key(base) for base in {plan.base for plan in plans} if has_image(base, run)}
    for plan, lock in zip(plans, locks, strict=True):
        if _built_before(plan, lock, run):
            found |= {key for key in _parts(plan, lock) if key[0] == "packages"}
    return frozenset(found)


def parts_of(plan: BuildPlan, lock: LockFile) -> dict[Hashable, int]:
    """Return what building a plan takes of a disk, in bytes, by what makes it the same in another image.

    What its packages are installed on counts as well, where that is another base than its own.
    """
    bases = {plan.base, plan.contexts.get("packages-base", plan.base).removeprefix("docker-image://")}
    parts: dict[Hashable, int] = {_base_key(base): _base_size(base) for base in sorted(bases)}
    return parts | {key: on_disk(size) for key, size in _parts(plan, lock).items()}


def require_room(costs: Costs, engine: Engine) -> None:
    """Raise MissingTool if the engine's disk has less than the images take."""
    if costs.free is None or costs.free >= costs.disk:
        return
    raise MissingTool(
        f"the disk of the Docker Engine has {_gb(costs.free)} free ({engine.root})",
        wanted=f"about {_gb(costs.disk)}: what is added three times unpacked ({_added(costs)}) and once compressed, "
        f"and base images ({_gb(sum(cost.base for cost in costs.images))})",
        do="docker system df says what takes the room; free some, or build fewer images at a time",
    )


def require_architectures(plans: Iterable[BuildPlan], builder: Builder) -> None:
    """Raise unless the builder can build for each plan's architecture and emulation, if any, was asked for.

    BadInput for emulation that nobody typed (it is many times slower), MissingTool where there is no emulator.
    """
    for plan in plans:
        own = ", ".join(sorted(builder.natives)) or "unknown"
        if builder.emulates(plan.arch) and not plan.choices.arch_typed:
            raise BadInput(
                f"{plan.name}: the builder {builder.name} is a machine of another architecture ({own})",
                wanted="an architecture that is typed where it must be emulated, which is many times slower",
                do=f"--arch {plan.arch.value} to emulate it; or name that machine's own with --arch",
            )
        if not builder.can_build(plan.arch):
            raise MissingTool(
                f"{plan.name}: the builder {builder.name} ({own}) cannot run {plan.arch.kernel} programs",
                wanted=f"a builder on an {plan.arch.kernel} machine, or an emulator that the kernel knows "
                f"({plan.arch.qemu} in /proc/sys/fs/binfmt_misc)",
                do="--builder NAME or DOCKER_CONTEXT=NAME of such a machine; or, on the engine's: "
                "apt-get install qemu-user-static",
            )


def _parts(plan: BuildPlan, lock: LockFile) -> dict[tuple[object, ...], int]:
    """Return the unpacked size of each part, by what makes it the same part in another image."""
    variant = plan.variant
    parts: dict[tuple[object, ...], int] = {
        ("packages", plan.arch, variant.python, lock.packages): _packages_size(plan, lock),
        ("system", plan.base, variant.system_packages): _SYSTEM * MB if variant.system_packages else 0,
    }
    for source in variant.sources:
        context = plan.contexts.get(f"src-{source.name.lower()}", "")
        # Compiled once for each chip, since it is compiled for the chip.
        key = (plan.base, plan.arch) if source.compiles else ()
        parts["source", source.name, source.revision, context, *key] = _source_size(source, context)
    if variant.overlay:
        folder = plan.contexts.get(f"cann-run-{plan.arch.value}", "")
        parts["cann", plan.arch, variant.runs, folder] = _folder_size(folder, _WHEEL) or _RUN_FILES * MB
    return parts


def _packages_size(plan: BuildPlan, lock: LockFile) -> int:
    """Return the size of the locked set: of the wheels that a context brings, else as such packages are known."""
    folder = plan.contexts.get("wheels", "")
    brought = _wheel_sizes(Path(folder)) if folder and "://" not in folder else {}
    size = 0.0
    for package in lock.packages:
        wheel_size = brought.get((package.name, package.version))
        size += _BIG.get(package.name, _OTHER) * MB if wheel_size is None else wheel_size * _WHEEL
    return int(size)


def _wheel_sizes(folder: Path) -> dict[tuple[str, str], int]:
    """Return the size of each wheel in a folder by name and version; what is no wheel counts nothing."""
    sizes = {}
    for path in folder.rglob("*.whl"):
        name, version, *rest = [*path.name.split("-"), ""][:3]
        if rest and rest[0] and path.is_file():
            sizes[str(canonicalize_name(name)), version] = path.stat().st_size
    return sizes


def _source_size(source: Checkout, context: str) -> int:
    known = _folder_size(context)
    if known is not None:
        return known
    return (_COMPILED if source.compiles else SOURCE) * MB


def _folder_size(context: str, times: float = 1.0) -> int | None:
    """Return the size of a context that is a folder on this machine; None for another or one that is not made yet."""
    if not context or "://" in context or not Path(context).is_dir():
        return None
    sizes = (path.lstat().st_size for path in Path(context).rglob("*") if path.is_file() and not path.is_symlink())
    return int(sum(sizes) * times)


def _base_key(base: str) -> Hashable:
    return "base", base


def _base_size(base: str) -> int:
    known = _folder_size(base)
    return known if known is not None else BASE * MB


def has_image(image: str, run: Run) -> bool:
    """Say whether the engine that `run` asks has an image of that name."""
    return run(["docker", "image", "inspect", "--format", "{{.Id}}", image]).code == 0


def _built_before(plan: BuildPlan, lock: LockFile, run: Run) -> bool:
    """Say whether the engine still has an image that was built from the same lock on the same base.

    Then it has its packages' layers too, unless somebody has pruned the build cache since.
    """
    try:
        record: Record | None = load_record(plan.record)
    except BadInput:
        return False
    if record is None or (record.inputs, record.base) != (lock.inputs, plan.base):
        return False
    return ("wheels" in record.contexts) == ("wheels" in plan.contexts) and has_image(record.digest, run)


def _memory(plan: BuildPlan) -> int:
    jobs = [
        int(source.env[_JOBS]) if _FEW_DIGITS.fullmatch(source.env.get(_JOBS, "")) else 1
        for source in plan.variant.sources
        if source.compiles
    ]
    return _STEP_MEMORY + sum(jobs) * _COMPILER_MEMORY


def _line(cost: Cost) -> str:
    emulated = "; EMULATED, many times slower" if cost.emulated else ""
    there = "" if cost.new == cost.added else f", {_gb(cost.new)} of it not there yet"
    return f"cost: {cost.name}: about {_gb(cost.added)} added{there}{emulated}"


def _added(costs: Costs) -> str:
    return _gb(sum(cost.new for cost in costs.images))


def _gb(size: int) -> str:
    return f"{size / GB:.1f} GB"
