"""Verification of images with the real torch and torch_npu: what they say themselves, with CANN whole, and in parts."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from ascend_images import verifying
from ascend_images.sandbox.cann_tree import release_tree
from ascend_images.sandbox.host import make_host
from ascend_images.verify.report import Report, Result
from tests.e2e import real_torch
from tests.e2e.builds import ROOT
from tests.e2e.real_torch import DEVICES, HOME, INSTALL, OTHER_TORCH_NPU, SOC, TORCH, TORCH_NPU

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes takes root"),
]


@pytest.fixture(scope="module")
def wheels() -> real_torch.Wheels:
    try:
        return real_torch.wheels()
    except real_torch.UnobtainableError as error:
        pytest.skip(f"the real wheels cannot be had here: {error}")


@pytest.fixture(scope="module")
def build() -> Iterator[Callable[..., str]]:
    """Return `real_torch.build`, whose images are removed in the end."""
    client, made = docker.from_env(), []

    def run(name: str, *lines: str, **contexts: Path) -> str:
        made.append(real_torch.build(name, lines, **contexts))
        return made[-1]

    yield run
    for reference in made:
        client.images.remove(reference, force=True)


@pytest.fixture(scope="module")
def green(wheels: real_torch.Wheels, build: Callable[..., str]) -> str:
    return build("green", *real_torch.green(), wheels=wheels.pair, cann=real_torch.stand_ins(wheels.pair))


@pytest.fixture
def verify(tmp_path: Path) -> Callable[..., Report]:
    """Return a function that verifies an image on a host with so many A2 chips."""

    def run(image: str, chips: int = 0) -> Report:
        numbers = range(chips)
        wishes = verifying.Wishes(
            root=ROOT,
            images=(image,),
            report_dir=tmp_path / "reports",
            host_root=str(make_host(tmp_path / "host", "a2", numbers)),
            devices=",".join(map(str, numbers)),
        )
        return verifying.verify_target(wishes, verifying.find_place(wishes), verifying.targets(wishes)[0])

    return run


def said(report: Report, check: str) -> dict[str, Result]:
    return {result.subject: result for result in report.results if result.check == check}


def only_failure(report: Report) -> Result:
    found = list(report.of("fail"))
    assert len(found) == 1, found
    assert found[0].wanted
    assert found[0].next
    return found[0]


def test_the_sandboxs_cann_has_every_library_that_the_real_torch_npu_needs(wheels: real_torch.Wheels) -> None:
    made = real_torch.stand_ins(wheels.pair)
    needed = {path.name for path in made.rglob("*.so")}
    assert {"libascendcl.so", "libhccl.so", "libatb.so"} <= needed
    tree = release_tree(real_torch.CANN, real_torch.ARCH, "910b")
    assert [name for name in needed if real_torch.cann_path(name).lstrip("/") not in tree] == []


def test_with_cann_whole_both_import_and_see_every_npu_and_computing_fails_in_torch_npus_own_words(
    green: str, verify: Callable[..., Report]
) -> None:
    report = verify(green, chips=DEVICES)
    assert {name: result.answer for name, result in said(report, "entry-points").items()} == {
        "torch": "pass",
        "torch_npu": "pass",
    }
    assert said(report, "torch-family")["torch"].found == f"torch {TORCH}, torch_npu {TORCH_NPU}"
    (devices,) = said(report, "devices").values()
    assert (devices.answer, devices.found) == ("pass", f"davinci0, davinci1; torch sees {DEVICES}: {SOC}")
    # A CANN that does nothing can be counted and not be computed with.
    failure = only_failure(report)
    assert (failure.check, failure.subject) == ("matmul", "npu:0")
    assert "RuntimeError: Failed to find function aclrt" in failure.found
    assert said(report, "matmul")["npu:1"].found == "because of matmul: npu:0, which fails in the same way"
    (all_reduce,) = said(report, "all-reduce").values()
    assert (all_reduce.answer, all_reduce.found) == ("not run", "because of matmul: npu:0")


def test_on_a_host_without_npus_both_import_with_canns_stub_of_the_driver(
    green: str, verify: Callable[..., Report]
) -> None:
    report = verify(green)
    assert list(report.of("fail")) == []
    assert [result.answer for result in said(report, "entry-points").values()] == ["pass", "pass"]
    assert [result.answer for result in said(report, "devices").values()] == ["not run"]


@pytest.mark.parametrize("library", ["libhccl.so", "libascendcl.so"])
def test_without_a_library_of_cann_its_name_is_the_one_finding(
    library: str, green: str, build: Callable[..., str], verify: Callable[..., Report]
) -> None:
    report = verify(build(library, f"FROM {green}", f"RUN rm {HOME}/lib64/{library}"), chips=1)
    failure = only_failure(report)
    assert failure.check == "entry-points"
    assert f"ImportError: {library}: cannot open shared object file" in failure.found
    (devices,) = said(report, "devices").values()
    assert devices.answer == "not run"


def test_with_torch_npu_for_another_torch_the_pair_is_the_one_finding(
    wheels: real_torch.Wheels, green: str, build: Callable[..., str], verify: Callable[..., Report]
) -> None:
    report = verify(build("pair", f"FROM {green}", INSTALL, wheels=wheels.other), chips=1)
    failure = only_failure(report)
    assert (failure.check, failure.subject) == ("torch-family", "torch_npu")
    assert failure.found == f"torch {TORCH}, torch_npu {OTHER_TORCH_NPU}"
    imports = said(report, "entry-points")
    assert imports["torch_npu"].answer == "not run"
    assert imports["torch_npu"].found == f"because of torch-family: {failure.found}"
    assert "undefined symbol: _ZN5torch" in report.facts["imports"]["torch_npu"]["stderr"]
