"""Each check over facts: it passes on a good image, and fails, alone, on every image that was spoilt in its way."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

HOME = "/usr/local/Ascend/cann-9.1.0"
OLD = "/usr/local/Ascend/cann-8.5.1"
SITE = "/usr/local/python3.12.13/lib/python3.12/site-packages"
Spoil = Callable[[Any], None]

#: One line a fault: its name, the check that must find it, a part of what it says is found, and the spoiling.
FAULTS: list[tuple[str, str, str, Spoil]] = []


def fault(name: str, check: str, found: str) -> Callable[[Spoil], Spoil]:
    def register(spoil: Spoil) -> Spoil:
        FAULTS.append((name, check, found, spoil))
        return spoil

    return register


# --- platform


@fault("a lock of the other architecture", "architecture", "a lock for linux/arm64 in an image for linux/amd64")
def _(case: Any) -> None:
    case.lock = case.lock.replace("linux/amd64", "linux/arm64")


@fault("an architecture that is not built", "architecture", "Python is built for amd64")
def _(case: Any) -> None:
    case.image["platforms"] = ["arm64"]


@fault("another operating system", "operating-system", "openEuler24.03")
def _(case: Any) -> None:
    case.facts["system"] = {"id": "openEuler", "version": "24.03"}


@fault("another Python", "python", "is Python 3.10.12")
def _(case: Any) -> None:
    case.facts["python"]["version"] = "3.10.12"


@fault("a second Python of the same version", "python", "python3 is the one in /usr")
def _(case: Any) -> None:
    case.facts["python"]["prefix"] = "/usr"


@fault("no Python that runs", "python", "python3 does not run: cannot open shared object file")
def _(case: Any) -> None:
    case.facts["python"].update(version="", error="…\ncannot open shared object file")


# --- packages


@fault("torch ahead of torch_npu", "torch-family", "torch 2.11.0, torch_npu 2.10.0.post4, torchvision")
def _(case: Any) -> None:
    case.installed("torch")["version"] = "2.11.0"
    case.fails("torch", "ImportError: libtorch_npu.so: undefined symbol: _ZN3c10")
    case.fails("vllm", "ImportError: libtorch_npu.so: undefined symbol: _ZN3c10")


@fault("torch without torch_npu", "torch-family", "torch_npu missing")
def _(case: Any) -> None:
    case.remove("torch-npu")


@fault("torch_npu of another post release", "torch-family", "torch_npu 2.10.0.post2")
def _(case: Any) -> None:
    case.installed("torch-npu")["version"] = "2.10.0.post2"


@fault("torchvision of another torch line", "torch-family", "torchvision 0.24.0")
def _(case: Any) -> None:
    case.installed("torchvision")["version"] = "0.24.0"


@fault("torchvision of another torch line, unpinned", "torch-family", "torchvision 0.24.0")
def _(case: Any) -> None:
    del case.image["packages"]["amd64"]["torchvision"]
    case.installed("torchvision")["version"] = "0.24.0"


@fault("a CUDA torch in place of the CPU one", "torch-family", "torch is a CUDA build")
def _(case: Any) -> None:
    case.installed("torch")["version"] = "2.10.0+cu128"
    case.facts["torch"]["cuda_files"] = [f"{SITE}/torch/lib/libtorch_cuda.so"]


@fault("a CUDA torch of the right version", "forbidden-packages", "torch is a CUDA build: 2.10.0+cpu")
def _(case: Any) -> None:
    case.facts["torch"]["cuda_files"] = [f"{SITE}/torch/lib/libtorch_cuda.so"]


@fault("a CUDA torch by what it says of itself", "forbidden-packages", "CUDA 12.8")
def _(case: Any) -> None:
    case.facts["torch"]["cuda_version"] = "12.8"


@fault("CUDA wheels", "forbidden-packages", "nvidia-cublas-cu12 12.1, nvidia-nccl-cu12 2.2")
def _(case: Any) -> None:
    case.install("nvidia_cublas_cu12", "12.1")
    case.install("nvidia-nccl-cu12", "2.2")


@fault("CUDA wheels where no pattern excludes them", "forbidden-packages", "cuda-python 12.1")
def _(case: Any) -> None:
    case.image["exclude"] = {}
    case.install("cuda-python", "12.1")


@fault("an excluded package over a wanted one", "forbidden-packages", "312 files are also those of triton-ascend")
def _(case: Any) -> None:
    # One cause: what triton overwrote is neither damage of triton-ascend nor a conflict of its own.
    case.install("triton", "3.2.0")
    case.lock = "\n".join(line for line in case.lock.splitlines() if "triton==3.2.0" not in line)
    case.facts["shared_files"] = [
        {"owners": ["triton", "triton-ascend"], "count": 312, "files": [f"{SITE}/triton/a.py"]}
    ]
    case.installed("triton-ascend")["record"].update(changed=[f"{SITE}/triton/a.py"], changed_count=1)
    case.fails("vllm", "AttributeError: module 'triton' has no attribute 'x'")


@fault("a pinned package of another version", "pinned-packages", "2.2.6")
def _(case: Any) -> None:
    case.installed("numpy")["version"] = "2.2.6"


@fault("a pinned package outside its range", "pinned-packages", "0.18.9")
def _(case: Any) -> None:
    case.installed("deepspeed")["version"] = "0.18.9"


@fault("a pinned package that is missing", "pinned-packages", "not installed")
def _(case: Any) -> None:
    case.remove("triton-ascend")
    case.fails("vllm", "ModuleNotFoundError: No module named 'triton_ascend'")


@fault("a locked package of another version", "locked-packages", "0.1.33")
def _(case: Any) -> None:
    case.installed("xgrammar")["version"] = "0.1.33"


@fault("a locked package that is missing", "locked-packages", "not installed")
def _(case: Any) -> None:
    case.remove("xgrammar")
    case.fails("xgrammar", "ModuleNotFoundError: No module named 'xgrammar'")


@fault("a version in the pinned range that is not the locked one", "locked-packages", "0.20.0")
def _(case: Any) -> None:
    case.installed("deepspeed")["version"] = "0.20.0"


@fault("a lock that was not installed", "locked-packages", "extra0 not installed (wanted 1.0)")
def _(case: Any) -> None:
    case.lock += "".join(f"extra{number}==1.0\n" for number in range(9))


@fault("a package that nobody locked", "extra-packages", "left-pad 1.0")
def _(case: Any) -> None:
    case.install("left-pad", "1.0")


@fault("two metadata directories of one distribution", "duplicate-packages", "2 of them")
def _(case: Any) -> None:
    # One cause: the version and the files that Python sees are those of the other one.
    case.installed("numpy")["record"].update(missing=["/x"], missing_count=1)
    case.installed("numpy")["version"] = "1.24.0"
    case.install("numpy", "1.26.4", metadata="numpy-1.26.4.dist-info")


@fault("two distributions that own the same files", "shared-files", "both write 9 files")
def _(case: Any) -> None:
    case.lock += "opencv-python==4.13.0.92\n"
    case.install("opencv-python", "4.13.0.92", modules=["cv2"])
    case.facts["shared_files"] = [
        {"owners": ["opencv-python", "opencv-python-headless"], "count": 9, "files": [f"{SITE}/cv2/__init__.py"]}
    ]


@fault(
    "a distribution that holds a source's package", "shared-files", "megatron-core 0.15.0 holds a package megatron.core"
)
def _(case: Any) -> None:
    case.install("megatron-core", "0.15.0")
    case.facts["module_owners"]["megatron.core"] = ["megatron-core"]


@fault("missing files", "damaged-packages", f"triton-ascend is damaged: 12 of 40 files missing ({SITE}/triton/f0.py")
def _(case: Any) -> None:
    case.installed("triton-ascend")["record"].update(
        missing=[f"{SITE}/triton/f{number}.py" for number in range(5)], missing_count=12
    )
    case.fails("torch", "  File torch/x.py\nModuleNotFoundError: No module named 'triton._C.libtriton'")


@fault("changed files", "damaged-packages", "numpy is damaged: 1 of 40 files changed")
def _(case: Any) -> None:
    case.installed("numpy")["record"].update(changed=[f"{SITE}/numpy/x.py"], changed_count=1)


@fault("an editable installation that lost its files", "damaged-packages", "vllm is damaged: 1 of 40 files missing")
def _(case: Any) -> None:
    case.installed("vllm")["record"].update(missing=[f"{SITE}/__editable__.vllm.pth"], missing_count=1)
    for modules in case.facts["origins"].values():
        modules["vllm"] = {"origin": "", "namespace": ["/vllm"], "error": ""}
    case.fails("vllm.entrypoints.openai.api_server", "ModuleNotFoundError: No module named 'vllm.entrypoints'")


@fault("metadata that cannot be read", "damaged-packages", "no readable metadata")
def _(case: Any) -> None:
    case.installed("mbridge")["readable"] = False


@fault("a patch that did not apply", "patches", "1 times the new text, 1 times the old")
def _(case: Any) -> None:
    case.facts["patches"][0].update(old=1, new=1)


@fault("a patch of a file that is gone", "patches", "mbridge/io.py is not there")
def _(case: Any) -> None:
    case.facts["patches"][0].update(found=False, old=0, new=0)


@fault("a sitecustomize that nobody owns", "unowned-files", "/sitecustomize.py: every Python runs it at its start")
def _(case: Any) -> None:
    case.facts["unowned"]["start"] = [f"{SITE}/sitecustomize.py"]


@fault("packages of root's own", "unowned-files", "a user's own packages come before site-packages")
def _(case: Any) -> None:
    case.facts["unowned"]["user_site"] = ["/root/.local/lib/python3.12/site-packages/numpy"]


@fault("a module that hides a distribution's", "unowned-files", f"{SITE}/six.so: no distribution has it")
def _(case: Any) -> None:
    case.facts["unowned"]["shadows"] = [f"{SITE}/six.so"]


@fault("a module laid into a distribution", "unowned-files", "1 modules of numpy are in no RECORD")
def _(case: Any) -> None:
    case.facts["unowned"]["files"] = [{"owner": "numpy", "count": 1, "files": [f"{SITE}/numpy/extra.py"]}]


@fault("a folder of somebody else's in PYTHONPATH", "foreign-environment", "PYTHONPATH has /opt/mine")
def _(case: Any) -> None:
    case.set("PYTHONPATH", f"/opt/mine:{case.facts['environment']['process']['PYTHONPATH']}")


@fault("a folder of somebody else's behind the pinned ones", "foreign-environment", "LD_LIBRARY_PATH has /opt/mine")
def _(case: Any) -> None:
    case.set("LD_LIBRARY_PATH", f"{case.facts['environment']['process']['LD_LIBRARY_PATH']}:/opt/mine")


@fault("programs of somebody else's before the pinned ones", "foreign-environment", "PATH has /opt/mine/bin")
def _(case: Any) -> None:
    case.set("PATH", f"/opt/mine/bin:{case.facts['environment']['process']['PATH']}")


@fault("a library that is loaded before all others", "foreign-environment", "LD_PRELOAD=/opt/mine/x.so")
def _(case: Any) -> None:
    case.set("LD_PRELOAD", "/opt/mine/x.so")


@fault("a Python that a variable leads elsewhere", "foreign-environment", "PYTHONHOME=/opt/mine")
def _(case: Any) -> None:
    case.set("PYTHONHOME", "/opt/mine")


@fault("a variable that only a login shell sets", "foreign-environment", "PYTHONSTARTUP=/root/x.py")
def _(case: Any) -> None:
    case.set("PYTHONSTARTUP", "/root/x.py", "login")


@fault("a library that the loader's file names", "foreign-environment", "it loads /opt/mine/x.so into every program")
def _(case: Any) -> None:
    case.facts["preload"] = ["/opt/mine/x.so"]


@fault("an env that does not run", "shells", "it does not run")
def _(case: Any) -> None:
    case.facts["environment"]["env_runs"] = False


@fault("a new conflict", "package-demands", "mbridge 0.15.1 asks for numpy>=2 (found 1.26.4), numpy>=3 (found 1.26.4)")
def _(case: Any) -> None:
    case.installed("mbridge")["requires"] = ["numpy (>=2)", "numpy>=3"]
    case.fails("vllm", "  File mbridge/io.py\nAttributeError: module 'numpy' has no attribute 'x'")


@fault("a demand for what is not there", "package-demands", "mbridge 0.15.1 asks for nosuch (found none)")
def _(case: Any) -> None:
    case.installed("mbridge")["requires"] = ["nosuch"]


@fault("an accepted conflict that has vanished", "package-demands", "no longer conflicts over numpy>=2")
def _(case: Any) -> None:
    case.installed("opencv-python-headless")["requires"] = ["numpy>=1.21"]


@fault("an accepted conflict over another version", "package-demands", "asks for numpy>=2, found 1.26.4")
def _(case: Any) -> None:
    case.lock = case.lock.replace('"found": "1.26.4"', '"found": "1.24.0"')


# --- sources


@fault(
    "an import that depends on the directory", "source-origin", "started in the working directory: an empty namespace"
)
def _(case: Any) -> None:
    case.facts["origins"]["the working directory"]["vllm"] = {
        "origin": "",
        "namespace": ["/workspace/vllm"],
        "error": "",
    }


@fault("a source imported from elsewhere", "source-origin", f"imported from {SITE}/vllm/__init__.py")
def _(case: Any) -> None:
    for modules in case.facts["origins"].values():
        modules["vllm"] = {"origin": f"{SITE}/vllm/__init__.py", "namespace": [], "error": ""}


@fault(
    "two folders of one name in a checkout", "source-origin", "from an empty directory: /vllm/build/vllm/__init__.py"
)
def _(case: Any) -> None:
    case.facts["origins"]["an empty directory"]["vllm"] = {
        "origin": "/vllm/build/vllm/__init__.py", "namespace": [], "error": "",
    }  # fmt: skip


@fault("a source that cannot be imported", "source-origin", "no module of this name")
def _(case: Any) -> None:
    for modules in case.facts["origins"].values():
        modules["megatron.core"] = {"origin": "", "namespace": [], "error": "no module of this name"}


@fault("another commit", "source-commit", "/vllm is at " + "e" * 40)
def _(case: Any) -> None:
    case.facts["sources"]["vllm"]["head"] = "e" * 40


@fault("a dirty checkout", "source-commit", "/vllm has 1 change:  M vllm/x.py")
def _(case: Any) -> None:
    case.facts["sources"]["vllm"]["changed"] = [" M vllm/x.py"]


@fault("a missing checkout", "source-commit", "/vllm-ascend is not there")
def _(case: Any) -> None:
    case.facts["sources"]["vllm-ascend"]["present"] = False
    for modules in case.facts["origins"].values():
        modules["vllm_ascend"] = {"origin": "", "namespace": [], "error": "no module of this name"}


@fault("a missing submodule", "source-commit", "submodules missing: csrc/x")
def _(case: Any) -> None:
    case.facts["sources"]["vllm-ascend"]["submodules"][0]["head"] = ""


@fault("a submodule at another commit", "source-commit", "submodules elsewhere: csrc/x at ffffffffffff")
def _(case: Any) -> None:
    case.facts["sources"]["vllm-ascend"]["submodules"][0]["head"] = "f" * 40


@fault("a guessed version", "source-version", "vllm.__version__ is 0.1.dev1+gabc")
def _(case: Any) -> None:
    case.facts["sources"]["vllm"]["version"] = "0.1.dev1+gabc"


@fault("a source that was never installed", "source-origin", "no module of this name")
def _(case: Any) -> None:
    case.remove("vllm_ascend")
    for modules in case.facts["origins"].values():
        modules["vllm_ascend"] = {"origin": "", "namespace": [], "error": "no module of this name"}
    case.fails("vllm_ascend", "ModuleNotFoundError: No module named 'vllm_ascend'")


@fault("a distribution without its local version", "source-version", "vllm 0.23.0")
def _(case: Any) -> None:
    case.installed("vllm")["version"] = "0.23.0"


@fault("a source that is not installed", "source-version", "no distribution vllm_ascend")
def _(case: Any) -> None:
    case.remove("vllm_ascend")


@fault("no compiled extension", "compiled-extensions", "no shared object below /vllm-ascend")
def _(case: Any) -> None:
    case.facts["sources"]["vllm-ascend"]["extensions"] = []


@fault("an extension for another machine", "compiled-extensions", "extensions for aarch64")
def _(case: Any) -> None:
    case.facts["sources"]["vllm-ascend"]["extensions"][0]["machine"] = "aarch64"


@fault("a build for another chip", "compiled-extensions", "built for device type A3")
def _(case: Any) -> None:
    case.facts["sources"]["vllm-ascend"]["device_type"] = "A3"


# --- environment


@fault("ENV that names the old CANN", "environment-release", "ASCEND_TOOLKIT_HOME (/usr/local/Ascend/cann-8.5.1)")
def _(case: Any) -> None:
    # One cause, whatever else the entries get wrong.
    case.set("ASCEND_TOOLKIT_HOME", OLD)
    case.set("PATH", case.facts["environment"]["process"]["PATH"].replace(HOME, OLD))


@fault("a variable of the old CANN that set_env.sh mends", "environment-release", "ASCEND_TOOLKIT_HOME")
def _(case: Any) -> None:
    case.image["env"]["ASCEND_TOOLKIT_HOME"] = HOME
    case.set("ASCEND_TOOLKIT_HOME", OLD, "process", "sh")


@fault("a link that leads to the old CANN", "environment-release", "ATB_HOME_PATH")
def _(case: Any) -> None:
    path = case.facts["environment"]["process"]["ATB_HOME_PATH"]
    for name, facts in case.facts["paths"].items():
        if name.startswith(path):
            facts["real"] = facts["real"].replace("atb/9.1.0", "atb/8.5.1")


@fault("a login shell that brings in the old CANN", "environment-release", "PATH of a login shell")
def _(case: Any) -> None:
    case.set("PATH", f"{OLD}/bin:" + case.facts["environment"]["login"]["PATH"], "login")


@fault(
    "a home that is not there",
    "environment-paths",
    "/usr/local/Ascend/9.1.0/lib64 in LD_LIBRARY_PATH, ASCEND_TOOLKIT_HOME=/usr/local/Ascend/9",
)
def _(case: Any) -> None:
    dead = {"exists": False, "missing": "/usr/local/Ascend/9.1.0", "near": HOME}
    for path in ("/usr/local/Ascend/9.1.0", "/usr/local/Ascend/9.1.0/lib64"):
        case.facts["paths"][path] = {**dead, "real": path}
    case.set("ASCEND_TOOLKIT_HOME", "/usr/local/Ascend/9.1.0")
    value = case.facts["environment"]["process"]["LD_LIBRARY_PATH"]
    case.set("LD_LIBRARY_PATH", f"/usr/local/Ascend/9.1.0/lib64:{value}")


@fault("an empty entry", "environment-paths", "PYTHONPATH has an empty entry")
def _(case: Any) -> None:
    case.set("PYTHONPATH", case.facts["environment"]["process"]["PYTHONPATH"] + ":")


@fault("another value", "environment-values", "False")
def _(case: Any) -> None:
    case.set("VLLM_USE_MODELSCOPE", "False")


@fault("a variable that is not set", "environment-values", "not set")
def _(case: Any) -> None:
    case.unset("SOC_VERSION")


@fault("a list that lacks an entry", "environment-values", "lacks /opt/lib")
def _(case: Any) -> None:
    case.image["env"]["LD_LIBRARY_PATH"] = f"{HOME}/lib64:/opt/lib"


@fault("a list in another order", "environment-values", "another order")
def _(case: Any) -> None:
    case.image["env"]["PATH"] = f"{HOME}/tools/ccec_compiler/bin:{HOME}/bin"


@fault("ENV that lacks what set_env.sh adds", "environment-set-env", f"lacks {HOME}/tools/ccec_compiler/bin")
def _(case: Any) -> None:
    case.set("PATH", case.facts["environment"]["process"]["PATH"].replace(f"{HOME}/tools/ccec_compiler/bin:", ""))


@fault("ENV in another order than set_env.sh", "environment-set-env", "another order")
def _(case: Any) -> None:
    case.set(
        "PATH",
        f"{HOME}/tools/ccec_compiler/bin:"
        + case.facts["environment"]["process"]["PATH"].replace(f"{HOME}/tools/ccec_compiler/bin:", ""),
    )


@fault("a value that set_env.sh sets otherwise", "environment-set-env", "1")
def _(case: Any) -> None:
    case.set("LCCL_PARALLEL", "1")


@fault("set_env scripts that set up the old CANN", "environment-set-env", "sets up CANN 8.5.1")
def _(case: Any) -> None:
    case.facts["environment"]["set_env"]["lists"]["PATH"] = [f"{OLD}/bin"]
    case.facts["environment"]["set_env"]["values"]["ASCEND_TOOLKIT_HOME"] = OLD
    case.set("PATH", f"{OLD}/bin:" + case.facts["environment"]["login"]["PATH"], "login")


@fault("set_env scripts that end the shell", "environment-set-env", "end the shell")
def _(case: Any) -> None:
    case.facts["environment"]["set_env"] = {"lists": {}, "values": {}, "error": "the scripts end the shell that …"}


@fault("a limit of the build", "build-variables", "MAX_JOBS=1")
def _(case: Any) -> None:
    case.set("MAX_JOBS", "1")


@fault("TLS switched off for git", "tls", "GIT_SSL_NO_VERIFY=true")
def _(case: Any) -> None:
    case.set("GIT_SSL_NO_VERIFY", "true")


@fault("TLS switched off by a trusted host", "tls", "trusted-host = mirror.example")
def _(case: Any) -> None:
    case.facts["settings"] = [
        {"kind": "tls", "file": "/root/.config/pip/pip.conf", "line": "trusted-host = mirror.example"}
    ]


@fault("a proxy in apt's settings", "proxies", 'Acquire::http::Proxy "http://proxy.example"')
def _(case: Any) -> None:
    case.facts["settings"] = [
        {"kind": "proxy", "file": "/etc/apt/apt.conf.d/80proxy", "line": 'Acquire::http::Proxy "http://proxy.example"'}
    ]


@fault("a proxy in ENV", "proxies", "https_proxy=http://proxy.example:3128")
def _(case: Any) -> None:
    case.set("https_proxy", "http://proxy.example:3128")


@fault("a login shell with another Python", "shells", "python3 is /usr/bin/python3; PATH lacks")
def _(case: Any) -> None:
    case.facts["environment"]["python3"]["login"] = "/usr/bin/python3"
    case.set("PATH", "/usr/bin:/bin", "login")


@fault("a variable that a login shell changes", "shells", "SOC_VERSION is ascend910b4")
def _(case: Any) -> None:
    case.set("SOC_VERSION", "ascend910b4", "login")


@fault("a login shell that does not start", "shells", "it ends before it could answer")
def _(case: Any) -> None:
    case.facts["environment"]["login"] = None


@fault("ENTRYPOINT that names the old CANN", "start-up", "named by ENTRYPOINT, /etc/profile")
def _(case: Any) -> None:
    # One cause: a login shell then has the old release in its environment.
    for document in case.facts["startup"]:
        document.update(releases=["8.5.1"], scripts=[{"path": f"{OLD}/bin/set_env.sh", "guarded": False}])
    case.set("PATH", f"{OLD}/bin:" + case.facts["environment"]["login"]["PATH"], "login")
    case.set("PYTHONPATH", "/Megatron-LM", "login")


@fault("a start-up file that sources nothing", "start-up", "not there, and sourced by /etc/profile")
def _(case: Any) -> None:
    case.facts["startup"][1]["scripts"][0]["guarded"] = False


@fault("a set_env script that is missing", "start-up", "not there, and sourced by image.json")
def _(case: Any) -> None:
    case.facts["paths"]["/usr/local/Ascend/nnal/atb/set_env.sh"] = {
        "exists": False,
        "real": "",
        "missing": "",
        "near": "",
    }


# --- CANN, libraries, leftovers


@fault("another toolkit", "cann-release", "8.5.1 in /usr/local/Ascend/cann/x86_64-linux/ascend_toolkit_install.info")
def _(case: Any) -> None:
    case.facts["cann"]["toolkit"].append(
        {"file": "/usr/local/Ascend/cann/x86_64-linux/ascend_toolkit_install.info", "version": "8.5.1"}
    )


@fault("another NNAL", "cann-release", "9.0.1 in /usr/local/Ascend/nnal/atb/9.0.1")
def _(case: Any) -> None:
    case.facts["cann"]["nnal"] = [{"file": "/usr/local/Ascend/nnal/atb/9.0.1", "version": "9.0.1"}]


@fault("operators of another chip", "operator-package", "A3 (")
def _(case: Any) -> None:
    case.facts["cann"]["ops"][0]["chip"] = "A3"


@fault("ATB with the old ABI", "atb-abi", "ATB_CXX_ABI: 0")
def _(case: Any) -> None:
    case.set("ATB_CXX_ABI", "0")


@fault("a library that wants a newer libstdc++", "elf-needs", "asks for GLIBCXX_3.4.99 of libstdc++.so.6")
def _(case: Any) -> None:
    file = f"{SITE}/triton/_C/libtriton.so"
    case.facts["elf"]["needs"]["libstdc++.so.6"]["GLIBCXX_3.4.99"] = {"count": 1, "files": [file]}
    case.fails("vllm", f"ImportError: libstdc++.so.6: version `GLIBCXX_3.4.99' not found (required by {file})")


@fault("no libstdc++ at all", "elf-needs", "libstdc++.so.6 is not in the image")
def _(case: Any) -> None:
    case.facts["elf"]["offers"]["libstdc++.so.6"] = None


@fault("a cache", "leftovers", "a cache")
def _(case: Any) -> None:
    case.facts["leftovers"] = [{"kind": "a cache", "path": "/root/.cache/uv"}]


@fault("an index of the build", "leftovers", "index-url = https://mirror.example")
def _(case: Any) -> None:
    case.facts["settings"] = [{"kind": "index", "file": "/etc/pip.conf", "line": "index-url = https://mirror.example"}]


@fault("a token", "leftovers", "_authToken")
def _(case: Any) -> None:
    case.facts["settings"] = [{"kind": "secret", "file": "/root/.npmrc", "line": "_authToken"}]


@fault("an entry point that does not import", "entry-points", "exit code 1: ImportError: libtvm_ffi.so: cannot open")
def _(case: Any) -> None:
    # Its top package imports; a second one fails in the same way, which is the same cause.
    end = "Traceback …\nImportError: libtvm_ffi.so: cannot open shared object file"
    case.fails("vllm.entrypoints.openai.api_server", end)
    case.fails("xgrammar", end)


@fault(
    "a backend of torch that does not load", "entry-points", "exit code 1: ImportError: libnpu.so: undefined symbol: x"
)
def _(case: Any) -> None:
    end = "Traceback …\nImportError: libnpu.so: undefined symbol: x\n"
    chain = "\nThe above exception was the direct cause of the following exception:\n\nRuntimeError: no backend"
    case.fails("torch", end + chain)
    case.fails("torch_npu", end)


@fault("an import that crashes", "entry-points", "killed by SIGSEGV")
def _(case: Any) -> None:
    case.fails("torch_npu", "", exit=0, signal="SIGSEGV")


@fault("an import that hangs", "entry-points", "no end within the time limit")
def _(case: Any) -> None:
    case.fails("torch_npu", "", exit=0, timed_out=True)


@fault("a driver library that does not load", "entry-points", "libascend_hal.so: wrong ELF class")
def _(case: Any) -> None:
    case.facts["driver"] = True
    case.fails("torch_npu", "ImportError: libascend_hal.so: wrong ELF class")


# --- the tests


def test_nothing_fails_and_nothing_is_unknown_in_a_good_image(case: Any) -> None:
    answers = [(name, said) for name, list_of in case.ask().items() for said in list_of]
    assert {said.found for _, said in answers if said.answer.value != "pass"} == {"no NPU here (no /dev/davinci*)"}
    assert [said.answer.value for _, said in answers if said.answer.value in ("fail", "unknown")] == []
    assert {name for name, _ in answers} == {one.id for one in case.module.CHECKS}


@pytest.mark.parametrize("take", ["image", "lock"])
def test_what_nobody_owns_is_told_and_not_judged_without_pins(case: Any, take: str) -> None:
    case.facts["unowned"].update(start=["/x/sitecustomize.py"], shadows=["/x/six.so"])
    setattr(case, take, {} if take == "image" else "")
    assert {row[0] for row in answers_of(case, "unowned-files")} == {"fail"}
    case.image, case.lock = {}, ""
    assert {row[0] for row in answers_of(case, "unowned-files")} == {"unknown"}
    assert answers_of(case, "foreign-environment") == [("unknown", "", case.module.NO_PINS.found)]


def test_modules_laid_into_the_base_images_own_packages_are_unknown(case: Any) -> None:
    case.facts["unowned"]["files"] = [{"owner": "six", "count": 1, "files": ["/x/six/extra.py"]}]
    assert [row[:2] for row in answers_of(case, "unowned-files")] == [("unknown", "six")]


@pytest.mark.parametrize(
    "value",
    [
        "/usr/local/Ascend/driver/lib64/common:{}",
        "{}:/usr/local/Ascend/cann-9.1.0/tools/more",
        "{}:/usr/local/Ascend/cann-9.1.0/devlib",
    ],
)
def test_what_the_driver_and_the_pinned_release_bring_is_expected(case: Any, value: str) -> None:
    case.set("LD_LIBRARY_PATH", value.format(case.facts["environment"]["process"]["LD_LIBRARY_PATH"]))
    case.set("PATH", f"{case.facts['environment']['process']['PATH']}:/opt/tools/bin")
    case.image["env"]["LD_PRELOAD"] = "/usr/lib/libjemalloc.so.2"
    case.set("LD_PRELOAD", "/usr/lib/libjemalloc.so.2")
    assert case.failures() == []


@pytest.mark.parametrize("record", [None, {"unhashed": [f"{SITE}/numpy/x.py"], "unhashed_count": 1}])
def test_a_locked_package_whose_record_proves_nothing_is_unknown(case: Any, record: Any) -> None:
    whole = case.installed("numpy")["record"]
    case.installed("numpy")["record"] = record and {**whole, **record}
    case.installed("six")["record"] = record and {**whole, **record}
    assert [row[:2] for row in answers_of(case, "damaged-packages")] == [("unknown", "numpy")]
    assert case.failures() == []


def test_an_import_is_explained_by_a_source_under_its_modules_name(case: Any) -> None:
    case.facts["sources"]["Megatron-LM"]["changed"] = [" D megatron/core/x.py"]
    case.fails("megatron.core", "ModuleNotFoundError: No module named 'megatron.core.x'")
    case.fails("vllm", "  File /Megatron-LM/megatron/core/y.py\nAttributeError: x")
    assert [name for name, _ in case.failures()] == ["source-commit"]
    because = {said.found for said in case.ask()["entry-points"] if said.answer.value == "not run"}
    assert because == {"because of source-commit: Megatron-LM"}


def test_the_table_obeys_nothing_that_an_image_prints(case: Any) -> None:
    case.installed("numpy")["version"] = "1\x1b[2J\u202e"
    answers = case.ask()
    assert "\x1b" not in case.module.table(case.image, answers)
    assert "\u202e" not in case.module.table(case.image, answers)


@pytest.mark.parametrize(("wanted", "found", "spoil"), [pytest.param(*row[1:], id=row[0]) for row in FAULTS])
def test_a_fault_gives_one_finding_of_its_check(case: Any, wanted: str, found: str, spoil: Spoil) -> None:
    spoil(case)
    failures = case.failures()
    assert [name for name, _ in failures] == [wanted], failures
    said = failures[0][1]
    assert found in said.found
    assert said.subject
    assert said.wanted
    assert said.next


def test_every_check_says_what_it_asks_why_and_how_it_is_mended(check: SimpleNamespace) -> None:
    assert all(one.question.endswith("?") and one.why and one.mend.endswith((".", ")")) for one in check.CHECKS)
    assert len({one.id for one in check.CHECKS}) == len(check.CHECKS)


def answers_of(case: Any, name: str) -> list[tuple[str, str, str]]:
    return [(said.answer.value, said.subject, said.found) for said in case.ask()[name]]


def test_imports_that_fail_with_the_torch_pair_are_not_run(case: Any) -> None:
    case.installed("torch")["version"] = "2.11.0"
    case.fails("torch", "undefined symbol")
    states = {said.subject: said for said in case.ask()["entry-points"]}
    assert states["torch"].answer.value == "not run"
    assert states["torch"].found.startswith("because of torch-family: torch 2.11.0, torch_npu 2.10.0.post4")
    assert states["vllm"].answer.value == "pass"


def test_an_import_that_lacks_only_the_driver_is_not_run(case: Any) -> None:
    case.fails("torch_npu", "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory")
    assert ("not run", "torch_npu", case.module.NO_DRIVER) in answers_of(case, "entry-points")
    assert case.failures() == []


def test_a_missing_cann_library_is_not_the_driver(case: Any) -> None:
    case.fails("torch_npu", "ImportError: libhccl.so: cannot open shared object file: No such file or directory")
    assert [said.subject for _, said in case.failures()] == ["torch_npu"]


def test_a_plain_pin_takes_any_local_version_and_a_local_pin_only_its_own(case: Any) -> None:
    case.image["packages"]["amd64"].update(torch="2.9.0", torch_npu="2.9.0.post1+gitabc1234", torchvision="0.24.0")
    case.lock = case.lock.replace("2.10.0+cpu", "2.9.0+cpu").replace("2.10.0.post4", "2.9.0.post1+gitabc1234")
    case.lock = case.lock.replace("torchvision==0.25.0+cpu", "torchvision==0.24.0+cpu")
    for name, version in (("torch", "2.9.0+cpu"), ("torchaudio", "2.9.0+cpu"), ("torchvision", "0.24.0+cpu")):
        case.installed(name)["version"] = version
        case.installed(name)["requires"] = []
    case.image["packages"]["amd64"]["torchaudio"] = "2.9.0"
    case.installed("torch-npu").update(version="2.9.0.post1+gitabc1234", requires=["torch==2.9.0"])
    assert case.failures() == []
    case.image["packages"]["amd64"]["torch"] = "2.9.0+gpu"
    assert [name for name, _ in case.failures()] == ["torch-family"]


def test_a_pin_overrides_an_exclusion(case: Any) -> None:
    case.image["packages"]["amd64"]["nvidia-modelopt[torch]"] = ">=0.37"
    case.lock += "nvidia-modelopt==0.37.0\n"
    case.install("nvidia-modelopt", "0.37.0")
    assert case.failures() == []


def test_a_source_overrides_an_exclusion_of_its_own_name(case: Any) -> None:
    case.image["exclude"]["megatron-core"] = "comes as a source"
    case.image["sources"][2]["install"] = "editable"
    case.install("megatron-core", "0.16.0")
    assert case.failures() == []
    case.image["sources"][2]["install"] = "pythonpath"
    assert [name for name, _ in case.failures()] == ["forbidden-packages"]


def test_what_cuda_does_not_make_is_no_cuda_package(case: Any) -> None:
    case.image["exclude"] = {}
    case.lock += "nvidia-ml-py==13.0\n"
    case.install("nvidia-ml-py", "13.0")
    assert case.failures() == []


def test_an_unknown_package_by_another_installer_is_unknown(case: Any) -> None:
    case.install("left-pad", "1.0", installer="pip")
    assert [row[:2] for row in answers_of(case, "extra-packages")] == [("unknown", "left-pad")]
    assert case.failures() == []


def test_damage_of_the_base_images_own_packages_is_unknown(case: Any) -> None:
    case.installed("six")["record"].update(missing=["/x"], missing_count=1)
    assert [row[:2] for row in answers_of(case, "damaged-packages")] == [("unknown", "six")]


def test_what_the_base_images_own_packages_ask_for_is_unknown(case: Any) -> None:
    case.installed("pathlib2")["requires"] = ["six>=99"]
    assert [row[:2] for row in answers_of(case, "package-demands")] == [("unknown", "pathlib2")]
    assert case.failures() == []


def test_what_lies_in_cann_is_the_vendors_business(case: Any) -> None:
    place = f"{HOME}/python/site-packages"
    case.install("te", "0.4.1", location=place)
    case.installed("te").update(requires=["nosuch"], readable=False)
    case.installed("te")["record"] = {
        "files": 2,
        "missing": ["/x"],
        "missing_count": 1,
        "changed": [],
        "changed_count": 0,
    }
    assert case.failures() == []


def test_without_the_packaging_library_ranges_and_demands_are_unknown(case: Any) -> None:
    lock = case.module.parse_lock(case.lock)
    answers = case.module.ask_all(case.facts, case.image, lock, None)
    assert [(said.answer.value, said.subject) for said in answers["pinned-packages"]] == [("unknown", "deepspeed")]
    assert [said.answer.value for said in answers["package-demands"]] == ["unknown"]


def test_a_source_named_by_ref_alone_is_unknown(case: Any) -> None:
    case.image["sources"][0]["commit"] = ""
    assert ("unknown", "vllm", f"at {'a' * 40}; the pins name no commit, only v0.23.0") in answers_of(
        case, "source-commit"
    )
    assert case.failures() == []


def test_a_ref_that_is_a_commit_counts_as_one(case: Any) -> None:
    case.image["sources"][0].update(commit="", ref="e" * 40)
    assert [name for name, _ in case.failures()] == ["source-commit"]


def test_a_checkout_that_git_cannot_read_is_unknown(case: Any) -> None:
    case.facts["sources"]["vllm"].update(head="", git_error="git: No such file or directory")
    assert ("unknown", "vllm", "git in /vllm: git: No such file or directory") in answers_of(case, "source-commit")


def test_a_conflict_of_a_source_may_be_accepted_under_its_own_name(case: Any) -> None:
    case.image["sources"][1].update(name="MindSpeed-like", distribution="vllm_ascend")
    case.facts["sources"]["MindSpeed-like"] = case.facts["sources"]["vllm-ascend"]
    case.installed("vllm_ascend")["requires"] = ["numpy (<=1.26.0)"]
    conflict = {"whose": "MindSpeed-like", "version": "0", "demand": "numpy<=1.26.0", "found": "1.26.4", "reason": "…"}
    case.lock += f"# conflict: {json.dumps(conflict)}\n"
    assert case.failures() == []


def test_variables_of_the_pins_are_no_leftovers(case: Any) -> None:
    case.image["env"]["VLLM_TARGET_DEVICE"] = "npu"
    case.set("VLLM_TARGET_DEVICE", "npu")
    assert case.failures() == []


def test_what_set_env_adds_may_be_missing_and_need_not_be_in_env(case: Any) -> None:
    dead = f"{HOME}/tools/aml/lib64"
    case.facts["paths"][dead] = {"exists": False, "real": dead, "missing": dead, "near": ""}
    case.facts["environment"]["set_env"]["lists"]["LD_LIBRARY_PATH"].append(dead)
    assert case.failures() == []
    case.set("LD_LIBRARY_PATH", case.facts["environment"]["process"]["LD_LIBRARY_PATH"] + f":{dead}")
    assert case.failures() == []


def test_an_entrypoint_may_put_the_entries_of_set_env_in_front_once_more(case: Any) -> None:
    case.image["env"]["PYTHONPATH"] = f"/Megatron-LM:{HOME}/python/site-packages"
    assert case.failures() == []  # the image says the other order
    case.image["env"]["PYTHONPATH"] = f"/Megatron-LM:/opt/more:{HOME}/python/site-packages"
    case.set("PYTHONPATH", f"{HOME}/python/site-packages:/Megatron-LM:/opt/more")
    assert case.failures() == []
    case.set("PYTHONPATH", f"{HOME}/python/site-packages:/opt/more:/Megatron-LM")
    assert [name for name, _ in case.failures()] == ["environment-values"]


def test_env_by_way_of_a_link_agrees_with_set_env(case: Any) -> None:
    link = "/usr/local/Ascend/ascend-toolkit/latest"
    case.facts["paths"][link] = {"exists": True, "real": HOME}
    for label in ("process", "sh", "login"):
        case.facts["environment"][label]["ASCEND_TOOLKIT_HOME"] = link
    assert case.failures() == []


def test_releases_are_compared_whatever_their_case(case: Any) -> None:
    case.image["cann"] = "8.3.rc2"
    for part in ("toolkit", "ops", "nnal"):
        case.facts["cann"][part] = [{"file": "x", "version": "8.3.RC2", "chip": "910b"}]
    assert [said.answer.value for said in case.ask()["cann-release"]] == ["pass"] * 3


def test_version_files_that_nobody_knows_are_unknown(case: Any) -> None:
    case.facts["cann"] = {"toolkit": [], "ops": [], "nnal": []}
    assert [said.answer.value for said in case.ask()["cann-release"]] == ["unknown"] * 3
    assert [said.answer.value for said in case.ask()["operator-package"]] == ["unknown"]


def test_without_pins_what_needs_them_is_unknown_and_the_rest_is_asked(case: Any) -> None:
    case.image, case.lock = {}, ""
    case.facts["sources"] = {}
    states = {name: {said.answer.value for said in list_of} for name, list_of in case.ask().items()}
    assert "fail" not in set().union(*states.values())
    assert states["pinned-packages"] == states["source-commit"] == states["cann-release"] == {"unknown"}
    assert states["torch-family"] == states["elf-needs"] == states["leftovers"] == {"pass"}
    case.installed("torch")["version"] = "2.11.0"
    assert "torch-family" in {name for name, _ in case.failures()}


def test_an_unpacked_image_is_asked_without_running_its_programs(case: Any) -> None:
    case.facts.update(live=False, origins=None, imports=None)
    case.facts["environment"].update(process={}, sh=None, login=None, set_env=None, python3={"process": ""})
    answers = case.ask()
    assert [said for list_of in answers.values() for said in list_of if said.answer.value == "fail"] == []
    for name in ("entry-points", "source-origin", "environment-values", "environment-set-env", "shells", "atb-abi"):
        assert [said.answer.value for said in answers[name]] == ["not run"]


def test_a_local_checkout_may_hold_what_is_not_committed(case: Any) -> None:
    case.facts["sources"]["vllm"]["changed"] = [" M vllm/x.py"]
    next(source for source in case.image["sources"] if source["name"] == "vllm")["local"] = True
    assert {answer for answer, *_ in answers_of(case, "source-commit")} == {"pass"}


def _nothing_installed(case: Any) -> None:
    case.facts["distributions"] = []


def _no_sources(case: Any) -> None:
    case.image["sources"], case.facts["sources"] = [], {}
    case.facts["built_for"] = {"file": "", "device_type": ""}


def _no_pins(case: Any) -> None:
    case.image, case.lock, case.facts["sources"] = {}, "", {}


def _only_torch_pinned(case: Any) -> None:
    case.image["packages"]["amd64"] = {"torch": "2.10.0+cpu", "torch_npu": "2.10.0.post4"}


def _built_for_what_nobody_names(case: Any) -> None:
    _no_pins(case)
    case.facts["cann"]["ops"] = []


def _no_torch(case: Any) -> None:
    _no_pins(case)
    case.remove("torch")
    case.facts["torch"]["cxx11_abi"] = None


def _unpacked(case: Any) -> None:
    case.facts.update(live=False, origins=None, imports=None)
    case.facts["environment"].update(process={}, sh=None, login=None, set_env=None, python3={"process": ""})


#: A check, what it says (never pass) where there is nothing to look at, why, and what takes everything away.
NOTHING_TO_ASK: list[tuple[str, str, str, Spoil]] = [
    *(
        (name, "not run", "no installed distribution was found", _nothing_installed)
        for name in ("duplicate-packages", "forbidden-packages", "extra-packages", "shared-files", "package-demands")
    ),
    ("damaged-packages", "not run", "no distribution has a RECORD", _nothing_installed),
    ("pinned-packages", "not run", "every pin has its check before this one", _only_torch_pinned),
    (
        "locked-packages",
        "not run",
        "lock.txt names no package that has no check before this one",
        lambda case: setattr(case, "lock", "# platform: linux/amd64\nvllm==0.23.0\n"),
    ),
    ("patches", "not run", "the pins patch nothing", lambda case: case.image.pop("patches")),
    ("patches", "unknown", "its pins are not known", _no_pins),
    ("source-commit", "not run", "the pins name no source", _no_sources),
    ("source-origin", "not run", "the pins name no source that is imported", _no_sources),
    ("source-version", "not run", "the pins name no source that says its version", _no_sources),
    ("compiled-extensions", "not run", "nothing in it is compiled for a chip", _no_sources),
    ("compiled-extensions", "unknown", "which chip the image is for is not known", _built_for_what_nobody_names),
    ("start-up", "unknown", "its pins are not known", _no_pins),
    (
        "start-up",
        "not run",
        "no start-up file, and no ENTRYPOINT in image.json",
        lambda case: (case.image.pop("cann_scripts"), case.facts.update(startup=[])),
    ),
    ("environment-release", "unknown", "names no CANN release", lambda case: case.image.pop("cann")),
    ("environment-release", "not run", "this is a directory", _unpacked),
    ("environment-paths", "not run", "this is a directory", _unpacked),
    ("build-variables", "not run", "this is a directory", _unpacked),
    (
        "environment-values",
        "not run",
        "the pins set no variable",
        lambda case: (case.image.pop("env"), case.image.pop("soc_version")),
    ),
    (
        "environment-set-env",
        "unknown",
        "set nothing",
        lambda case: case.facts["environment"].update(set_env={"lists": {}, "values": {}, "error": ""}),
    ),
    (
        "elf-needs",
        "not run",
        "no library of a package asks for any",
        lambda case: case.facts["elf"].update(needs={"libc.so.6": {}}),
    ),
    ("atb-abi", "not run", "the image has no torch", _no_torch),
    ("entry-points", "not run", "nothing to import", lambda case: case.facts.update(imports={})),
]


@pytest.mark.parametrize(
    ("name", "state", "why", "take"), [pytest.param(*row, id=f"{row[0]} {row[1]}: {row[2]}") for row in NOTHING_TO_ASK]
)
def test_a_check_with_nothing_to_look_at_does_not_pass(case: Any, name: str, state: str, why: str, take: Spoil) -> None:
    take(case)
    ((answer, _, found),) = answers_of(case, name)
    assert (answer, why in found) == (state, True), found


def test_of_a_directory_files_are_judged_and_env_is_not(case: Any) -> None:
    _unpacked(case)
    for name in ("tls", "proxies"):
        assert [row[:2] for row in answers_of(case, name)] == [("pass", "files"), ("not run", "ENV")]


def test_a_source_outside_site_packages_passes_by_its_own_version(case: Any) -> None:
    case.facts["sources"]["Megatron-LM"]["version"] = "0.16.0"
    assert ("pass", "Megatron-LM", "0.16.0") in answers_of(case, "source-version")


def test_the_table_counts_checks_by_what_each_says_as_a_whole(case: Any) -> None:
    # One answer of this check is not run; as a whole it passes.
    case.fails("torch_npu", "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory")
    answers = case.ask()
    lines = case.module.table(case.image, answers).splitlines()
    assert lines[-1] == f"a2: {len(answers)} checks: {len(answers) - 10} pass, 0 fail, 0 unknown, 10 not run"
    (passing,) = (line for line in lines if line.startswith("pass "))
    assert "entry-points" in passing.split()[-1]
