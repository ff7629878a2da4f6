"""Where a CANN release lies in its base images, and the environment that its set_env scripts would make.

From the base images' Dockerfiles (Ascend/cann-container-image) and the set_env.sh scripts of the toolkit, of
ascendnpu-ir and of NNAL/ATB. The toolkit moved at 8.5: before, every release lay under `ascend-toolkit/<VERSION>`.
"""

from dataclasses import dataclass

from ascend_images.pins.cann_version import ReleaseVersion

INSTALL_ROOT = "/usr/local/Ascend"
TOOLKIT_SCRIPT = f"{INSTALL_ROOT}/ascend-toolkit/set_env.sh"
ATB_SCRIPT = f"{INSTALL_ROOT}/nnal/atb/set_env.sh"
#: torch 2.7 and later are built with the new C++ ABI on both architectures.
ATB_HOME = f"{INSTALL_ROOT}/nnal/atb/latest/atb/cxx_abi_1"
DRIVER_LIBRARIES = (
    f"{INSTALL_ROOT}/driver/lib64",
    f"{INSTALL_ROOT}/driver/lib64/common",
    f"{INSTALL_ROOT}/driver/lib64/driver",
)
SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

_MOVED_AT = ReleaseVersion.parse("8.5.0.alpha001")
_ABI_OPTION_FROM = ReleaseVersion.parse("9.0.1")

_ATB_SETTINGS = {
    "ATB_STREAM_SYNC_EVERY_KERNEL_ENABLE": "0",
    "ATB_STREAM_SYNC_EVERY_RUNNER_ENABLE": "0",
    "ATB_STREAM_SYNC_EVERY_OPERATION_ENABLE": "0",
    "ATB_OPSRUNNER_KERNEL_CACHE_LOCAL_COUNT": "1",
    # The misspelling is the original's.
    "ATB_OPSRUNNER_KERNEL_CACHE_GLOABL_COUNT": "5",
    "ATB_WORKSPACE_MEM_ALLOC_ALG_TYPE": "1",
    "ATB_COMPARE_TILING_EVERY_KERNEL": "0",
    "ATB_SHARE_MEMORY_NAME_SUFFIX": "",
    "ATB_MATMUL_SHUFFLE_K_ENABLE": "1",
    "LCCL_DETERMINISTIC": "0",
    "LCCL_PARALLEL": "0",
}
_ATB_SETTINGS_UNTIL_8_3 = {
    "ATB_OPSRUNNER_SETUP_CACHE_ENABLE": "1",
    "ATB_WORKSPACE_MEM_ALLOC_GLOBAL": "1",
    "ATB_HOST_TILING_BUFFER_BLOCK_NUM": "128",
    "ATB_DEVICE_TILING_BUFFER_BLOCK_NUM": "32",
}


@dataclass(frozen=True, kw_only=True)
class CannLayout:
    """A release's place, its set_env scripts as shell words in the order they are sourced, and its environment."""

    home: str
    scripts: tuple[str, ...]
    environment: dict[str, str]


def cann_layout(release: str, python_home: str) -> CannLayout:
    """Return the layout of a CANN release beside a Python prefix; environment values may hold `{kernel_arch}`."""
    version = ReleaseVersion.parse(release)
    if version < _MOVED_AT:
        return _until_8_3(python_home)
    home = f"{INSTALL_ROOT}/cann-{release}"
    compiler = f"{home}/share/info/ascendnpu-ir/bin"
    abi_option = version >= _ABI_OPTION_FROM
    return CannLayout(
        home=home,
        scripts=(
            TOOLKIT_SCRIPT,
            f"{compiler}/set_env.sh",
            f"{ATB_SCRIPT} --cxx_abi=1" if abi_option else ATB_SCRIPT,
        ),
        environment={
            "PATH": _joined(
                [f"{ATB_HOME}/bin", compiler],
                _below(
                    home,
                    "bin",
                    "tools/ccec_compiler/bin",
                    "tools/profiler/bin",
                    "tools/ascend_system_advisor/asys",
                    "tools/show_kernel_debug_data",
                    "tools/msobjdump",
                ),
                [f"{python_home}/bin", *SYSTEM_PATH],
            ),
            "LD_LIBRARY_PATH": _joined(
                _below(ATB_HOME, "lib", "examples", "tests/atbopstest"),
                _below(
                    home,
                    "lib64",
                    "lib64/plugin/opskernel",
                    "lib64/plugin/nnengine",
                    "opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/{kernel_arch}",
                    "tools/aml/lib64",
                    "tools/aml/lib64/plugin",
                ),
                DRIVER_LIBRARIES,
                [f"{python_home}/lib"],
            ),
            "PYTHONPATH": _joined(_below(home, "python/site-packages", "opp/built-in/op_impl/ai_core/tbe")),
            "CMAKE_PREFIX_PATH": _joined(_below(home, "toolkit/tools/tikicpulib/lib/cmake", "lib64/cmake")),
            **_homes(home),
            "ASCEND_TOOLKIT_LATEST_HOME": f"{INSTALL_ROOT}/ascend-toolkit/latest",
            "ATB_HOME_PATH": ATB_HOME,
            **({"ATB_CXX_ABI": "1"} if abi_option else {}),
            **_ATB_SETTINGS,
        },
    )


def _until_8_3(python_home: str) -> CannLayout:
    home = f"{INSTALL_ROOT}/ascend-toolkit/latest"
    return CannLayout(
        home=home,
        scripts=(TOOLKIT_SCRIPT, ATB_SCRIPT),
        environment={
            "PATH": _joined(
                [f"{ATB_HOME}/bin"],
                _below(home, "bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin"),
                [f"{python_home}/bin", *SYSTEM_PATH],
            ),
            "LD_LIBRARY_PATH": _joined(
                _below(ATB_HOME, "lib", "examples", "tests/atbopstest"),
                _below(
                    home,
                    "tools/aml/lib64",
                    "tools/aml/lib64/plugin",
                    "lib64",
                    "lib64/plugin/opskernel",
                    "lib64/plugin/nnengine",
                    "opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/{kernel_arch}",
                ),
                DRIVER_LIBRARIES,
                [f"{python_home}/lib"],
            ),
            "PYTHONPATH": _joined(_below(home, "python/site-packages", "opp/built-in/op_impl/ai_core/tbe")),
            **_homes(home),
            "ATB_HOME_PATH": ATB_HOME,
            **_ATB_SETTINGS,
            **_ATB_SETTINGS_UNTIL_8_3,
        },
    )


def _homes(home: str) -> dict[str, str]:
    return {
        "ASCEND_TOOLKIT_HOME": home,
        "ASCEND_HOME_PATH": home,
        "ASCEND_AICPU_PATH": home,
        "ASCEND_OPP_PATH": f"{home}/opp",
        "TOOLCHAIN_HOME": f"{home}/toolkit",
    }


def _below(folder: str, *names: str) -> list[str]:
    return [f"{folder}/{name}" for name in names]


def _joined(*groups: list[str] | tuple[str, ...]) -> str:
    """Join path entries without an empty one: an empty entry means the current directory."""
    return ":".join(entry for group in groups for entry in group)
