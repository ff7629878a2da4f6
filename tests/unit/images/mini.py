"""A small variant for tests of what is rendered: every kind of source, of index and of architecture once."""

from typing import Any

import msgspec

from ascend_images.pins import model
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Checkout, RunFile, Variant

COMMIT = "0123456789abcdef0123456789abcdef01234567"

CHIP = model.Hardware(
    name="Atlas A2",
    cann_tag="910b",
    soc_version="ascend910b1",
    soc_versions=("ascend910b1", "ascend910b3"),
    ops_package="910b",
    device_type="A2",
    npu_smi_names=("910B1",),
)

SOURCES = (
    Checkout(
        name="vllm",
        git="https://github.com/vllm-project/vllm",
        ref="v0.23.0",
        path="/vllm",
        module="vllm",
        distribution="vllm",
        version="0.23.0",
        local_version="empty",
        env={"VLLM_TARGET_DEVICE": "empty"},
        checks=("vllm.entrypoints.openai.api_server",),
    ),
    Checkout(
        name="vllm-ascend",
        git="https://github.com/vllm-project/vllm-ascend",
        ref="v0.23.0",
        commit=COMMIT,
        path="/vllm-ascend",
        module="vllm_ascend",
        distribution="vllm_ascend",
        version="0.23.0",
        submodules=True,
        compiles=True,
        env={"COMPILE_CUSTOM_KERNELS": "1", "MAX_JOBS": "4"},
    ),
    Checkout(
        name="Megatron-LM",
        git="https://github.com/NVIDIA/Megatron-LM",
        ref="core_v0.16.0",
        path="/Megatron-LM",
        module="megatron.core",
        distribution="megatron-core",
        version="0.16.0",
        install="pythonpath",
    ),
)

INDEXES = {
    "ascend": model.Index(
        url="https://mirrors.huaweicloud.com/ascend/repos/pypi",
        serves=("triton-ascend>=3.2.1", "triton-ascend; python_version >= '3.12'"),
    ),
    "torch-cpu": model.Index(
        url="https://download.pytorch.org/whl/cpu", serves=("torch; platform_machine == 'x86_64'",)
    ),
}


def mini(**changes: Any) -> Variant:
    """Return the variant, with other values for the fields named."""
    home = "/usr/local/Ascend/cann-9.1.0"
    variant = Variant(
        name="mini",
        aliases=(),
        experimental="",
        stack="vllm",
        release=True,
        repository="quay.io/ascend/mini",
        tag="v0.23.0-910b-ubuntu22.04-py3.12",
        tag_template="{vllm}-{cann_tag}-{os}-py{python}",
        platforms=(Arch.AMD64, Arch.ARM64),
        hardware="a2",
        chip=CHIP,
        soc_version="ascend910b1",
        cann="9.1.0",
        base_cann="9.1.0",
        base_image="quay.io/ascend/cann:9.1.0-910b-ubuntu22.04-py3.12",
        os="ubuntu22.04",
        os_family="ubuntu",
        python="3.12",
        python_home="/usr/local/python3.12.13",
        cann_home=home,
        cann_scripts=(
            "/usr/local/Ascend/ascend-toolkit/set_env.sh",
            f"{home}/share/info/ascendnpu-ir/bin/set_env.sh",
            "/usr/local/Ascend/nnal/atb/set_env.sh --cxx_abi=1",
        ),
        runs=(),
        packages={
            "torch": "2.10.0",
            "torch_npu": "2.10.0.post4",
            "triton-ascend": "3.2.2",
            "nvidia-modelopt": ">=0.37",
        },
        no_dependencies={},
        relax=(),
        exclude={"triton": "shares a directory", "flashinfer*": "CUDA only"},
        accept={},
        sources=SOURCES,
        env={
            "PATH": f"{home}/bin:/usr/local/python3.12.13/bin:/usr/bin:/bin",
            "LD_LIBRARY_PATH": f"{home}/opp/lib/linux/{{kernel_arch}}:/usr/local/python3.12.13/lib",
            "PYTHONPATH": f"/Megatron-LM:{home}/python/site-packages",
            "ASCEND_TOOLKIT_HOME": home,
            "SOC_VERSION": "ascend910b1",
            "MODELSCOPE_CACHE": "/mnt/workspace/.cache/modelscope/hub",
            "ATB_SHARE_MEMORY_NAME_SUFFIX": "",
        },
        install_env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        runtime={},
        checks=("torch_npu",),
        patches=(),
        system_packages=("ca-certificates", "g++", "clang-15"),
        workdir="",
        indexes=INDEXES,
        metadata=(),
        findings=(),
    )
    return msgspec.structs.replace(variant, **changes)


def source(number: int = 0, **changes: Any) -> Checkout:
    """Return one of the sources, with other values for the fields named."""
    return msgspec.structs.replace(SOURCES[number], **changes)


def overlay(sha256: str = "a" * 64, **changes: Any) -> Variant:
    """Return the variant on CANN 8.5.2, laid over a base image of 8.5.1."""
    home = "/usr/local/Ascend/cann-8.5.2"
    files = [
        ("toolkit", "Ascend-cann-toolkit_8.5.2_linux-{}.run"),
        ("ops", "Ascend-cann-910b-ops_8.5.2_linux-{}.run"),
        ("nnal", "Ascend-cann-nnal_8.5.2_linux-{}.run"),
    ]
    runs = tuple(
        RunFile(
            part=part,
            arch=arch,
            url=f"https://example.com/CANN%208.5.2/{file.format(arch.kernel)}",
            file=file.format(arch.kernel),
            sha256=sha256,
        )
        for arch in (Arch.AMD64, Arch.ARM64)
        for part, file in files
    )
    fields = {
        "cann": "8.5.2",
        "base_cann": "8.5.1",
        "base_image": "quay.io/ascend/cann:8.5.1-910b-ubuntu22.04-py3.12",
        "cann_home": home,
        "cann_scripts": (
            "/usr/local/Ascend/ascend-toolkit/set_env.sh",
            f"{home}/share/info/ascendnpu-ir/bin/set_env.sh",
            "/usr/local/Ascend/nnal/atb/set_env.sh",
        ),
        "env": {"PATH": f"{home}/bin:/usr/bin", "ASCEND_TOOLKIT_HOME": home},
        "runs": runs,
    }
    return mini(**{**fields, **changes})
