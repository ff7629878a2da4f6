"""The stand-in base: ENV, ENTRYPOINT and start-up files are the real ones'."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from ascend_images.errors import BadInput
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.pins.tags import BaseTag
from ascend_images.pins.variant import Variant
from ascend_images.sandbox import base

# The values that the ENV lines of cann/8.5.1-910b-ubuntu22.04-py3.11/Dockerfile and
# cann/9.1.0-beta.3-910b-ubuntu22.04-py3.12/Dockerfile (Ascend/cann-container-image) add up to. <r> is the release's
# folder, <l> ascend-toolkit/latest, <a> the folder of ATB, <d> that of the driver.
OPERATORS = "opp/built-in/op_impl/ai_core/tbe"
LIBRARIES = ["lib64", "lib64/plugin/opskernel", "lib64/plugin/nnengine", f"{OPERATORS}/op_tiling"]
TOOLS = ["tools/aml/lib64", "tools/aml/lib64/plugin"]
ATB = ["<a>/lib", "<a>/examples", "<a>/tests/atbopstest"]
REAL = {
    "8.5.1": {
        "LD_LIBRARY_PATH": [
            *ATB,
            *(f"<l>/{name}" for name in TOOLS + LIBRARIES),
            *(f"<r>/{name}" for name in TOOLS + LIBRARIES),
            *("<d>/lib64", "<d>/lib64/common/", "<d>/lib64/driver/", "<python>/lib", ""),
        ],
    },
    "9.1.0-beta.3": {
        "LD_LIBRARY_PATH": [
            *(f"<r>/{name}" for name in LIBRARIES),
            *("<d>/lib64", "<d>/lib64/common", "<d>/lib64/driver"),
            *ATB,
            *(f"<l>/{name}" for name in TOOLS + LIBRARIES),
            *("<python>/lib", ""),
        ],
    },
}
BOTH = {
    "PYTHONPATH": [
        *(f"<l>/{name}" for name in ("python/site-packages", OPERATORS)),
        *(f"<r>/{name}" for name in ("python/site-packages", OPERATORS)),
        "",
    ],
    "PATH": [
        "<a>/bin",
        *(f"<l>/{name}" for name in ("bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin")),
        *(f"<r>/tools/{name}" for name in ("show_kernel_debug_data", "msobjdump")),
        *(f"<r>/{name}" for name in ("bin", "tools/ccec_compiler/bin", "tools/profiler/bin")),
        "<r>/tools/ascend_system_advisor/asys",
        "<python>/bin",
        *("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"),
    ],
    "CMAKE_PREFIX_PATH": ["<r>/toolkit/tools/tikicpulib/lib/cmake", "<r>/lib64/cmake"],
    "ASCEND_TOOLKIT_HOME": ["<r>"],
    "ASCEND_TOOLKIT_LATEST_HOME": ["<l>"],
    "ATB_HOME_PATH": ["<a>"],
    "ATB_SHARE_MEMORY_NAME_SUFFIX": [""],
    "ATB_OPSRUNNER_KERNEL_CACHE_GLOABL_COUNT": ["5"],
    "LCCL_PARALLEL": ["0"],
}


@pytest.mark.parametrize("release", REAL)
def test_env_is_that_of_the_real_base_image(release: str) -> None:
    tag = BaseTag.parse(f"{release}-910b-ubuntu22.04-py3.11")
    found = base.environment(tag, "/usr/local/python3.11.14")
    short = {
        "<r>": f"/usr/local/Ascend/cann-{release}",
        "<l>": "/usr/local/Ascend/ascend-toolkit/latest",
        "<a>": "/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_1",
        "<d>": "/usr/local/Ascend/driver",
        "<python>": "/usr/local/python3.11.14",
    }
    wanted = {name: ":".join(entries) for name, entries in (BOTH | REAL[release]).items()}
    for name, text in wanted.items():
        assert found[name] == re.sub("<[a-z]+>", lambda match: short[match[0]], text)
    assert found.get("ATB_CXX_ABI") == ("1" if release.startswith("9.1") else None)


def entrypoint(text: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith("ENTRYPOINT "))
    words = json.loads(line.removeprefix("ENTRYPOINT "))
    assert isinstance(words, list)
    return words


@pytest.mark.parametrize(("release", "option"), [("8.5.1", ""), ("9.1.0", " --cxx_abi=${ATB_CXX_ABI:-1}")])
def test_the_entrypoint_sources_three_scripts_and_runs_the_command(release: str, option: str) -> None:
    text = base.dockerfile(BaseTag.parse(f"{release}-a3-ubuntu22.04-py3.11"), "/usr/local/python3.11.14", "os:1", "key")
    shell, flag, script, end = entrypoint(text)
    assert (shell, flag, end) == ("/bin/bash", "-c", "--")
    assert script.split(" && ") == [
        "source /usr/local/Ascend/ascend-toolkit/set_env.sh",
        f"source /usr/local/Ascend/cann-{release}/share/info/ascendnpu-ir/bin/set_env.sh",
        f"source /usr/local/Ascend/nnal/atb/set_env.sh{option}",
        'exec "$@"',
    ]
    assert "\nCMD" not in text
    assert '\nSHELL ["/bin/bash", "-c"]\n' in text


def test_what_the_base_brings_is_older_than_every_pin_of_it(variant: Callable[[str], Variant]) -> None:
    brought = {canonicalize_name(name): Version(version) for name, version in base.PIP_SET.items()}
    pins = [
        (name, variant(stack).packages[pinned])
        for stack in ("a2", "a3-cann8.5", "a2-verl-qwen3.5", "a2-verl")
        for pinned in variant(stack).packages
        if (name := canonicalize_name(pinned)) in brought
    ]
    assert pins
    assert [(name, pin) for name, pin in pins if brought[name] >= Version(pin)] == []


def test_a_base_of_another_operating_system_has_no_stand_in(variant: Callable[[str], Variant]) -> None:
    with pytest.raises(BadInput, match=r"openeuler24\.03") as raised:
        base.base_image(variant("a2-openeuler"), Arch.AMD64, print)
    assert raised.value.do == "invoke render --variant a2-openeuler"


def pythons_of(monkeypatch: pytest.MonkeyPatch, made: Variant, arch: Arch) -> list[tuple[str, Path]]:
    """Return the Pythons that a base is tried with, on a machine that has one under a version manager."""
    monkeypatch.setattr(base, "find_prefixes", lambda *_: iter([Path("/prefix")]))
    monkeypatch.setattr(base, "python_context", lambda *_: Path("copied"))
    monkeypatch.setattr(base, "os_python_context", lambda *_: Path("own"))
    return list(base._pythons(made, base.base_tag(made), arch))


def test_another_architectures_base_has_the_systems_own_python_where_that_is_of_the_series(
    variant: Callable[[str], Variant], monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = Arch.ARM64 if host_arch() is Arch.AMD64 else Arch.AMD64
    copied = [("in /prefix", Path("copied"))]
    assert pythons_of(monkeypatch, variant("a3-cann8.5"), foreign) == [("of Debian bookworm", Path("own"))]
    assert pythons_of(monkeypatch, variant("a3-cann8.5"), host_arch()) == copied
    assert pythons_of(monkeypatch, variant("a2"), foreign) == copied
