"""What `nox -s verify` runs: one container for each image, then one test for each check."""

import signal
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ascend_images import verifying
from ascend_images.errors import AscendImagesError
from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Variant
from ascend_images.sandbox.standins import prepare
from ascend_images.verify.report import Report

ROOT = Path(__file__).parents[2]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("verify", "what is verified, and where")
    group.addoption("--variant", action="append", default=[], help="a variant of versions.toml; repeat it for several")
    group.addoption("--image", default="", help="an image; alone it is compared with what it says of itself")
    group.addoption("--platform", default="", help="linux/amd64 or linux/arm64; the engine's by default")
    group.addoption("--require-npu", action="store_true", help="a check that takes an NPU and cannot run has failed")
    group.addoption("--devices", default="", help="davinci numbers of the NPUs to use: 0,1; one card by default")
    group.addoption("--model", default="", help="a local model (folder) with which vLLM generates a few tokens")
    group.addoption("--host", default="", help="another engine: ssh://user@machine")
    group.addoption("--time-limit", type=float, default=300.0, help="seconds that one import may take")
    group.addoption("--report-dir", default="", help="where reports are written; build/verify by default")
    group.addoption("--host-root", default="/", help="a folder that stands for this machine's file system")
    group.addoption("--sandbox", action="store_true", help="the image was built with --sandbox")


def pytest_configure(config: pytest.Config) -> None:
    # A container is removed when its verification ends, however it ends.
    signal.signal(signal.SIGTERM, _ended)
    try:
        config.stash[_WISHES] = _wishes(config)
        config.stash[_TARGETS] = verifying.targets(config.stash[_WISHES])
        config.stash[_PLACE] = verifying.find_place(config.stash[_WISHES])
    except AscendImagesError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_REPORTS] = {}


def _wishes(config: pytest.Config) -> verifying.Wishes:
    folder = config.getoption("--report-dir")
    return verifying.Wishes(
        root=ROOT,
        variants=tuple(config.getoption("--variant")),
        image=config.getoption("--image"),
        platform=config.getoption("--platform"),
        require_npu=config.getoption("--require-npu"),
        devices=config.getoption("--devices"),
        model=config.getoption("--model"),
        host=config.getoption("--host"),
        host_root=config.getoption("--host-root"),
        import_limit=config.getoption("--time-limit"),
        report_dir=Path(folder).absolute() if folder else ROOT / verifying.REPORT_FOLDER,
        contexts=_stand_ins if config.getoption("--sandbox") else None,
    )


def _stand_ins(variant: Variant, arch: Arch) -> Mapping[str, str]:
    path = ROOT / "locks" / file_name(variant.name, arch)
    return prepare(variant, arch, LockFile.load(path) if path.is_file() else None)


_WISHES = pytest.StashKey[verifying.Wishes]()
_TARGETS = pytest.StashKey[tuple[verifying.Target, ...]]()
_PLACE = pytest.StashKey[verifying.Place]()
_REPORTS = pytest.StashKey[dict[str, Report]]()


def _ended(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    targets = metafunc.config.stash[_TARGETS]
    pairs = [(target, check) for target in targets for check in verifying.check_ids()]
    metafunc.parametrize(
        ("target", "check"), pairs, ids=[f"{target.name} {check}" for target, check in pairs], scope="session"
    )


@pytest.fixture
def report(target: verifying.Target, request: pytest.FixtureRequest) -> Report:
    """The report of an image; the first test that asks verifies it."""
    reports = request.config.stash[_REPORTS]
    if target.name not in reports:
        try:
            reports[target.name] = verifying.verify_target(*_where(request.config), target)
        except AscendImagesError as error:
            # Nothing to look at: every further check of this image would say the same.
            request.session.shouldfail = f"{target.name}: {error}"
            pytest.fail(str(error), pytrace=False)
    return reports[target.name]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    reports = list(config.stash[_REPORTS].values())
    writer = terminalreporter._tw
    for line in verifying.tell(config.stash[_WISHES], reports, width=writer.fullwidth, color=writer.hasmarkup):
        terminalreporter.write_line(line)


def _where(config: pytest.Config) -> tuple[verifying.Wishes, verifying.Place]:
    return config.stash[_WISHES], config.stash[_PLACE]
