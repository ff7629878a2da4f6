"""Every stack against the recorded index: its locks follow from it, each relaxation is needed, contradictions show."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import BadInput
from ascend_images.lock.lock import known_locks, lock_variant
from ascend_images.pins.lockfile import LockFile, file_name, is_current
from ascend_images.pins.model import Relax
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve_all
from ascend_images.pins.validate import dotted
from ascend_images.pins.variant import Checkout, Variant
from tests.lock_kit import ROOT, pins, real
from tests.recorded import LOCKS, recorded_means
from tests.upstream import lay_out

VARIANTS = [variant.name for variant in resolve_all(pins())]
#: One variant of each stack: the others are locked from the same pins.
STACKS = list({variant.stack: variant.name for variant in reversed(resolve_all(pins()))}.values())
RELAXATIONS = [
    pytest.param(name, number, id=f"{name}-{relax.whose}-{relax.demand}")
    for name in STACKS
    for number, relax in enumerate(real(name).relax)
]
Folders = Callable[[Variant], dict[str, Path]]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """Lay the sources of a variant out as checkouts; git itself is not asked."""
    monkeypatch.setattr("ascend_images.lock.lock.read_elsewhere", lambda *_: ())

    def lay(variant: Variant) -> dict[str, Path]:
        made = {}
        for source in variant.sources:
            made[source.name] = tmp_path / "sources" / source.name
            lay_out(source, made[source.name])
            (made[source.name] / ".git").mkdir()
        return made

    return lay


def locks(variant: Variant, folders: dict[str, Path], tmp_path: Path) -> dict[Arch, LockFile]:
    return lock_variant(variant, variant.platforms, folders, recorded_means(variant, tmp_path))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_committed_locks_follow_from_the_pins_and_the_recorded_index(
    name: str, folders: Folders, tmp_path: Path
) -> None:
    variant = real(name)
    made = locks(variant, folders(variant), tmp_path)
    assert set(made) == set(Arch)
    for arch, lock in made.items():
        assert str(lock) == (LOCKS / file_name(name, arch)).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", VARIANTS)
def test_the_committed_locks_are_of_the_pins_of_today(name: str) -> None:
    variant = real(name)
    found = known_locks(variant, LOCKS)
    assert set(found) == set(variant.platforms)
    stale = [arch.value for arch, lock in found.items() if not is_current(lock, variant)]
    assert not stale, f"make them again: python -m tests.upstream DIR prints how; stale: {stale}"


def test_every_committed_lock_belongs_to_a_variant() -> None:
    known = {file_name(variant.name, arch) for variant in resolve_all(pins()) for arch in variant.platforms}
    assert {path.name for path in LOCKS.iterdir()} == known


def test_the_lock_of_a3_with_cann_8_5_on_arm64_is_complete() -> None:
    lock = LockFile.load(LOCKS / file_name("a3-cann8.5", Arch.ARM64))
    assert lock.complete
    assert all(package.hashes for package in lock.packages)
    assert len(lock.packages) > 340


@pytest.mark.parametrize("name", VARIANTS)
def test_both_architectures_have_the_same_versions_but_for_what_the_files_name(name: str) -> None:
    arm, x86 = (LockFile.load(LOCKS / file_name(name, arch)) for arch in (Arch.ARM64, Arch.AMD64))
    other = {arm.arch: x86, x86.arch: arm}
    for lock in (arm, x86):
        there = other[lock.arch].versions
        differing = {f"{n}=={v}" for n, v in lock.versions.items() if there.get(n) != v}
        assert differing == {line.split(" ", 1)[0] for line in lock.differs}


@pytest.mark.parametrize("name", VARIANTS)
def test_nothing_excluded_is_in_a_lock_and_every_pin_is(name: str) -> None:
    variant = real(name)
    for lock in known_locks(variant, LOCKS).values():
        for pattern in variant.exclude:
            shape = re.escape(pattern).replace(r"\*", ".*")
            # A pin is the stack's own word: verl wants nvidia-modelopt, whatever else of that name is left out.
            assert not [n for n in lock.versions if re.fullmatch(shape, n) and n not in variant.packages]
        for package in variant.packages:
            version = variant.pin(package, lock.arch)
            if version[0].isdigit():
                assert lock.versions[re.sub(r"[-_.]+", "-", package).lower()] == version


@pytest.mark.parametrize(("name", "number"), RELAXATIONS)
def test_a_stack_without_one_of_its_relaxations_fails_and_names_who_asked(
    name: str, number: int, folders: Folders, tmp_path: Path
) -> None:
    variant = real(name)
    gone = variant.relax[number]
    lacking = msgspec.structs.replace(variant, relax=variant.relax[:number] + variant.relax[number + 1 :])
    with pytest.raises(BadInput) as failure:
        locks(lacking, folders(lacking), tmp_path)
    package = re.split(r"[<>=!~ ]", gone.demand)[0]
    assert f"{gone.whose} " in str(failure.value)
    assert f"asks for {package}" in str(failure.value)
    table = variant.stack if "." not in variant.stack else f'"{variant.stack}"'
    assert f'[[stack.{table}.relax]]\n    whose = "{gone.whose}"\n    demand = "{package}' in str(failure.value)


@pytest.mark.parametrize(("name", "number"), RELAXATIONS)
def test_the_relaxation_that_the_message_offers_is_the_one_that_was_missing(
    name: str, number: int, folders: Folders, tmp_path: Path
) -> None:
    variant = real(name)
    kept = variant.relax[:number] + variant.relax[number + 1 :]
    checkouts = folders(variant)
    with pytest.raises(BadInput) as failure:
        locks(msgspec.structs.replace(variant, relax=kept), checkouts, tmp_path)
    offered = re.findall(r'whose = "(.+)"\n +demand = "(.+)"', str(failure.value))
    assert offered
    written = tuple(Relax(whose=whose, demand=demand, reason="as offered") for whose, demand in offered)
    assert locks(msgspec.structs.replace(variant, relax=(*kept, *written)), checkouts, tmp_path)


@pytest.mark.parametrize("name", STACKS)
def test_a_contradiction_planted_in_a_pin_is_explained(name: str, folders: Folders, tmp_path: Path) -> None:
    variant = real(name)
    planted = msgspec.structs.replace(variant, packages={**variant.packages, "fastapi": "0.130.0"})
    with pytest.raises(BadInput) as failure:
        locks(planted, folders(planted), tmp_path)
    ascend = next(source for source in variant.sources if source.name == "vllm-ascend")
    assert f"vllm-ascend {ascend.version} asks for fastapi<0.124.0 (requirements.txt:" in str(failure.value)
    assert "of vllm-ascend)" in str(failure.value)
    place = dotted(("stack", variant.stack, "packages"))
    assert f"fastapi is pinned to 0.130.0 (versions.toml {place})" in str(failure.value)
    assert 'whose = "vllm-ascend"\n    demand = "fastapi<0.124.0"' in str(failure.value)


@pytest.mark.parametrize("name", STACKS)
def test_a_contradiction_planted_between_two_sources_is_explained(name: str, folders: Folders, tmp_path: Path) -> None:
    """Nothing pins regex: vLLM and the last source of the stack ask for versions that exclude each other."""
    variant = real(name)
    checkouts = folders(variant)
    vllm, last = variant.sources[0], variant.sources[-1]
    for source, line in ((vllm, "regex>=2025.1"), (last, "regex<2024")):
        path = checkouts[source.name] / next(p for p in source.requirements if p.endswith(".txt"))
        path.write_text(path.read_text() + f"\n{line}\n")
    with pytest.raises(BadInput) as failure:
        locks(variant, checkouts, tmp_path)
    message = str(failure.value)
    for source, demand in ((vllm, "regex>=2025.1"), (last, "regex<2024")):
        assert f"{_label(source)} asks for {demand} (" in message
        assert f'whose = "{source.name}"\n    demand = "{demand}"' in message
    assert "one of these would decide it" in message


def _label(source: Checkout) -> str:
    return f"{source.name} {source.installed_version}".strip()


@pytest.mark.parametrize("name", STACKS)
def test_several_contradictions_are_told_at_once(name: str, folders: Folders, tmp_path: Path) -> None:
    variant = real(name)
    packages = {**variant.packages, "fastapi": "0.130.0", "protobuf": "5.0.0", "numpy": "2.3.0"}
    planted = msgspec.structs.replace(variant, packages=packages, relax=())
    checkouts = folders(planted)
    with pytest.raises(BadInput) as failure:
        locks(planted, checkouts, tmp_path)
    for package in ("fastapi:", "numpy:", "protobuf:"):
        assert f"\n{package}\n" in str(failure.value)


def test_no_committed_lock_holds_an_address() -> None:
    for path in (ROOT / "locks").iterdir():
        lines = [line for line in path.read_text().splitlines() if not line.startswith("# incomplete:")]
        assert not any("://" in line for line in lines)
