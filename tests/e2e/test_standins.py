"""The stand-ins on a real engine: the base is what a CANN base is, packages install offline, sources build."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_images.images.engine import require_engine
from ascend_images.pins.load import load
from ascend_images.pins.lockfile import Conflict, LockedPackage, LockFile, inputs_hash
from ascend_images.pins.platform import host_arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.variant import Variant
from ascend_images.sandbox import base
from ascend_images.sandbox.cann_run import run_context
from ascend_images.sandbox.checkouts import checkout_context, head
from ascend_images.sandbox.wheels import lock_context, package_set, wheels_context

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
ARCH = host_arch()
HOME = "/usr/local/Ascend/cann-9.1.0"
CONFLICTS = (
    Conflict("opencv-python-headless", "4.13.0.92", "numpy>=2", "1.26.4", "seen to work"),
    Conflict("mindspeed", "0.16.0", "numpy<=1.26.0", "1.26.4", "a bug-fix release"),
    Conflict("triton-ascend", "3.2.2", "triton==3.2.0", "", "a guard"),
)
# The way of design section 5 in small: packages with a prefix from the lock, without an index and without a network,
# then each source registered by itself.
DOCKERFILE = """\
FROM scratch AS wheels
FROM scratch AS lock
{stages}
FROM cann AS packages
RUN --network=none --mount=from=lock,target=/lock --mount=from=wheels,target=/wheels --mount=type=tmpfs,target=/tmp \\
  <<'EOR'
set -eu
pip install -q --no-index --find-links /wheels --target /tmp/uv uv
export UV_CONFIG_FILE=/wheels/uv.toml UV_LINK_MODE=copy
/tmp/uv/bin/uv pip install -q --no-cache --no-deps --require-hashes \\
  --prefix "/out$(python3 -c 'import sys; print(sys.prefix)')" -r /lock/*.txt
EOR
FROM cann AS image
RUN pip uninstall -qy {replaced}
COPY --link --from=packages /out/ /
ENV PYTHONPATH=/Megatron-LM
RUN --network=none {mounts} <<'EOR'
set -eu
cp -a /src/. /
install() {{
  uv pip install -q --no-cache --system --no-deps --no-build-isolation --config-settings editable_mode=compat -e "/$1"
}}
export SETUPTOOLS_SCM_PRETEND_VERSION=0.23.0 VLLM_TARGET_DEVICE=empty SOC_VERSION=ascend910b1
for name in MindSpeed mcore-bridge flash-linear-attention ms-swift vllm; do install "$name"; done
if install vllm-ascend 2>/tmp/without; then exit 9; fi
LD_LIBRARY_PATH="{home}/devlib:$LD_LIBRARY_PATH" install vllm-ascend
EOR
"""


def a2() -> Variant:
    return resolve(load(ROOT / "versions.toml"), "a2", allow_broken=True)


def docker(*arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr[-4000:]
    return done


def bash(image: str, script: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run a script in an image without its ENTRYPOINT."""
    return docker("run", "--rm", *options, "--entrypoint", "bash", image, "-c", script, check=False)


@pytest.fixture(scope="module")
def image() -> str:
    require_engine()
    return base.base_image(a2(), ARCH, print)


@pytest.fixture(scope="module")
def old_image() -> str:
    require_engine()
    return base.base_image(
        resolve(load(ROOT / "versions.toml"), "a2-verl-qwen3.5-overlay", allow_broken=True), ARCH, print
    )


class TestBase:
    """The stand-in base image."""

    def test_without_a_command_it_ends_with_0(self, image: str) -> None:
        assert docker("run", "--rm", image).stdout == ""

    def test_its_entrypoint_sets_up_cann_and_runs_the_command(self, image: str) -> None:
        found = docker("run", "--rm", image, "printenv", "LD_LIBRARY_PATH").stdout.strip().split(":")
        assert found[0] == "/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_1/lib"
        assert found[3] == f"{HOME}/lib64"
        assert found[-2:] == ["", f"{HOME}/devlib"]

    def test_its_configuration_is_that_of_the_real_one(self, image: str) -> None:
        config = json.loads(docker("image", "inspect", "--format", "{{json .Config}}", image).stdout)
        assert config["Entrypoint"][::3] == ["/bin/bash", "--"]
        assert not config.get("Cmd")
        assert config["Shell"] == ["/bin/bash", "-c"]
        environment = dict(line.split("=", 1) for line in config["Env"])
        assert environment["LD_LIBRARY_PATH"].endswith("/lib:")
        assert environment["ASCEND_HOME_PATH"] == HOME

    def test_its_python_is_at_the_real_place_and_has_the_old_packages(self, image: str) -> None:
        program = "import sys, numpy, attr; print(sys.prefix, sys.version_info[:2], numpy.__version__)"
        found = bash(image, f"python3 -c '{program}'; pip list --format=freeze --disable-pip-version-check")
        assert found.stdout.splitlines()[0] == "/usr/local/python3.12.13 (3, 12) 1.24.0"
        assert {"attrs==23.2.0", "protobuf==3.20.0", "te==0.4.0"} <= set(found.stdout.splitlines())
        assert not any(line.startswith("setuptools") for line in found.stdout.splitlines())

    def test_a_python_without_ld_library_path_runs_too(self, image: str) -> None:
        assert bash(image, "env -u LD_LIBRARY_PATH python3 -c 'import ssl; print(1)'").stdout == "1\n"

    def test_its_operating_system_is_named_as_what_it_is(self, image: str) -> None:
        found = bash(image, '. /etc/os-release; echo "$ID$VERSION_ID"')
        assert found.stdout.strip() == "debian12"

    def test_the_toolkit_script_breaks_where_the_drivers_file_lacks_the_key(self, image: str) -> None:
        source = "source /usr/local/Ascend/ascend-toolkit/set_env.sh"
        lacking = "echo UserName=x > /etc/ascend_install.info"
        strict = f"set -e -o pipefail; {source}; echo before; {lacking}; {source}; echo after"
        found = bash(image, strict)
        assert found.stdout.split() == ["before"]
        assert found.returncode != 0

    def test_login_shells_and_interactive_ones_have_cann_and_plain_ones_have_env(self, image: str) -> None:
        for options in (["-lc"], ["-ic"]):
            run = docker(
                "run", "--rm", "-e", "ATB_HOME_PATH=", "--entrypoint", "bash", image, *options, "printenv ATB_HOME_PATH"
            )
            assert run.stdout.strip().endswith("/atb/cxx_abi_1")
        assert bash(image, "printenv ATB_HOME_PATH", "-e", "ATB_HOME_PATH=").stdout.strip() == ""

    def test_it_is_found_again(self, image: str) -> None:
        before = docker("image", "inspect", "--format", "{{.Id}}", image).stdout
        begun = time.monotonic()
        assert base.base_image(a2(), ARCH, print) == image
        assert time.monotonic() - begun < 2
        assert docker("image", "inspect", "--format", "{{.Id}}", image).stdout == before


class TestRunFiles:
    """The stand-in .run packages, laid over a base of another release."""

    @pytest.fixture
    def folder(self) -> Path:
        return run_context(resolve(load(ROOT / "versions.toml"), "a2-verl-qwen3.5-overlay", allow_broken=True), ARCH)

    def install(self, image: str, folder: Path, script: str) -> "subprocess.CompletedProcess[str]":
        names = {part: next(folder.glob(f"*{part}*")).name for part in ("toolkit", "ops", "nnal")}
        prelude = "cp /runs/*.run /tmp; cd /tmp; " + " ".join(f"{part}={name};" for part, name in names.items())
        return bash(image, f"{prelude}\n{script}", "-v", f"{folder}:/runs:ro")

    def test_they_install_a_second_release_and_point_the_links_to_it(self, old_image: str, folder: Path) -> None:
        found = self.install(
            old_image,
            folder,
            """set -e; sum=$(cat /etc/profile /root/.bashrc | md5sum)
            bash $toolkit --quiet --install --install-for-all
            bash $ops --quiet --install --install-for-all
            source /usr/local/Ascend/ascend-toolkit/set_env.sh
            bash $nnal --quiet --install --install-for-all
            ls -d /usr/local/Ascend/cann-*; readlink /usr/local/Ascend/cann /usr/local/Ascend/ascend-toolkit/latest
            readlink /usr/local/Ascend/nnal/atb/latest; cat /etc/Ascend/ascend_cann_install.info; echo $ASCEND_HOME_PATH
            [ "$sum" = "$(cat /etc/profile /root/.bashrc | md5sum)" ] && echo untouched""",
        )
        assert found.stdout.split() == [
            *("/usr/local/Ascend/cann-8.5.1", "/usr/local/Ascend/cann-8.5.2", "cann-8.5.2", "../cann-8.5.2", "8.5.2"),
            *("Toolkit_InstallPath=/usr/local/Ascend/cann-8.5.2", "/usr/local/Ascend/cann-8.5.2", "untouched"),
        ]

    def test_nnal_is_refused_before_the_toolkit_of_its_release_is_set_up(self, old_image: str, folder: Path) -> None:
        found = self.install(old_image, folder, "bash $nnal --quiet --install --install-for-all")
        assert found.returncode == 1
        assert 'ASCEND_HOME_PATH is "/usr/local/Ascend/cann-8.5.1"' in found.stderr


def made_lock(variant: Variant) -> LockFile:
    """Return a lock with conflicts, as `invoke lock` would write one: here for the pins alone."""
    packages = {package.name: package.version for package in package_set(variant, ARCH, None)}
    packages |= {"setuptools-scm": "8.3.1", "packaging": "25.0", "wheel": "0.45.1", "uv": "0.9.13"}
    locked = tuple(LockedPackage(name, version) for name, version in sorted(packages.items()))
    return LockFile(
        variant=variant.name, arch=ARCH, python=variant.python, inputs=inputs_hash(variant, ARCH),
        incomplete=tuple(f"{package.name}=={package.version}: no hash" for package in locked),
        conflicts=CONFLICTS, packages=locked,
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    variant = a2()
    lock = made_lock(variant)
    wheels = wheels_context(variant, ARCH, lock)
    contexts = {
        "cann": f"docker-image://{image}",
        "wheels": str(wheels),
        "lock": str(lock_context(variant, ARCH, lock, wheels)),
        **{
            f"src-{source.name.lower()}": str(checkout_context(source, lock.packages, lock.conflicts))
            for source in variant.sources
        },
    }
    text = DOCKERFILE.format(
        stages="\n".join(f"FROM scratch AS src-{source.name.lower()}" for source in variant.sources),
        mounts=" ".join(
            f"--mount=from=src-{source.name.lower()},target=/src/{source.name}" for source in variant.sources
        ),
        replaced=" ".join(name for name in base.PIP_SET if name.lower() in lock.versions),
        home=HOME,
    )
    folder = tmp_path_factory.mktemp("build")
    (folder / "Dockerfile").write_text(text)
    tag = "ascend-images-sandbox/standins-test:1"
    options = [f"--build-context={name}={place}" for name, place in contexts.items()]
    docker("buildx", "build", "--load", f"--tag={tag}", "--progress=plain", *options, str(folder))
    yield tag
    docker("image", "rm", tag)


class TestPackagesAndSources:
    """Stand-in wheels and checkouts, installed as the rendered files install the real ones."""

    def python(self, image: str, code: str, *, stubs: bool = True) -> "subprocess.CompletedProcess[str]":
        before = f"export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:{HOME}/devlib; " if stubs else ""
        return bash(image, f"{before}cd /; python3 -c '{code}'")

    def test_each_source_imports_from_its_checkout_seen_from_the_root_folder(self, built: str) -> None:
        code = "import vllm, vllm_ascend, fla, swift, mindspeed, megatron.core; print(vllm.__file__, vllm.__version__)"
        assert self.python(built, code).stdout == "/vllm/vllm/__init__.py 0.23.0\n"

    @pytest.mark.parametrize(
        "name", ["vllm.entrypoints.openai.api_server", "vllm_ascend.platform", "fla.ops", "swift.cli.main", "evalscope"]
    )
    def test_an_entry_point_imports(self, built: str, name: str) -> None:
        found = self.python(built, f"import {name}")
        assert found.returncode == 0, found.stderr

    def test_an_attribute_that_is_imported_late_is_there(self, built: str) -> None:
        assert self.python(built, "from trl import GRPOTrainer; print(GRPOTrainer.__name__)").stdout == "GRPOTrainer\n"

    def test_without_driver_and_stubs_torch_does_not_import(self, built: str) -> None:
        failed = self.python(built, "import torch", stubs=False)
        assert "libascend_hal.so: cannot open shared object file" in failed.stderr

    def test_the_extension_was_compiled_for_the_soc_against_the_locked_torch(self, built: str) -> None:
        torch = made_lock(a2()).versions["torch"]
        code = "from vllm_ascend import vllm_ascend_C as c, _build_info as b; print(*c.built_with(), b.__device_type__)"
        assert self.python(built, code).stdout.split() == [torch, "2.10.0.post4", "A2"]

    def test_console_scripts_run(self, built: str) -> None:
        assert bash(built, "vllm --version").stdout == "0.23.0\n"

    def test_pip_check_says_exactly_what_the_lock_says(self, built: str) -> None:
        said = bash(built, "pip check --disable-pip-version-check").stdout.splitlines()
        assert sorted(said) == [
            "mindspeed 0.16.0 has requirement numpy<=1.26.0, but you have numpy 1.26.4.",
            "opencv-python-headless 4.13.0.92 has requirement numpy>=2, but you have numpy 1.26.4.",
            "triton-ascend 3.2.2 requires triton, which is not installed.",
        ]

    def test_the_checkouts_stay_what_git_knows_them_as(self, built: str) -> None:
        variant = a2()
        lock = made_lock(variant)
        for source in variant.sources:
            git = f"git -C {source.path} -c safe.directory=*"
            found = bash(built, f"{git} rev-parse HEAD; {git} status --porcelain")
            assert found.stdout.split() == [head(checkout_context(source, lock.packages, lock.conflicts))]

    def test_vllm_registered_in_the_default_mode_is_hidden_from_the_root_folder(self, built: str) -> None:
        again = "uv pip install -q --no-cache --system --no-deps --no-build-isolation -e /vllm"
        told = "VLLM_TARGET_DEVICE=empty SETUPTOOLS_SCM_PRETEND_VERSION=0.23.0"
        look = "cd /; python3 -c 'import vllm; print(vllm.__file__, list(vllm.__path__))'"
        assert bash(built, f"{told} {again} && {look}").stdout == "None ['/vllm']\n"

    def test_a_source_whose_version_git_is_asked_for_gets_a_wrong_one(self, built: str) -> None:
        again = "uv pip install -q --no-cache --system --no-deps --no-build-isolation -e /vllm"
        found = bash(
            built, f"git config --global --add safe.directory /vllm; VLLM_TARGET_DEVICE=empty {again}; pip show vllm"
        )
        (version,) = (line for line in found.stdout.splitlines() if line.startswith("Version: "))
        assert version.startswith("Version: 0.1.dev1+g")
