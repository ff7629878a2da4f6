"""The image's self-check as a module, and the facts of an image in which nothing is wrong, to spoil one at a time."""

import copy
import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ascend_images import inside

SCRIPT = Path(__file__).parents[3] / "scripts" / "image_check.py"
NPU_SMI = Path(__file__).parents[2] / "data" / "npu-smi"

HOME = "/usr/local/Ascend/cann-9.1.0"
ATB = "/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_1"
PYTHON_HOME = "/usr/local/python3.12.13"
SITE = f"{PYTHON_HOME}/lib/python3.12/site-packages"
SCRIPTS = ["/usr/local/Ascend/ascend-toolkit/set_env.sh", "/usr/local/Ascend/nnal/atb/set_env.sh --cxx_abi=1"]
COMMITS = {"vllm": "a" * 40, "vllm-ascend": "b" * 40, "Megatron-LM": "c" * 40}


@pytest.fixture(scope="session")
def script() -> Path:
    return SCRIPT


@pytest.fixture(scope="session")
def check() -> SimpleNamespace:
    """Every name of the self-check's modules: tests say `check.Tree` whatever module holds it.

    Programs of their own, whose names are the same, have tests of their own.
    """
    names: dict[str, Any] = {}
    for found in pkgutil.walk_packages(inside.__path__, f"{inside.__name__}."):
        if found.name.rpartition(".")[2] not in ("host_facts", "npu_smi", "probe"):
            names.update(vars(importlib.import_module(found.name)))
    return SimpleNamespace(**names)


IMAGE: dict[str, Any] = {
    "schema": 1,
    "variant": "a2",
    "cann": "9.1.0",
    "base_cann": "9.1.0",
    "chip": "910b",
    "device_type": "A2",
    "soc_version": "ascend910b1",
    "os": "ubuntu22.04",
    "python": "3.12",
    "python_home": PYTHON_HOME,
    "cann_home": HOME,
    "cann_scripts": SCRIPTS,
    "base_image": "quay.io/ascend/cann:9.1.0-910b-ubuntu22.04-py3.12",
    "platforms": ["amd64", "arm64"],
    "workdir": "/workspace",
    "entrypoint": ["/bin/bash", "-c", f'source {SCRIPTS[0]} && source {SCRIPTS[1]} && exec "$@"', "--"],
    "packages": {
        "amd64": {
            "torch": "2.10.0+cpu",
            "torch_npu": "2.10.0.post4",
            "torchvision": "0.25.0+cpu",
            "torchaudio": "2.10.0+cpu",
            "triton-ascend": "3.2.2",
            "numpy": "1.26.4",
            "deepspeed": ">=0.19",
        },
        "arm64": {"torch": "2.10.0"},
    },
    "sources": [
        {
            "name": "vllm",
            "git": "https://github.com/vllm-project/vllm",
            "ref": "v0.23.0",
            "commit": COMMITS["vllm"],
            "path": "/vllm",
            "module": "vllm",
            "distribution": "vllm",
            "version": "0.23.0+empty",
            "install": "editable",
            "submodules": False,
            "compiles": False,
            "checks": ["vllm.entrypoints.openai.api_server", "xgrammar"],
        },
        {
            "name": "vllm-ascend",
            "git": "https://github.com/vllm-project/vllm-ascend",
            "ref": "v0.23.0",
            "commit": COMMITS["vllm-ascend"],
            "path": "/vllm-ascend",
            "module": "vllm_ascend",
            "distribution": "vllm_ascend",
            "version": "0.23.0",
            "install": "editable",
            "submodules": True,
            "compiles": True,
            "checks": ["vllm_ascend"],
        },
        {
            "name": "Megatron-LM",
            "git": "https://github.com/NVIDIA/Megatron-LM",
            "ref": "core_v0.16.0",
            "commit": COMMITS["Megatron-LM"],
            "path": "/Megatron-LM",
            "module": "megatron.core",
            "distribution": "megatron-core",
            "version": "0.16.0",
            "install": "pythonpath",
            "submodules": False,
            "compiles": False,
            "checks": ["megatron.core"],
        },
    ],
    "checks": ["torch_npu"],
    "exclude": {"triton": "overwrites triton-ascend", "nvidia-*": "CUDA only", "flashinfer*": "CUDA only"},
    "env": {"SOC_VERSION": "ascend910b1", "VLLM_USE_MODELSCOPE": "True", "PYTHONPATH": f"{HOME}/python/site-packages"},
    "patches": [
        {
            "distribution": "mbridge",
            "file": "mbridge/io.py",
            "find": "cuda",
            "replace": "npu",
            "count": 2,
            "reason": "…",
        }
    ],
}

LOCK = """\
# Made by: invoke lock --variant a2
# variant: a2
# platform: linux/amd64
# python: 3.12
# inputs: sha256:0
# conflict: {"whose": "opencv-python-headless", "version": "4", "demand": "numpy>=2", "found": "1.26.4", "reason": "x"}
# conflict: {"whose": "triton-ascend", "version": "3.2.2", "demand": "triton==3.2.0", "found": "", "reason": "a guard"}
deepspeed==0.19.8 \\
    --hash=sha256:1
mbridge==0.15.1
numpy==1.26.4
opencv-python-headless==4.13.0.92
torch==2.10.0+cpu
torch-npu==2.10.0.post4
torchaudio==2.10.0+cpu
torchvision==0.25.0+cpu
triton-ascend==3.2.2
xgrammar==0.2.9
"""


def distribution(name: str, version: str, *requires: str, **other: Any) -> dict[str, Any]:
    module = name.replace("-", "_")
    return {
        "name": name,
        "version": version,
        "location": SITE,
        "metadata": f"{module}-{version}.dist-info",
        "readable": True,
        "installer": "uv",
        "editable": "",
        "requires": sorted(requires),
        "modules": [module],
        "record": {
            "files": 40,
            **{name: [] for name in ("missing", "changed", "unhashed")},
            **{f"{name}_count": 0 for name in ("missing", "changed", "unhashed")},
        },
        **other,
    }


def _origin(path: str) -> dict[str, Any]:
    return {"origin": path, "namespace": [], "error": ""}


def _good_facts() -> dict[str, Any]:
    lists = {
        "PATH": [f"{ATB}/bin", f"{HOME}/bin", f"{HOME}/tools/ccec_compiler/bin"],
        "LD_LIBRARY_PATH": [f"{ATB}/lib", f"{HOME}/lib64", "/usr/local/Ascend/driver/lib64", f"{HOME}/devlib"],
        "PYTHONPATH": [f"{HOME}/python/site-packages"],
    }
    values = {"ASCEND_TOOLKIT_HOME": HOME, "ATB_HOME_PATH": ATB, "LCCL_PARALLEL": "0"}
    env = {
        "HOME": "/root",
        "PATH": ":".join([*lists["PATH"], f"{PYTHON_HOME}/bin", "/usr/local/bin", "/usr/bin", "/bin"]),
        "LD_LIBRARY_PATH": ":".join([*lists["LD_LIBRARY_PATH"][:3], f"{PYTHON_HOME}/lib"]),
        "PYTHONPATH": f"{HOME}/python/site-packages:/Megatron-LM",
        "SOC_VERSION": "ascend910b1",
        "VLLM_USE_MODELSCOPE": "True",
        "ATB_CXX_ABI": "1",
        **values,
    }
    named = {
        SCRIPTS[0],
        SCRIPTS[1].split()[0],
        *values.values(),
        *(entry for found in lists.values() for entry in found),
    }
    named |= {entry for value in env.values() for entry in value.split(":")}
    paths = {
        path: {"exists": True, "real": path.replace("atb/latest", "atb/9.1.0")}
        for path in sorted(named)
        if path.startswith("/") and "driver" not in path and "devlib" not in path
    }
    for path in (*lists["LD_LIBRARY_PATH"][2:],):
        paths[path] = {"exists": False, "real": path, "missing": path, "near": ""}
    versions = [f"GLIBC_2.{minor}" for minor in range(17, 36)]
    return {
        "live": True,
        "machine": "x86_64",
        "system": {"id": "ubuntu", "version": "22.04"},
        "python": {
            "executable": f"{PYTHON_HOME}/bin/python3",
            "prefix": PYTHON_HOME,
            "version": "3.12.13",
            "paths": [SITE],
            "error": "",
            "markers": {
                "python_version": "3.12",
                "python_full_version": "3.12.13",
                "platform_machine": "x86_64",
                "sys_platform": "linux",
                "os_name": "posix",
                "platform_system": "Linux",
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
                "implementation_version": "3.12.13",
                "platform_release": "",
                "platform_version": "",
            },
        },
        "environment": {
            "process": env,
            "sh": dict(env),
            "login": {**env, "LS_COLORS": "no"},
            "set_env": {"lists": lists, "values": values, "error": ""},
            "env_runs": True,
            "python3": dict.fromkeys(("process", "sh", "login"), f"{PYTHON_HOME}/bin/python3.12"),
        },
        "startup": [
            {"file": "ENTRYPOINT", "releases": [], "scripts": [{"path": SCRIPTS[0], "guarded": False}]},
            {"file": "/etc/profile", "releases": ["9.1.0"], "scripts": [{"path": "/etc/nowhere", "guarded": True}]},
        ],
        "paths": paths,
        "distributions": sorted(
            [
                distribution("torch", "2.10.0+cpu"),
                distribution("torch-npu", "2.10.0.post4", "torch==2.10.0+cpu"),
                distribution("torchvision", "0.25.0+cpu", "torch==2.10.0"),
                distribution("torchaudio", "2.10.0+cpu"),
                distribution(
                    "triton-ascend",
                    "3.2.2",
                    "numpy==1.26.4",
                    'triton==3.2.0; platform_machine == "x86_64"',
                    'triton==3.5.0; platform_machine == "aarch64"',
                    modules=["triton"],
                ),
                distribution("numpy", "1.26.4"),
                distribution("deepspeed", "0.19.8", "numpy", 'nosuch>1; extra == "dev"'),
                distribution("mbridge", "0.15.1"),
                distribution(
                    "opencv-python-headless", "4.13.0.92", 'numpy>=2; python_version >= "3.9"', modules=["cv2"]
                ),
                distribution("xgrammar", "0.2.9", "torch>=1.10"),
                distribution("vllm", "0.23.0+empty", "numpy", editable="/vllm"),
                distribution("vllm_ascend", "0.23.0", editable="/vllm-ascend"),
                distribution("pip", "25.0", installer="pip"),
                distribution("pathlib2", "2.3.7", "six", installer="pip"),
                distribution("six", "1.17.0", installer="pip"),
                distribution("te", "0.4.0", installer="", location=f"{HOME}/python/site-packages", record=None),
                distribution("vllm", "0.23.0", location="/vllm", metadata="vllm.egg-info", record=None, installer=""),
            ],
            key=lambda facts: facts["name"].replace("_", "-"),
        ),
        "shared_files": [],
        "module_owners": {"vllm": [], "vllm_ascend": [], "megatron.core": []},
        "unowned": {"start": [], "user_site": [], "shadows": [], "files": []},
        "preload": [],
        "torch": {"cuda_files": [], "cuda_version": "", "cxx11_abi": True},
        "patches": [{"distribution": "mbridge", "file": "mbridge/io.py", "found": True, "old": 0, "new": 2}],
        "sources": {
            name: {
                "present": True,
                "head": commit,
                "changed": [],
                "submodules": [{"path": "csrc/x", "recorded": "d" * 40, "head": "d" * 40}]
                if name == "vllm-ascend"
                else [],
                "git_error": "",
                "version": "0.23.0" if name.startswith("vllm") else None,
                "device_type": "A2" if name == "vllm-ascend" else None,
                "extensions": [{"file": "/vllm-ascend/vllm_ascend/c.so", "machine": "x86_64"}]
                if name == "vllm-ascend"
                else [],
            }
            for name, commit in COMMITS.items()
        },
        "cann": {
            "toolkit": [{"file": f"{HOME}/x86_64-linux/ascend_toolkit_install.info", "version": "9.1.0"}],
            "ops": [{"file": f"{HOME}/x86_64-linux/ascend_ops_install.info", "version": "9.1.0", "chip": "910b"}],
            "nnal": [{"file": "/usr/local/Ascend/nnal/atb/9.1.0", "version": "9.1.0"}],
        },
        "settings": [],
        "leftovers": [],
        "elf": {
            "offers": {
                "libc.so.6": versions,
                "libm.so.6": versions,
                "libstdc++.so.6": [f"GLIBCXX_3.4.{minor}" for minor in range(31)],
                "libgcc_s.so.1": ["GCC_3.0"],
            },
            "needs": {
                "libc.so.6": {"GLIBC_2.34": {"count": 3, "files": [f"{SITE}/torch/lib/libtorch.so"]}},
                "libm.so.6": {},
                "libstdc++.so.6": {"GLIBCXX_3.4.30": {"count": 1, "files": [f"{SITE}/torch/lib/libtorch.so"]}},
                "libgcc_s.so.1": {},
            },
        },
        "built_for": {"file": "/vllm-ascend/vllm_ascend/_build_info.py", "device_type": "A2"},
        "driver": False,
        "user": {"uid": 0, "gid": 0, "groups": [0], "name": "root"},
        "devices": {"nodes": [], "visible": {"ASCEND_VISIBLE_DEVICES": None, "ASCEND_RT_VISIBLE_DEVICES": None}},
        "driver_files": {"paths": {}, "version": {}, "install": {}},
        "npu_smi": {"path": "", "directory": "", "code": None, "text": "", "board": None},
        "asked": {"npu": False, "devices": [], "require": False, "model": "", "device": "npu", "backend": "hccl"},
        "probe": None,
        "stubs": [],
        "origins": {
            place: {
                "vllm": _origin("/vllm/vllm/__init__.py"),
                "vllm_ascend": _origin("/vllm-ascend/vllm_ascend/__init__.py"),
                "megatron.core": _origin("/Megatron-LM/megatron/core/__init__.py"),
            }
            for place in ("/", "the working directory", "an empty directory")
        },
        "imports": {
            name: {"exit": 0, "signal": "", "timed_out": False, "stderr": ""}
            for name in ("torch", "torch_npu", "vllm", "vllm.entrypoints.openai.api_server", "xgrammar", "vllm_ascend")
        },
    }


#: What probe.py prints of a device whose products are right.
PRODUCTS = (
    {"dtype": "float16", "error": 0.000284, "tolerance": 0.00195},
    {"dtype": "bfloat16", "error": 0.00229, "tolerance": 0.0156},
    {"dtype": "float32", "error": 3.6e-07, "tolerance": 0.00195},
)


def ran(*said: dict[str, Any], **other: Any) -> dict[str, Any]:
    """Return how a step of probe.py ended, well unless told otherwise, and what it printed."""
    return {"exit": 0, "signal": "", "timed_out": False, "stderr": "", "said": list(said), **other}


def npu_smi_text(name: str) -> str:
    """Return a recorded output of npu-smi."""
    return (NPU_SMI / name).read_text()


class Case:
    """The facts, pins and lock of one image, to be spoilt; `ask` asks every check."""

    def __init__(self, module: SimpleNamespace) -> None:
        self.module = module
        self.facts = _good_facts()
        self.image = copy.deepcopy(IMAGE)
        self.lock = LOCK

    def installed(self, name: str) -> dict[str, Any]:
        """Return the facts of an installed distribution."""
        found: dict[str, Any] = next(facts for facts in self.facts["distributions"] if facts["name"] == name)
        return found

    def install(self, name: str, version: str, *requires: str, **other: Any) -> dict[str, Any]:
        """Install a distribution beside the others."""
        facts = distribution(name, version, *requires, **other)
        self.facts["distributions"].append(facts)
        return facts

    def remove(self, name: str) -> None:
        """Take a distribution away."""
        self.facts["distributions"].remove(self.installed(name))

    def set(self, name: str, value: str, *labels: str) -> None:
        """Set a variable everywhere; paths that it names exist."""
        for label in labels or ("process", "sh", "login"):
            self.facts["environment"][label][name] = value
        for entry in value.split(":"):
            if entry.startswith("/"):
                self.facts["paths"].setdefault(entry, {"exists": True, "real": entry})

    def unset(self, name: str) -> None:
        """Take a variable away everywhere."""
        for label in ("process", "sh", "login"):
            self.facts["environment"][label].pop(name, None)

    def fails(self, name: str, end: str, **other: Any) -> None:
        """Let an import fail with an end of stderr."""
        self.facts["imports"][name] = {"exit": 1, "signal": "", "timed_out": False, "stderr": end, **other}

    def on_host(self, *numbers: int, table: str = "a2-910b3-26.txt") -> None:
        """Run on a host with NPUs and ask them to compute: everything is mounted, and everything agrees."""
        paths = [f"/dev/davinci{number}" for number in numbers] + ["/dev/davinci_manager", "/dev/hisi_hdc"]
        self.facts["devices"]["nodes"] = [
            {"path": path, "mode": 0o660, "uid": 1000, "gid": 1000, "usable": True} for path in paths
        ]
        self.facts["driver"] = True
        self.facts["driver_files"]["paths"] = {"/usr/local/Ascend/driver/lib64": "dir"}
        self.facts["driver_files"]["version"] = {"version": "25.2.0", "package_version": "25.2.0.1"}
        self.facts["npu_smi"].update(
            path="/usr/local/bin/npu-smi", code=0, text=npu_smi_text(table).replace("Critical", "OK      ")
        )
        self.facts["asked"].update(npu=True, devices=list(numbers))
        names = ["Ascend910B3"] * len(numbers)
        self.facts["probe"] = {
            "count": ran({"available": True, "count": len(numbers), "names": names}),
            "matmul": {str(index): ran(*PRODUCTS) for index in range(len(numbers))},
            "ranks": len(numbers),
            "all_reduce": ran(*({"rank": rank, "index": rank, "wrong": 0, "of": 1024} for rank in range(len(numbers))))
            if len(numbers) > 1
            else None,
            "generate": None,
        }

    def no_torch(self, end: str) -> None:
        """Let everything that needs torch_npu fail with an end of stderr, where it is imported and where it counts."""
        for name in ("torch_npu", "vllm_ascend"):
            self.fails(name, end)
        self.facts["probe"]["count"] = ran(exit=1, stderr=end)
        self.facts["probe"].update(matmul={}, ranks=0, all_reduce=None)

    def ask(self) -> dict[str, list[Any]]:
        """Ask every check; return answers by check."""
        lock = self.module.parse_lock(self.lock) if self.lock else None
        answers: dict[str, list[Any]] = self.module.ask_all(self.facts, self.image, lock, self.module.pep440())
        return answers

    def failures(self) -> list[tuple[str, Any]]:
        """Return what fails, each with its check."""
        return [(name, said) for name, list_of in self.ask().items() for said in list_of if said.answer.value == "fail"]


@pytest.fixture
def case(check: SimpleNamespace) -> Case:
    return Case(check)


Spoil = Callable[[Case], None]
