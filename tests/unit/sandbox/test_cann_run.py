"""Stand-in .run packages: real names, an archive that is checked, and exactly the paths of one release."""

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import RunFile, Variant
from ascend_images.sandbox import cann_tree
from ascend_images.sandbox.cann_run import run_context, run_file

MARK = b"\n__ARCHIVE__\n"


def package(part: str, arch: Arch = Arch.AMD64) -> bytes:
    return run_file(RunFile(part=part, arch=arch, url="https://x", file=f"{part}.run", sha256=""), "8.5.2", "910b")


def archive(content: bytes) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(content.split(MARK, 1)[1]))


def test_an_overlay_finds_its_files_under_the_real_names(variant: Callable[[str], Variant]) -> None:
    folder = run_context(variant("a2-verl-qwen3.5-overlay"), Arch.ARM64)
    assert sorted(path.name for path in folder.iterdir()) == [
        "Ascend-cann-910b-ops_8.5.2_linux-aarch64.run",
        "Ascend-cann-nnal_8.5.2_linux-aarch64.run",
        "Ascend-cann-toolkit_8.5.2_linux-aarch64.run",
    ]


def test_a_package_names_the_hash_of_its_archive() -> None:
    script, packed = package("toolkit").split(MARK, 1)
    assert hashlib.sha256(packed).hexdigest().encode() in script
    assert package("toolkit") == package("toolkit")


@pytest.mark.parametrize("part", ["toolkit", "ops", "nnal"])
def test_a_package_holds_its_part_of_the_release_and_nothing_else(part: str) -> None:
    with archive(package(part)) as packed:
        names = [member.name for member in packed if not member.isdir()]
    below = {"nnal": ("usr/local/Ascend/nnal/atb/8.5.2/",)}.get(part, ("usr/local/Ascend/cann-8.5.2/", "etc/Ascend/"))
    assert names
    assert [name for name in names if not name.startswith(below)] == []


def test_the_three_packages_make_up_what_a_base_of_the_release_has() -> None:
    found = set()
    for part in ("toolkit", "ops", "nnal"):
        with archive(package(part)) as packed:
            found |= {member.name for member in packed if not member.isdir()}
    whole = cann_tree.release_tree("8.5.2", Arch.AMD64, "910b")
    links = {"cann", "ascend-toolkit/latest", "ascend-toolkit/set_env.sh", "nnal/atb/latest", "nnal/atb/set_env.sh"}
    folders = {name for name, entry in whole.items() if isinstance(entry, cann_tree.Folder)}
    assert found == set(whole) - folders - {f"usr/local/Ascend/{name}" for name in links}


@pytest.mark.subprocess
class TestProgram:
    """The packages as programs, as far as they can be run without installing."""

    def run(self, folder: Path, content: bytes, *options: str) -> "subprocess.CompletedProcess[str]":
        path = folder / "package.run"
        path.write_bytes(content)
        return subprocess.run(["bash", str(path), *options], capture_output=True, text=True, check=False)

    def test_an_unknown_option_is_refused(self, tmp_path: Path) -> None:
        refused = self.run(tmp_path, package("toolkit"), "--quiet", "--instal")
        assert refused.returncode == 1
        assert "unrecognized option: --instal" in refused.stderr

    def test_a_damaged_package_is_refused(self, tmp_path: Path) -> None:
        damaged = self.run(tmp_path, package("nnal") + b"x", "--check")
        assert damaged.returncode == 1
        assert "the package is damaged" in damaged.stderr
        assert self.run(tmp_path, package("nnal"), "--check").returncode == 0

    def test_a_package_of_another_architecture_is_refused(self, tmp_path: Path) -> None:
        other = Arch.ARM64 if subprocess.check_output(["uname", "-m"], text=True).strip() == "x86_64" else Arch.AMD64
        refused = self.run(tmp_path, package("toolkit", other), "--install")
        assert refused.returncode == 1
        assert f"this package is for {other.kernel}" in refused.stderr

    def test_operators_are_refused_before_the_toolkit(self, tmp_path: Path) -> None:
        refused = self.run(tmp_path, package("ops").replace(b'[ "$(id -u)" = 0 ]', b"true"), "--install")
        assert refused.returncode == 1
        assert "install the toolkit of 8.5.2 first" in refused.stderr
