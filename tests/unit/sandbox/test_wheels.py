"""Stand-in wheels: real names, versions and tags, and the demands that the lock speaks of."""

import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from email.parser import Parser
from importlib.metadata import distributions
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from ascend_images.inside import probe
from ascend_images.pins.lockfile import Conflict, LockedPackage, LockFile
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.pins.variant import Variant
from ascend_images.sandbox.data import data_table
from ascend_images.sandbox.elf import shared_object
from ascend_images.sandbox.tree import Tree
from ascend_images.sandbox.wheel_file import Wheel, install_wheel
from ascend_images.sandbox.wheels import REAL, add_check, asked_of, package_set, stand_in, stand_ins, standin_lock

DATA = Path(__file__).parents[2] / "data/sandbox"
PINNED = {
    "accelerate": "1.15.0", "apache-tvm-ffi": "0.1.15", "deepspeed": "0.19.8", "datasets": "5.2.0", "numpy": "1.26.4",
    "evalscope": "1.12.0", "opencv-python-headless": "4.13.0.92", "safetensors": "0.8.0", "torch": "2.10.0+cpu",
    "torch-npu": "2.10.0.post4", "transformers": "5.5.4", "triton-ascend": "3.2.2", "trl": "0.29.1",
    "xgrammar": "0.2.9",
}  # fmt: skip
CONFLICTS = (
    Conflict("opencv-python-headless", "4.13.0.92", "numpy>=2", "1.26.4", "seen to work"),
    Conflict("triton-ascend", "3.2.2", "triton==3.2.0; platform_machine == 'x86_64'", "", "a guard"),
)


def packages(pinned: Mapping[str, str] = PINNED) -> list[LockedPackage]:
    return [LockedPackage(name, version) for name, version in sorted(pinned.items())]


def made(checks: tuple[str, ...] = (), pinned: Mapping[str, str] = PINNED) -> dict[str, bytes]:
    return stand_ins(packages(pinned), CONFLICTS, checks, "3.12", Arch.AMD64)


def opened(content: bytes) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(content))


def member(wheel: zipfile.ZipFile, ending: str) -> str:
    (name,) = (name for name in wheel.namelist() if name.endswith(ending))
    return wheel.read(name).decode()


def requires(content: bytes) -> list[str]:
    return Parser().parsestr(member(opened(content), ".dist-info/METADATA")).get_all("Requires-Dist") or []


def installed(wheels: Mapping[str, bytes], folder: Path) -> Path:
    """Unpack wheels as an installer would; return their site-packages."""
    site = folder / "lib/python3.12/site-packages"
    (folder / "bin").mkdir(parents=True)
    site.mkdir(parents=True)
    for name, content in wheels.items():
        if name.endswith(".whl"):
            (folder / name).write_bytes(content)
            install_wheel(folder / name, site, folder / "bin", sys.executable)
    return site


def run(site: Path, code: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(site), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_wheel_has_the_distributions_version_and_a_tag_of_its_kind() -> None:
    names = set(made())
    assert "torch-2.10.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl" in names
    assert "torch_npu-2.10.0.post4-cp312-cp312-manylinux_2_28_x86_64.whl" in names
    assert "transformers-5.5.4-py3-none-any.whl" in names
    assert "opencv_python_headless-4.13.0.92-cp38-abi3-manylinux_2_28_x86_64.whl" in names
    mooncake = stand_in("mooncake-transfer-engine-npu", "0.3.11", python="3.11", arch=Arch.ARM64)
    assert mooncake.tag == "py3-none-manylinux_2_35_aarch64"


def test_record_lists_every_file_with_its_hash_and_size() -> None:
    wheel = opened(made()["torch-2.10.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl"])
    rows = {row[0]: row[1:] for row in csv.reader(member(wheel, "/RECORD").splitlines())}
    assert set(rows) == set(wheel.namelist())
    for name in wheel.namelist():
        if not name.endswith("/RECORD"):
            content = wheel.read(name)
            digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert rows[name] == [f"sha256={digest}", str(len(content))]


def test_wheels_are_the_same_each_time() -> None:
    assert made() == made()


def test_import_names_are_the_real_ones() -> None:
    for name, modules in {"pillow": "PIL", "opencv-python-headless": "cv2", "PyYAML": "yaml", "attrs": "attr"}.items():
        assert f"{modules}/__init__.py" in stand_in(name, "1.0", python="3.12", arch=Arch.AMD64).files


def test_a_package_that_several_distributions_fill_has_no_init_file() -> None:
    files = stand_in("protobuf", "6.33.6", python="3.12", arch=Arch.AMD64).files
    assert list(files) == ["google/protobuf/__init__.py"]


def test_two_distributions_share_the_directory_triton() -> None:
    upstream = stand_in("triton", "3.2.0", python="3.12", arch=Arch.AMD64)
    ascend = stand_in("triton-ascend", "3.2.2", python="3.12", arch=Arch.AMD64)
    shared = set(upstream.files) & set(ascend.files)
    assert "triton/__init__.py" in shared
    assert upstream.files["triton/__init__.py"] != ascend.files["triton/__init__.py"]


def test_no_two_distributions_of_a_real_set_write_the_same_file() -> None:
    names = [line for line in (DATA / "package-names.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(names) > 300
    owners: dict[str, list[str]] = {}
    for name, content in made(pinned=dict.fromkeys(names, "1.0")).items():
        if name.endswith(".whl"):
            for path in opened(content).namelist():
                owners.setdefault(path, []).append(name)
    assert {path: found for path, found in owners.items() if len(found) > 1} == {}


def test_a_distribution_that_merely_has_the_name_of_a_module_brings_none() -> None:
    wheels = made(pinned={"dotenv": "0.9.9", "python-dotenv": "1.2.1"})
    assert "dotenv/__init__.py" in opened(wheels["python_dotenv-1.2.1-py3-none-any.whl"]).namelist()
    assert not any(name.endswith(".py") for name in opened(wheels["dotenv-0.9.9-py3-none-any.whl"]).namelist())


@pytest.mark.parametrize("name", ["a2", "a3-cann8.5", "a2-verl-qwen3.5", "a2-verl"])
def test_a_file_that_an_image_patches_has_the_places_to_patch(name: str, variant: Callable[[str], Variant]) -> None:
    for patch in variant(name).patches:
        files = stand_in(patch.distribution, "1.0", python="3.12", arch=Arch.AMD64).files
        assert files[patch.file].decode().count(patch.find) == patch.count


def test_a_demand_that_the_lock_speaks_of_is_asked_for() -> None:
    wheels = made()
    assert requires(wheels["opencv_python_headless-4.13.0.92-cp38-abi3-manylinux_2_28_x86_64.whl"]) == ["numpy>=2"]
    asked = requires(wheels["triton_ascend-3.2.2-cp312-cp312-manylinux_2_28_x86_64.whl"])
    assert asked == ["numpy", "triton==3.2.0; platform_machine == 'x86_64'"]


VERSIONS = st.sampled_from(["1.0", "2.1.2", "5.5.4", "0.1.0", "2026.1"])


@given(st.dictionaries(st.sampled_from(sorted({*PINNED, *data_table("wheels.toml")["requires"]})), VERSIONS))
def test_nothing_is_unmet_but_what_the_lock_speaks_of(pinned: dict[str, str]) -> None:
    versions = {**pinned, "numpy": "1.26.4"}
    unmet = set()
    for name, content in made(pinned=versions).items():
        if name.endswith(".whl"):
            whose = canonicalize_name(parse_wheel_filename(name)[0])
            for line in requires(content):
                asked = Requirement(line)
                found = versions.get(canonicalize_name(asked.name))
                if found is None or not asked.specifier.contains(found, prereleases=True):
                    unmet.add((whose, line))
    assert unmet == {(conflict.whose, conflict.demand) for conflict in CONFLICTS if conflict.whose in versions}


def test_every_requirement_in_the_table_can_be_read() -> None:
    lines = [line for lines in data_table("wheels.toml")["requires"].values() for line in lines]
    assert lines
    assert all(Requirement(line).name for line in lines)


def test_what_a_check_imports_is_there_and_nothing_else() -> None:
    wheel = opened(
        made(checks=("trl.GRPOTrainer", "evalscope.run.Task", "other.module"))["evalscope-1.12.0-py3-none-any.whl"]
    )
    assert "class Task" in wheel.read("evalscope/run/__init__.py").decode()
    assert not any("other" in name for name in wheel.namelist())


def test_a_check_that_is_there_already_changes_nothing() -> None:
    tree: Tree = {}
    add_check(tree, "a.b.Thing")
    before = dict(tree)
    add_check(tree, "a.b.Thing")
    add_check(tree, "a.b")
    assert tree == before


def test_the_checks_of_a_variant_are_its_own_and_those_of_its_sources(variant: Callable[[str], Variant]) -> None:
    asked = asked_of(variant("a2"))
    assert {"trl.GRPOTrainer", "vllm.entrypoints.openai.api_server", "fla.ops"} <= set(asked)


def test_a_distribution_without_wheels_comes_as_sources() -> None:
    content = made()["deepspeed-0.19.8.tar.gz"]
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        names = archive.getnames()
        assert {"deepspeed-0.19.8/PKG-INFO", "deepspeed-0.19.8/setup.py", "deepspeed-0.19.8/pyproject.toml"} <= set(
            names
        )
        setup = archive.extractfile("deepspeed-0.19.8/setup.py")
        assert setup is not None
        assert b'version="0.19.8"' in setup.read()


def test_what_builds_sources_is_not_stood_in_for() -> None:
    assert made(pinned=dict.fromkeys(REAL, "1.0")) == {}


def test_the_lock_has_the_stand_ins_hashes_and_is_complete(tmp_path: Path, variant: Callable[[str], Variant]) -> None:
    for name, content in made().items():
        (tmp_path / name).write_bytes(content)
    real = LockFile(
        variant="a2", arch=Arch.AMD64, python="3.12", inputs=f"sha256:{'1' * 64}",
        incomplete=("triton-ascend==3.2.2: the index could not be reached",),
        differs=("decord==0.6.0 only here: x86_64 alone",), conflicts=CONFLICTS, packages=tuple(packages()),
    )  # fmt: skip
    ours = standin_lock(variant("a2"), Arch.AMD64, real, tmp_path)
    assert LockFile.parse(str(ours)) == ours
    assert ours.complete
    assert all(package.hashes for package in ours.packages)
    assert (ours.inputs, ours.differs, ours.conflicts) == (real.inputs, real.differs, real.conflicts)
    assert ours.versions == real.versions
    (tmp_path / "uv-0.13.9-py3-none-any.whl").touch()  # the build's own, which is not locked
    assert standin_lock(variant("a2"), Arch.AMD64, real, tmp_path) == ours
    digest = hashlib.sha256((tmp_path / "trl-0.29.1-py3-none-any.whl").read_bytes()).hexdigest()
    assert {package.name: package.hashes for package in ours.packages}["trl"] == (f"sha256:{digest}",)


def test_without_a_lock_the_pins_and_what_they_ask_for_are_stood_in_for(variant: Callable[[str], Variant]) -> None:
    found = {package.name: package.version for package in package_set(variant("a2"), Arch.AMD64, None)}
    assert found["torch"] == "2.10.0+cpu"
    assert found["torch-npu"] == "2.10.0.post4"
    assert "colorlog" in found
    assert "triton" not in found
    ranges = {package.name: package.version for package in package_set(variant("a2-verl"), Arch.ARM64, None)}
    assert ranges["nvidia-modelopt"] == "0.37.0"
    assert ranges["torch"] == "2.10.0"


def test_an_unpacked_wheel_is_an_installed_distribution(tmp_path: Path) -> None:
    wheel = Wheel(name="Some.Thing", version="1.0", files={"some/__init__.py": b""}, scripts={"some-run": "some:main"})
    site = installed({wheel.file_name: wheel.pack()}, tmp_path)
    (found,) = distributions(path=[str(site)])
    assert (found.metadata["Name"], found.version, found.read_text("INSTALLER")) == ("Some.Thing", "1.0", "pip\n")
    assert found.files is not None
    assert all(file.locate().exists() for file in found.files)
    assert str(tmp_path / "bin/some-run") in {str(Path(str(file.locate())).resolve()) for file in found.files}
    assert (tmp_path / "bin/some-run").read_text().startswith(f"#!{sys.executable}\n")


@pytest.mark.subprocess
class TestFailures:
    """The stand-ins fail where the real ones do."""

    def test_xgrammar_does_not_import_without_apache_tvm_ffi(self, tmp_path: Path) -> None:
        left = {name: content for name, content in made().items() if not name.startswith("apache_tvm_ffi")}
        failed = run(installed(left, tmp_path), "import xgrammar")
        assert "No module named 'tvm_ffi'" in failed.stderr
        assert run(installed(made(), tmp_path / "whole"), "import xgrammar").returncode == 0

    def test_xgrammar_before_0_2_needs_no_apache_tvm_ffi(self, tmp_path: Path) -> None:
        wheels = made(pinned={"xgrammar": "0.1.33"})
        assert run(installed(wheels, tmp_path), "import xgrammar").returncode == 0

    def test_torch_does_not_import_where_torch_npu_does_not_load(self, tmp_path: Path) -> None:
        site = installed(made(), tmp_path)
        failed = run(site, "import torch")
        assert "Failed to load the backend extension: torch_npu" in failed.stderr
        assert "libhccl.so: cannot open shared object file" in failed.stderr
        assert run(site, "import torch", TORCH_DEVICE_BACKEND_AUTOLOAD="0").returncode == 0

    def test_torch_npu_of_another_torch_is_an_undefined_symbol(self, tmp_path: Path) -> None:
        site = installed(made(pinned={"torch": "2.14.0", "torch-npu": "2.10.0.post4"}), tmp_path)
        assert "undefined symbol" in run(site, "import torch_npu").stderr

    def test_evalscope_does_not_import_without_its_dependencies(self, tmp_path: Path) -> None:
        assert "No module named 'colorlog'" in run(installed(made(), tmp_path), "import evalscope").stderr


@pytest.mark.subprocess
class TestComputing:
    """The stand-ins compute, for the program that asks NPUs, what the real ones do."""

    @pytest.fixture
    def environment(self, tmp_path: Path) -> dict[str, str]:
        """A host with two devices: the stand-ins of torch and torch_npu, and the libraries of CANN that these load."""
        wheels = made(pinned={"torch": "2.10.0", "torch-npu": "2.10.0.post4"})
        site = installed(wheels, tmp_path)
        (tmp_path / "cann").mkdir()
        for name in re.findall(r'"(lib\w+\.so)"', (site / "torch_npu/__init__.py").read_text()):
            (tmp_path / "cann" / name).write_bytes(shared_object(host_arch(), name, ["f"]))
        paths = {"PYTHONPATH": str(site), "LD_LIBRARY_PATH": str(tmp_path / "cann")}
        return {**paths, "PATH": os.defpath, "ASCEND_RT_VISIBLE_DEVICES": "0,1"}

    def probe(self, environment: Mapping[str, str], *words: str) -> list[dict[str, object]]:
        command = [sys.executable, str(Path(probe.__file__)), *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_devices_are_counted_and_multiply(self, environment: dict[str, str]) -> None:
        assert [said["count"] for said in self.probe(environment, "count")] == [2]
        products = self.probe(environment, "matmul", "--index", "1")
        assert [(said["dtype"], said["error"]) for said in products] == [
            ("float16", 0.0),
            ("bfloat16", 0.0),
            ("float32", 0.0),
        ]

    @pytest.mark.parametrize("ranks", [2, 3])
    def test_ranks_sum_a_vector(self, environment: dict[str, str], ranks: int) -> None:
        indices = ",".join(str(index) for index in range(ranks))
        said = self.probe(environment, "all-reduce", "--indices", indices)
        assert sorted((one["rank"], one["wrong"], one["of"]) for one in said) == [  # type: ignore[type-var]
            (rank, 0, 1024) for rank in range(ranks)
        ]

    @pytest.mark.parametrize(
        ("code", "end"),
        [
            ("d.init_process_group('hccl', store=None, rank=0, world_size=2)", "backend hccl: torch_npu brings it"),
            ("d.init_process_group('gloo', store=None, rank=2, world_size=2)", "rank 2 of 2"),
            ("d.TCPStore('127.0.0.1', 0)", "a client store needs the port"),
            ("d.barrier()", "there is no process group"),
            (
                "d.init_process_group('', store=0, rank=1, world_size=2); d.all_reduce(torch.arange(8, dtype=0) * 3)",
                "rank 1 holds ('times', ('range', 8), 3), not 2 times a vector",
            ),
            (
                "assert int((torch.arange(8, dtype=0) * 2 != torch.arange(8, dtype=0) * 3).sum()) == 0",
                "AssertionError",
            ),
        ],
    )
    def test_what_is_asked_wrongly_fails(self, environment: dict[str, str], code: str, end: str) -> None:
        site = Path(environment["PYTHONPATH"])
        failed = run(site, f"import torch, torch.distributed as d\n{code}", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        assert end in failed.stderr.splitlines()[-1]
