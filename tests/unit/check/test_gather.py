"""What is gathered from the files of an image: small made-up trees, no program is started."""

import base64
import fnmatch
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

HOME = "/usr/local/python3.12.13"
SITE = f"{HOME}/lib/python3.12/site-packages"
ASCEND = "/usr/local/Ascend"
IMAGE: dict[str, Any] = {"schema": 1, "variant": "a2", "python": "3.12", "python_home": HOME, "cann": "9.1.0"}


class Root:
    """A directory that is an image's `/`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str | bytes = "") -> Path:
        file = self.path / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def link(self, name: str, target: str) -> None:
        file = self.path / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def distribution(
        self, name: str, version: str, files: Mapping[str, str | bytes], *requires: str, **other: str
    ) -> None:
        """Install a wheel's files with a RECORD; `other` are further files of its dist-info."""
        info = f"{name}-{version}.dist-info"
        metadata = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}",
                              *(f"Requires-Dist: {line}" for line in requires), "", "Read me."])  # fmt: skip
        rows = []
        for inner, text in {
            **files,
            f"{info}/METADATA": metadata,
            **{f"{info}/{key}": value for key, value in other.items()},
        }.items():
            written = self.write(f"{SITE}/{inner}", text).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(written).digest()).rstrip(b"=").decode()
            rows.append(f"{inner},sha256={digest},{len(written)}")
        self.write(f"{SITE}/{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / SITE.lstrip("/")).mkdir(parents=True)
    return Root(tmp_path)


@pytest.fixture
def gather(check: SimpleNamespace, root: Root) -> Any:
    def gathered(**image: Any) -> dict[str, Any]:
        facts: dict[str, Any] = check.gather(check.Tree(str(root.path)), {**IMAGE, **image}, bytecode="")
        return facts

    return gathered


def named(facts: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(entry for entry in facts["distributions"] if entry["name"] == name)
    return found


# --- the tree


def test_links_are_followed_inside_the_image(check: SimpleNamespace, root: Root) -> None:
    root.write(f"{ASCEND}/cann-9.1.0/file", "inside")
    root.link(f"{ASCEND}/cann", f"{ASCEND}/cann-9.1.0")
    root.link(f"{ASCEND}/ascend-toolkit/latest", "../cann")
    tree = check.Tree(str(root.path))
    assert tree.resolve(f"{ASCEND}/ascend-toolkit/latest/file") == f"{ASCEND}/cann-9.1.0/file"
    assert tree.text(f"{ASCEND}/ascend-toolkit/latest/file") == "inside"
    assert tree.glob(f"{ASCEND}/ascend-toolkit/*/fi*") == [f"{ASCEND}/ascend-toolkit/latest/file"]


def test_links_never_lead_out_of_the_image(check: SimpleNamespace, root: Root) -> None:
    root.link("/etc/up", "../../../../../../etc/passwd")
    root.link("/loop", "/loop")
    tree = check.Tree(str(root.path))
    assert tree.resolve("/etc/up") == "/etc/passwd"
    assert not tree.exists("/etc/up")
    assert not tree.exists("/loop")


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b"]), max_size=8))
def test_a_resolved_path_stays_below_the_root(check: SimpleNamespace, parts: list[str]) -> None:
    found = check.Tree("/nonexistent").resolve("/" + "/".join(parts))
    assert found.startswith("/")
    assert ".." not in found.split("/")


# --- distributions


def test_a_distribution_is_read_with_its_demands_and_modules(root: Root, gather: Any) -> None:
    root.distribution("Foo_Bar", "1.2", {"foo/__init__.py": "", "foo.so": b"x"}, "numpy>=1", INSTALLER="uv\n")
    facts = named(gather(), "Foo_Bar")
    assert (facts["version"], facts["requires"], facts["modules"]) == ("1.2", ["numpy>=1"], ["foo", "foo.so"])
    assert (facts["installer"], facts["location"], facts["readable"]) == ("uv", SITE, True)
    assert (facts["record"]["missing_count"], facts["record"]["changed_count"]) == (0, 0)


def test_an_editable_installation_is_seen(root: Root, gather: Any) -> None:
    url = {"url": "file:///vllm", "dir_info": {"editable": True}}
    root.distribution(
        "vllm", "0.23.0+empty", {"__editable__.vllm.pth": "/vllm"}, **{"direct_url.json": json.dumps(url)}
    )
    assert named(gather(), "vllm")["editable"] == "/vllm"


def test_missing_and_changed_files_are_counted_bytecode_is_not(root: Root, gather: Any) -> None:
    files = {f"triton/f{number:02}.py": str(number) for number in range(40)}
    root.distribution("triton-ascend", "3.2.0", {**files, "triton/x.pyc": "old", "triton/gone.pyc": ""})
    for number in range(12):
        (root.path / SITE.lstrip("/") / f"triton/f{number:02}.py").unlink()
    root.write(f"{SITE}/triton/f20.py", "changed")
    root.write(f"{SITE}/triton/x.pyc", "changed")
    (root.path / SITE.lstrip("/") / "triton/gone.pyc").unlink()
    record = named(gather(), "triton-ascend")["record"]
    assert (record["missing_count"], record["changed_count"]) == (12, 1)
    assert record["missing"] == [f"{SITE}/triton/f{number:02}.py" for number in range(5)]
    assert record["changed"] == [f"{SITE}/triton/f20.py"]


def test_a_file_that_the_pins_patch_may_change(root: Root, gather: Any) -> None:
    root.distribution("mbridge", "0.15.1", {"mbridge/io.py": "cuda cuda"})
    root.write(f"{SITE}/mbridge/io.py", "npu npu")
    patch = {"distribution": "mbridge", "file": "mbridge/io.py", "find": "cuda", "replace": "npu", "count": 2}
    facts = gather(patches=[patch])
    assert named(facts, "mbridge")["record"]["changed_count"] == 0
    assert facts["patches"] == [{"distribution": "mbridge", "file": "mbridge/io.py", "found": True, "old": 0, "new": 2}]


def test_broken_metadata_is_a_fact_and_no_crash(root: Root, gather: Any) -> None:
    (root.path / SITE.lstrip("/") / "broken-1.0.dist-info").mkdir()
    root.write(f"{SITE}/odd-2.dist-info/METADATA", b"\xff\xfe\0nonsense")
    root.write(f"{SITE}/odd-2.dist-info/RECORD", b'"a\0b,\xff\n,,\n')
    root.write(f"{SITE}/old-3.egg-info", "Metadata-Version: 1.0\nName: old\nVersion: 3\n")
    facts = gather()
    assert [(entry["name"], entry["readable"]) for entry in facts["distributions"]] == [
        ("broken", False), ("odd", False), ("old", True),
    ]  # fmt: skip


def test_files_of_two_distributions_are_found_where_they_differ(root: Root, gather: Any) -> None:
    root.distribution(
        "triton", "3.2.0", {"triton/__init__.py": "one", "triton/same.py": "same", "tests/__init__.py": "x"}
    )
    root.distribution(
        "triton-ascend", "3.2.0", {"triton/__init__.py": "two", "triton/same.py": "same", "tests/__init__.py": "y"}
    )
    assert gather()["shared_files"] == [
        {"owners": ["triton", "triton-ascend"], "count": 1, "files": [f"{SITE}/triton/__init__.py"]}
    ]


def test_a_namespace_of_the_old_kind_is_shared_by_right(root: Root, gather: Any) -> None:
    for name in ("backports.one", "backports.two"):
        text = f"# {name}\n__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"
        root.distribution(name, "1", {"backports/__init__.py": text, f"{name.replace('.', '/')}.py": name})
    assert gather()["shared_files"] == []


def test_a_distribution_that_holds_a_sources_package_is_named(root: Root, gather: Any) -> None:
    root.distribution("megatron-core", "0.15", {"megatron/core/__init__.py": ""})
    source = {"name": "Megatron-LM", "path": "/Megatron-LM", "module": "megatron.core"}
    assert gather(sources=[source])["module_owners"] == {"megatron.core": ["megatron-core"]}


@pytest.mark.parametrize(
    ("files", "cuda_files", "version"),
    [
        ({"torch/version.py": "cuda: Optional[str] = None\n"}, 0, ""),
        ({"torch/version.py": "cuda: Optional[str] = '12.8'\nhip = None\n"}, 0, "12.8"),
        ({"torch/lib/libtorch_cuda.so": b"x", "torch/lib/libtorch_cpu.so": b"x"}, 1, ""),
    ],
)
def test_a_cuda_torch_is_told_from_its_files(
    root: Root, gather: Any, files: dict[str, str | bytes], cuda_files: int, version: str
) -> None:
    root.distribution("torch", "2.10.0", files)
    facts = gather()["torch"]
    assert (len(facts["cuda_files"]), facts["cuda_version"]) == (cuda_files, version)


@pytest.mark.parametrize(
    ("data", "abi"),
    [(b"GLIBCXX_3.4 _ZNSt7__cxx11", True), (b"GLIBCXX_3.4 _ZNSs", False), (b"nothing", None), (b"", None)],
)
def test_the_abi_of_torch_is_read_off_its_library(root: Root, gather: Any, data: bytes, abi: bool | None) -> None:
    root.distribution("torch", "2.10.0", {"torch/lib/libc10.so": data})
    assert gather()["torch"]["cxx11_abi"] is abi


# --- sources, without git


def test_a_checkout_tells_its_version_device_type_and_extensions(root: Root, gather: Any) -> None:
    root.write("/vllm-ascend/vllm_ascend/_version.py", "# file\n__version__ = version = '0.23.0'\n")
    root.write("/vllm-ascend/vllm_ascend/_build_info.py", "__device_type__ = 'A2'\n")
    root.write("/vllm-ascend/vllm_ascend/c.cpython-312.so", b"no ELF")
    source = {"name": "vllm-ascend", "path": "/vllm-ascend", "module": "vllm_ascend", "compiles": True}
    facts = gather(sources=[source])["sources"]["vllm-ascend"]
    assert (facts["version"], facts["device_type"], facts["git_error"]) == ("0.23.0", "A2", "it holds no .git")
    assert facts["extensions"] == [{"file": "/vllm-ascend/vllm_ascend/c.cpython-312.so", "machine": ""}]


def test_a_checkout_that_is_not_there_is_absent(gather: Any) -> None:
    assert gather(sources=[{"name": "vllm", "path": "/vllm", "module": "vllm"}])["sources"]["vllm"]["present"] is False


# --- CANN, one test for each layout


def cann(facts: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    found = facts["cann"]
    return (
        [entry["version"] for entry in found["toolkit"]],
        [entry["chip"] for entry in found["ops"]],
        [entry["version"] for entry in found["nnal"]],
    )


def test_the_layout_until_8_3(root: Root, gather: Any) -> None:
    old = f"{ASCEND}/ascend-toolkit/8.3.RC2"
    root.write(
        f"{old}/version.cfg",
        "# version: 1.0\nruntime_running_version=[7.6.0.1.220:8.3.RC2]\ncompiler_running_version=[7:8.3.RC2]\n",
    )
    root.write(
        f"{old}/aarch64-linux/ascend_toolkit_install.info",
        "package_name=Ascend-cann-toolkit\nversion=8.3.RC2\narch=aarch64\n",
    )
    root.write(
        f"{old}/aarch64-linux/ascend_kernels_install.info", "package_name=Atlas-A3-cann-kernels\nversion=8.3.RC2\n"
    )
    root.link(f"{ASCEND}/ascend-toolkit/latest", "8.3.RC2")
    root.write(f"{ASCEND}/nnal/atb/latest/version.info", "Ascend-cann-atb : 8.3.RC2\nPlatform : aarch64\n")
    home = f"{ASCEND}/ascend-toolkit/latest"
    assert cann(gather(cann_home=home)) == (["8.3.RC2"] * 3, ["A3"], ["8.3.RC2"])


def test_the_layout_from_8_5_on(root: Root, gather: Any) -> None:
    home = f"{ASCEND}/cann-8.5.1"
    root.write(f"{home}/x86_64-linux/ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=8.5.1\n")
    root.write(f"{home}/x86_64-linux/ascend_ops_install.info", "package_name=Ascend-cann-910b-ops\nversion=8.5.1\n")
    root.link(f"{ASCEND}/cann", "cann-8.5.1")
    root.write(f"{ASCEND}/nnal/atb/8.5.1/atb/x")
    root.link(f"{ASCEND}/nnal/atb/latest", "8.5.1")
    assert cann(gather(cann_home=home)) == (["8.5.1", "8.5.1"], ["910b"], ["8.5.1"])


def test_the_layout_of_a_9_x_without_install_files(root: Root, gather: Any) -> None:
    root.write(f"{ASCEND}/cann-9.2.0/lib64/x")
    root.link(f"{ASCEND}/cann", f"{ASCEND}/cann-9.2.0")
    assert cann(gather(cann_home="")) == (["9.2.0"], [], [])


def test_a_release_laid_over_another_is_found_where_the_link_still_leads(root: Root, gather: Any) -> None:
    for release in ("8.5.1", "8.5.2"):
        root.write(f"{ASCEND}/cann-{release}/x86_64-linux/ascend_toolkit_install.info", f"version={release}\n")
    root.link(f"{ASCEND}/cann", "cann-8.5.1")
    assert cann(gather(cann_home=f"{ASCEND}/cann-8.5.2"))[0] == ["8.5.2", "8.5.2", "8.5.1", "8.5.1"]


@pytest.mark.parametrize(
    ("package", "chip"),
    [
        ("Ascend-cann-910b-ops", "910b"),
        ("Ascend-cann-A3-ops", "A3"),
        ("Ascend-cann-kernels-310p", "310p"),
        ("Atlas-A3-cann-kernels", "A3"),
        ("something", ""),
    ],
)
def test_the_chip_of_an_operator_package(check: SimpleNamespace, package: str, chip: str) -> None:
    assert check.chip_of(package) == chip


@pytest.mark.parametrize(
    ("text", "releases"),
    [
        ("source /usr/local/Ascend/cann-8.5.1/share/info/ascendnpu-ir/bin/set_env.sh", ["8.5.1"]),
        ("/usr/local/Ascend/ascend-toolkit/8.3.RC2/lib64:/usr/local/Ascend/ascend-toolkit/latest", ["8.3.RC2"]),
        ("/usr/local/Ascend/cann-9.1.0-beta.1/bin", ["9.1.0-beta.1"]),
        ("/usr/local/Ascend/nnal/atb/8.5.2/atb/cxx_abi_1/lib /usr/local/Ascend/9.9.0.", ["8.5.2", "9.9.0"]),
        ("/usr/local/Ascend/driver/lib64 /usr/local/python3.12.13/bin", []),
    ],
)
def test_releases_are_read_off_paths(check: SimpleNamespace, text: str, releases: list[str]) -> None:
    assert check.releases_named(text) == releases


def test_stub_folders_are_those_that_are_there(check: SimpleNamespace, root: Root) -> None:
    home = f"{ASCEND}/cann-9.1.0"
    root.write(f"{home}/x86_64-linux/devlib/linux/x86_64/libascend_hal.so")
    tree = check.Tree(str(root.path))
    assert check.stub_folders(tree, {"cann_home": home}, "x86_64") == [
        f"{home}/x86_64-linux/devlib", f"{home}/x86_64-linux/devlib/linux/x86_64",
    ]  # fmt: skip
    stubs = {"LD_LIBRARY_PATH": f"{home}/x86_64-linux/devlib/linux/x86_64"}
    assert check.driver_present(tree, stubs) is False
    root.write(f"{ASCEND}/driver/lib64/driver/libascend_hal.so")
    assert check.driver_present(tree, stubs) is True


# --- start-up files


def test_start_up_files_tell_releases_and_scripts(root: Root, gather: Any) -> None:
    root.write(
        "/etc/profile",
        "# source /usr/local/Ascend/cann-8.3.RC1/set_env.sh\n"
        "if [ -f /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi\n"
        'for i in /etc/profile.d/*.sh; do . "$i"; done\n'
        "source /usr/local/Ascend/cann-8.5.1/x/set_env.sh\n",
    )
    root.write("/etc/profile.d/a.sh", '. "/usr/local/Ascend/nnal/atb/set_env.sh" --cxx_abi=1\n')
    facts = {
        entry["file"]: entry for entry in gather(entrypoint=["bash", "-c", "source /x/set_env.sh && exec"])["startup"]
    }
    assert facts["/etc/profile"]["releases"] == ["8.5.1"]
    assert facts["/etc/profile"]["scripts"] == [
        {"path": "/etc/bash.bashrc", "guarded": True},
        {"path": "/usr/local/Ascend/cann-8.5.1/x/set_env.sh", "guarded": False},
    ]
    assert facts["/etc/profile.d/a.sh"]["scripts"][0]["path"] == "/usr/local/Ascend/nnal/atb/set_env.sh"
    assert facts["ENTRYPOINT"]["scripts"] == [{"path": "/x/set_env.sh", "guarded": False}]


def test_a_dead_path_is_given_with_what_lies_beside_it(check: SimpleNamespace, root: Root) -> None:
    root.write(f"{ASCEND}/cann-9.9.0/lib64/x")
    root.write(f"{ASCEND}/nnal/x")
    tree = check.Tree(str(root.path))
    assert check.one_path(tree, f"{ASCEND}/9.9.0/lib64/plugin") == {
        "exists": False,
        "real": f"{ASCEND}/9.9.0/lib64/plugin",
        "missing": f"{ASCEND}/9.9.0",
        "near": f"{ASCEND}/cann-9.9.0",
    }
    assert check.one_path(tree, f"{ASCEND}/cann-9.9.0/lib64") == {"exists": True, "real": f"{ASCEND}/cann-9.9.0/lib64"}


# --- settings and leftovers

BAD_SETTINGS = [
    ("/root/.config/pip/pip.conf", "[global]\ntrusted-host = mirror.example\n", "tls"),
    ("/root/.config/uv/uv.toml", 'allow-insecure-host = ["mirror.example"]\n', "tls"),
    ("/root/.gitconfig", "[http]\n\tsslVerify = false\n", "tls"),
    ("/vllm/.git/config", "[http]\n\tsslverify = 0\n", "tls"),
    ("/etc/apt/apt.conf.d/99x", 'Acquire::https::Verify-Peer "false";\n', "tls"),
    ("/etc/apt/sources.list", "deb [trusted=yes] http://deb.example stable main\n", "tls"),
    ("/etc/dnf/dnf.conf", "[main]\nsslverify=False\n", "tls"),
    ("/root/.curlrc", "insecure\n", "tls"),
    ("/root/.wgetrc", "check_certificate = off\n", "tls"),
    ("/root/.npmrc", "strict-ssl=false\n", "tls"),
    ("/root/.bashrc", "export GIT_SSL_NO_VERIFY=1\n", "tls"),
    ("/etc/pip.conf", "[global]\nproxy = http://proxy.example\n", "proxy"),
    ("/etc/gitconfig", "[http]\n\tproxy = http://proxy.example\n", "proxy"),
    ("/etc/apt/apt.conf.d/80proxy", 'Acquire::http::Proxy "http://proxy.example:3128";\n', "proxy"),
    ("/etc/yum.conf", "proxy=http://proxy.example\n", "proxy"),
    ("/etc/environment", "https_proxy=http://proxy.example\n", "proxy"),
    ("/root/.wgetrc", "https_proxy = http://proxy.example\n", "proxy"),
    ("/etc/pip.conf", "[global]\nextra-index-url = https://mirror.example\n", "index"),
    ("/etc/uv/uv.toml", '[[index]]\nurl = "https://mirror.example"\n', "index"),
    ("/root/.gitconfig", '[url "https://mirror.example/"]\n\tinsteadOf = https://github.com/\n', "index"),
    ("/vllm/.git/config", '[remote "origin"]\n\turl = https://me:secret@git.example/x\n', "secret"),
    ("/vllm/.git/config", '[http "https://git.example/"]\n\textraheader = AUTHORIZATION: basic c2VjcmV0\n', "secret"),
    ("/root/.npmrc", "//npm.example/:_authToken=secret\n", "secret"),
]  # fmt: skip
GOOD_SETTINGS = [
    ("/root/.config/pip/pip.conf", "[global]\n# trusted-host = mirror.example\nno-cache-dir = true\n"),
    ("/root/.gitconfig", "[http]\n\tsslVerify = true\n[user]\n\tname = x\n"),
    ("/vllm/.git/config", '[remote "origin"]\n\turl = https://github.com/vllm-project/vllm\n'),
    ("/etc/apt/apt.conf.d/99x", 'Acquire::https::Verify-Peer "1";//A::http::Proxy "x";\nAcquire::http::Proxy "false";'),
    ("/etc/apt/sources.list", "deb [signed-by=/x] http://deb.example stable main\n# deb [trusted=yes] …\n"),
    ("/etc/dnf/dnf.conf", "[main]\nsslverify=1\nproxy=\n"),
    ("/etc/wgetrc", "#https_proxy = http://proxy.example/\n#check_certificate = off\n"),
    ("/etc/environment", 'PATH="/usr/bin"\n'),
]  # fmt: skip
SOURCES = [{"name": "vllm", "path": "/vllm", "module": "vllm"}]


@pytest.mark.subprocess
@pytest.mark.parametrize(("file", "text", "kind"), BAD_SETTINGS)
def test_a_setting_that_must_not_stay_is_found_and_no_secret_is_shown(
    root: Root, gather: Any, file: str, text: str, kind: str
) -> None:
    root.write(file, text)
    found = gather(sources=SOURCES)["settings"]
    assert [(fact["kind"], fact["file"]) for fact in found] == [(kind, file)]
    assert "secret" not in found[0]["line"]
    assert "c2VjcmV0" not in found[0]["line"]
    assert found[0]["line"].split(" ")[0] in text


@pytest.mark.subprocess
@pytest.mark.parametrize(("file", "text"), GOOD_SETTINGS)
def test_a_harmless_setting_is_left_alone(root: Root, gather: Any, file: str, text: str) -> None:
    root.write(file, text)
    assert gather(sources=SOURCES)["settings"] == []


def test_every_rule_for_settings_finds_one_of_the_examples(check: SimpleNamespace) -> None:
    for rule in check.SETTINGS:
        assert any(
            kind == rule.kind
            and any(fnmatch.fnmatch(file, pattern) for pattern in (*rule.files, "/vllm/.git/config"))
            and re.search(rule.pattern, text, re.MULTILINE | re.IGNORECASE)
            for file, text, kind in BAD_SETTINGS
        ), rule


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/root/.cache/uv/archive/x", "a cache"),
        ("/root/.cache/pip/http/x", "a cache"),
        ("/var/cache/apt/archives/x.deb", "a cache"),
        ("/var/lib/apt/lists/deb.example_dists", "a cache"),
        ("/out/usr/x", "a directory of the build"),
        ("/Ascend-cann-toolkit_8.5.2_linux-x86_64.run", "a CANN package"),
        ("/tmp/pip-build-x/y", "a directory of the build"),
        ("/tmp/x.whl", "a wheel"),
        ("/root/.netrc", "secret"),
        ("/run/secrets/ca", "secret"),
    ],
)
def test_a_leftover_is_found(root: Root, gather: Any, file: str, kind: str) -> None:
    root.write(file, "x")
    assert [fact["kind"] for fact in gather()["leftovers"]] == [kind]


def test_empty_caches_locks_and_our_own_report_are_no_leftovers(check: SimpleNamespace, root: Root) -> None:
    (root.path / "root/.cache/uv").mkdir(parents=True)
    root.write("/var/cache/apt/archives/lock")
    (root.path / "var/cache/apt/archives/partial").mkdir()
    root.write("/out/opt/ascend-images/report.json")
    tree = check.Tree(str(root.path))
    assert check.leftovers(tree, {}, "/out/opt/ascend-images") == []
    assert [fact["path"] for fact in check.leftovers(tree, {}, "")] == ["/out"]


# --- environment


def test_an_environment_is_shown_without_secrets_and_without_what_varies(check: SimpleNamespace) -> None:
    environment = {"PWD": "/x", "HOSTNAME": "h", "TARGETARCH": "amd64", "UNLOCKED": "", "B": "2", "A": "1"}
    environment |= {"BASH_FUNC_which%%": "() { :; }", "HF_TOKEN": "secret", "EMPTY_TOKEN": ""}
    shown = check.shown({**environment, "HTTPS_PROXY": "http://me:secret@proxy.example:3128"})
    assert list(shown) == ["A", "B", "EMPTY_TOKEN", "HF_TOKEN", "HTTPS_PROXY"]
    assert "secret" not in json.dumps(shown)


#: Shapes of tokens, none of them anybody's.
TOKENS = (
    "sk-" + "a1" * 12, "ghp_" + "a1" * 18, "github_pat_" + "a1" * 15, "hf_" + "aB" * 17, "glpat-" + "a1" * 10,
    "AKIA" + "A1" * 8, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "npm_" + "a1" * 18, "Bearer " + "a1" * 12,
    "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_KEY", "HF_AUTH", "PASSPHRASE", "SSH_PRIVATE", "DB_PWD", "GITHUB_PAT", "MY_PASS", "API_KEY", "apikey"),
        *("AWS_SECRET_ACCESS_KEY", "AUTH_HEADER", "MODELSCOPE_API_TOKEN", "DOCKER_PASSWORD", "SESSION_COOKIE", "CREDS"),
    ],
)
def test_a_variable_whose_name_promises_a_secret_is_hidden(check: SimpleNamespace, name: str) -> None:
    assert check.shown({name: "x1"}) == {name: "(hidden)"}


@pytest.mark.parametrize("token", TOKENS)
def test_a_secret_is_hidden_by_its_shape_wherever_it_stands(check: SimpleNamespace, token: str) -> None:
    text = check.without_secrets(f"before {token} after")
    assert "(hidden)" in text
    assert token.rsplit(maxsplit=1)[-1] not in text
    assert text.startswith("before ")
    assert token not in check.shown({"ARGS": f"--x={token}"})["ARGS"]


def test_what_only_looks_like_a_secret_is_shown(check: SimpleNamespace) -> None:
    plain = {"TOKENIZERS_PARALLELISM": "false", "GIT_CONFIG_KEY_0": "http.sslverify", "COMPASS": "x",
             "PATH": "/task-a/b",
             "ATB_COMPARE_TILING_EVERY_KERNEL": "0", "MONKEY": "1", "BASICS": "basic initialization", "AUTHOR": "me",
             "LD_LIBRARY_PATH": "/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_1/lib"}  # fmt: skip
    assert check.shown(plain) == plain


def test_a_proxy_that_the_engine_gave_is_no_part_of_the_image(check: SimpleNamespace) -> None:
    given = {"HTTPS_PROXY": "http://p:1", "https_proxy": "http://p:1", "NO_PROXY": "x", "no_proxy": "x"}
    assert check.shown(given) == {}
    assert check.shown({"http_proxy": "http://p:1", "HTTP_PROXY": "http://q:1", "ftp_proxy": "http://p:1"}) == {
        "HTTP_PROXY": "http://q:1", "ftp_proxy": "http://p:1", "http_proxy": "http://p:1",
    }  # fmt: skip


@pytest.mark.parametrize(
    "env",
    [
        {"GIT_SSL_NO_VERIFY": "1"},
        {"PIP_TRUSTED_HOST": "mirror.example"},
        {"PYTHONHTTPSVERIFY": "0"},
        {"NODE_TLS_REJECT_UNAUTHORIZED": "0"},
        {"UV_INSECURE_HOST": "mirror.example"},
        {"CURL_CA_BUNDLE": ""},
        {"GIT_CONFIG_KEY_0": "http.sslVerify", "GIT_CONFIG_VALUE_0": "false"},
    ],
)
def test_every_way_to_switch_tls_off_is_known(check: SimpleNamespace, env: dict[str, str]) -> None:
    assert check.tls_off(env) == [next(iter(env))]


def test_tls_that_is_on_is_no_finding(check: SimpleNamespace) -> None:
    on = {"GIT_SSL_NO_VERIFY": "false", "PYTHONHTTPSVERIFY": "1", "CURL_CA_BUNDLE": "/etc/ca.pem",
          "GIT_CONFIG_KEY_0": "http.sslVerify", "GIT_CONFIG_VALUE_0": "true"}  # fmt: skip
    assert check.tls_off(on) == []


# --- small tools


@pytest.mark.parametrize(
    ("demand", "same"),
    [
        ("numpy>=2", ("numpy", ">=2")),
        ("NumPy (<2,>=1.0)", ("numpy", "<2,>=1.0")),
        ("numpy >=1.0, <2 ; python_version >= '3.9'", ("numpy", "<2,>=1.0")),
        ("torch_npu[x]==2.9.0", ("torch-npu", "==2.9.0")),
        ("triton", ("triton", "")),
    ],
)
def test_demands_are_compared_whatever_their_spelling(
    check: SimpleNamespace, demand: str, same: tuple[str, str]
) -> None:
    assert check.same_demand(demand) == same


@pytest.mark.parametrize(
    ("pin", "exact"), [("2.9.0", "2.9.0"), ("==2.9.0", "2.9.0"), (">=0.19", ""), ("2.9.*", ""), ("<1,>0", ""), ("", "")]
)
def test_an_exact_pin_is_told_from_a_range(check: SimpleNamespace, pin: str, exact: str) -> None:
    assert check.plain_version(pin) == exact


def test_a_lock_is_read_and_nonsense_is_refused(check: SimpleNamespace) -> None:
    lock = check.parse_lock(
        '# platform: linux/arm64\n# conflict: {"whose": "a", "demand": "b"}\nfoo_bar==1.0 \\\n    --hash=sha256:0\n'
    )
    assert (lock.platform, lock.packages, len(lock.conflicts)) == ("linux/arm64", {"foo-bar": "1.0"}, 1)
    odd = ("{}", "nonsense", '{"whose": 1, "demand": 2}', "[" * 100_000)
    for text in ("", *(f"# conflict: {conflict}\nx==1\n" for conflict in odd)):
        with pytest.raises(ValueError, match=r"."):
            check.parse_lock(text)


@given(st.text())
def test_no_text_crashes_the_readers(check: SimpleNamespace, text: str) -> None:
    check.same_demand(text)
    check.releases_named(text)
    check.startup_text(text)
    check.info(text)
    check.chip_of(text)
    check.assigned(text, "__version__")
    check.record_files("/x", text)
    check.json_object(text)


# --- the command, over an unpacked image


@pytest.fixture
def unpacked(root: Root) -> Root:
    """An image without a fault that files can show."""
    root.write("/etc/os-release", 'ID=ubuntu\nVERSION_ID="22.04"\n')
    root.distribution("torch", "2.10.0+cpu", {"torch/__init__.py": ""}, INSTALLER="uv")
    root.distribution("torch-npu", "2.10.0", {"torch_npu/__init__.py": ""}, "torch==2.10.0", INSTALLER="uv")
    root.write(f"{ASCEND}/cann-9.1.0/x86_64-linux/ascend_toolkit_install.info", "version=9.1.0\n")
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + b"\x02\x00\x3e\x00"
    root.write(f"{HOME}/bin/python3", head)
    pins = {"torch": "2.10.0+cpu", "torch_npu": "2.10.0"}
    image = {**IMAGE, "os": "ubuntu22.04", "platforms": ["amd64"], "packages": {"amd64": pins}, "chip": "910b",
             "cann_home": f"{ASCEND}/cann-9.1.0"}  # fmt: skip
    root.write("/opt/ascend-images/image.json", json.dumps(image))
    root.write("/opt/ascend-images/lock.txt", "# platform: linux/amd64\ntorch==2.10.0+cpu\ntorch-npu==2.10.0\n")
    return root


def test_the_command_passes_an_unpacked_image_and_writes_the_same_report_twice(
    check: SimpleNamespace, unpacked: Root, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = [tmp_path / "reports/one.json", tmp_path / "reports/two.json"]
    codes = [check.main(["--root", str(unpacked.path), "--report", str(report)]) for report in reports]
    assert codes == [0, 0]
    assert reports[0].read_bytes() == reports[1].read_bytes()
    document = json.loads(reports[0].read_text())
    assert (document["schema"], document["variant"]) == (1, "a2")
    assert set(document["results"][0]) == {"check", "answer", "subject", "found", "wanted", "next"}
    assert {row["answer"] for row in document["results"]} == {"pass", "unknown", "not run"}
    assert str(tmp_path) not in reports[0].read_text()
    assert "0 fail" in capsys.readouterr().out


def test_the_command_tells_failures_first_and_ends_with_5(
    check: SimpleNamespace, unpacked: Root, capsys: pytest.CaptureFixture[str]
) -> None:
    (unpacked.path / SITE.lstrip("/") / "torch_npu/__init__.py").unlink()
    unpacked.write("/root/.cache/pip/x")
    assert check.main(["--root", str(unpacked.path)]) == 5
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "FAIL     damaged-packages: torch-npu"
    assert lines[1].startswith("         found:  torch-npu is damaged: 1 of 4 files missing")
    assert [line.split()[0] for line in lines if line[:1].isalpha()][:3] == ["FAIL", "FAIL", "unknown"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--root", "/nonexistent"], "/nonexistent is not a directory"),
        (["--image-json", "/nonexistent/image.json"], "/nonexistent/image.json cannot be read"),
        (["--lock", "/nonexistent/lock.txt"], "/nonexistent/lock.txt cannot be read"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_wrong_use_ends_with_2_and_says_why(
    check: SimpleNamespace, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check.main(words) == 2
    assert said in capsys.readouterr().err


ODD_IMAGES = [
    "nonsense", "[]", '{"schema": 2}', '{"schema": true}', "[" * 100_000,
    '{"schema": 1, "x": ' + "[" * 50 + "]" * 50 + "}",
    *(json.dumps({"schema": 1, **odd}) for odd in (
        {"packages": []}, {"packages": {"amd64": {"torch": 2}}}, {"sources": 5}, {"sources": [5]}, {"sources": [{}]},
        {"sources": [{"name": "vllm", "path": 5}]}, {"sources": [{"name": "vllm", "path": "/a\0b"}]},
        {"sources": [{"name": "vllm", "checks": "x"}]}, {"patches": [{"file": "x"}]}, {"env": {"A": 1}}, {"env": "x"},
        {"cann_scripts": [""]}, {"cann": 9}, {"python_home": None}, {"exclude": ["x"]}, {"checks": {"a": 1}},
        {"variant": "\ud800"}, {"entrypoint": [1]}, {"platforms": "amd64"},
    )),
]  # fmt: skip


@pytest.mark.parametrize("text", ODD_IMAGES)
def test_an_unreadable_image_json_ends_with_2(
    check: SimpleNamespace, unpacked: Root, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unpacked.write("/opt/ascend-images/image.json", text)
    assert check.main(["--root", str(unpacked.path)]) == 2
    assert "/opt/ascend-images/image.json" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_ends_with_2(check: SimpleNamespace, unpacked: Root) -> None:
    unpacked.write("/file", "x")
    assert check.main(["--root", str(unpacked.path), "--report", str(unpacked.path / "file" / "report.json")]) == 2


def test_the_list_of_checks_is_printed(check: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["--list"]) == 0
    out = capsys.readouterr().out
    assert all(one.id in out for one in check.CHECKS)


def test_the_list_tells_how_each_check_is_mended(check: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["--list"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n    mended: {one.mend}" in out for one in check.CHECKS)


def test_the_report_can_be_printed_in_place_of_the_table(
    check: SimpleNamespace, unpacked: Root, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "reports/one.json"
    assert check.main(["--root", str(unpacked.path), "--json", "--report", str(report)]) == 0
    assert capsys.readouterr().out == report.read_text()


# --- facts for somebody else to judge


def test_facts_are_written_with_the_texts_that_the_image_holds_and_nothing_is_judged(
    check: SimpleNamespace, unpacked: Root, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (unpacked.path / SITE.lstrip("/") / "torch_npu/__init__.py").unlink()  # a check would fail
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**IMAGE, "variant": "other"}))
    file = tmp_path / "documents/facts.json"
    words = ["--root", str(unpacked.path), "--facts", str(file)]
    assert check.main([*words, "--image-json", str(other)]) == 0
    document = json.loads(file.read_text())
    assert set(document) == {"schema", "facts", "image", "lock"}
    assert (document["schema"], document["lock"]) == (1, (unpacked.path / "opt/ascend-images/lock.txt").read_text())
    assert json.loads(document["image"])["variant"] == "a2"
    assert named(document["facts"], "torch-npu")["record"]["missing_count"] == 1
    assert capsys.readouterr().out == ""
    before = file.read_bytes()
    assert check.main([*words, "--image-json", str(other)]) == 0
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["facts.json"]


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"schema": 2}', "\udcff"])
def test_facts_are_written_whatever_the_image_holds_for_pins(
    check: SimpleNamespace, unpacked: Root, tmp_path: Path, text: str
) -> None:
    for name in ("image.json", "lock.txt"):
        unpacked.write(f"/opt/ascend-images/{name}", text.encode(errors="surrogateescape"))
    assert check.main(["--root", str(unpacked.path), "--facts", str(tmp_path / "facts.json")]) == 0
    document = json.loads((tmp_path / "facts.json").read_text())
    assert document["image"] == document["lock"] == text.encode(errors="surrogateescape").decode(errors="replace")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--facts", "x", "--report", "y"], "leave out --report"),
        (["--facts", "x", "--json"], "leave out --report and --json"),
        (["--root", "{root}", "--npu"], "leave out --root"),
        (["--root", "{root}", "--devices", "0"], "leave out --root"),
        (["--model", "/nonexistent/model"], "no such directory here"),
        (["--facts", "{root}/file/facts.json", "--root", "{root}"], "cannot be written"),
    ],
)
def test_words_that_make_no_sense_together_end_with_2(
    check: SimpleNamespace, unpacked: Root, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unpacked.write("/file", "x")
    assert check.main([word.format(root=unpacked.path) for word in words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "a", "0,", "-1", "1-0", "0;1", "99999"])
def test_devices_that_are_no_numbers_are_refused(
    check: SimpleNamespace, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        check.main([f"--devices={text}"])
    assert ended.value.code == 2
    assert "wanted numbers of /dev/davinciN" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "npu", "devices"),
    [
        ([], False, ()),
        (["--npu"], True, ()),
        (["--devices", "0, 2-4,2"], True, (0, 2, 3, 4)),
        (["--require-npu"], True, ()),
        (["--model", "/m"], True, ()),
    ],
)
def test_what_is_asked_of_npus(check: SimpleNamespace, words: list[str], npu: bool, devices: tuple[int, ...]) -> None:
    asked = check.asked_of_npus(check.options_of(words))
    assert (asked.npu, asked.devices, asked.device, asked.backend) == (npu, devices, "npu", "hccl")
    assert json.loads(json.dumps(asked.facts())) == asked.facts()


# --- NPUs


def test_where_there_is_no_npu_the_facts_are_empty(gather: Any) -> None:
    facts = gather()
    assert facts["user"] is None
    assert facts["devices"]["nodes"] == []
    assert facts["driver_files"] == {"paths": {}, "version": {}, "install": {}}
    assert facts["npu_smi"] == {"path": "", "directory": "", "code": None, "text": "", "board": None}
    assert facts["probe"] is None


def test_nodes_are_gathered_with_whether_this_user_may_use_them(
    check: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_node, closed = tmp_path / "open", tmp_path / "closed"
    open_node.touch()
    host = {
        "nodes": [{"path": str(path), "mode": 0o660, "uid": 0, "gid": 0} for path in (open_node, closed)],
        "paths": {"/usr/local/Ascend/driver/lib64": "dir"},
        "driver": {"version": "25.2.0"},
        "install": {},
    }
    monkeypatch.setattr("ascend_images.inside.facts.npu.host_gather", lambda root, ask: host)
    facts = check.npu_facts(check.Tree(), {"ASCEND_VISIBLE_DEVICES": "", "HOME": "/root"})
    assert [node["usable"] for node in facts["devices"]["nodes"]] == [True, False]
    assert facts["devices"]["visible"] == {"ASCEND_VISIBLE_DEVICES": "", "ASCEND_RT_VISIBLE_DEVICES": None}
    assert facts["driver_files"] == {"paths": host["paths"], "version": host["driver"], "install": {}}
    assert set(facts["user"]) == {"uid", "gid", "groups", "name"}


def test_a_user_without_a_passwd_entry_has_no_name(check: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 54321)
    assert (check.user_facts()["uid"], check.user_facts()["name"]) == (54321, "")


@given(st.lists(st.integers(0, 999), unique=True))
def test_npus_are_numbered_as_their_nodes(check: SimpleNamespace, numbers: list[int]) -> None:
    names = [f"davinci{number}" for number in numbers] + ["davinci_manager", "davinci_manager_docker", "hisi_hdc"]
    nodes = [{"path": f"/dev/{name}"} for name in names]
    assert check.npu_numbers(nodes) == sorted(numbers)


def test_npu_smi_is_found_wherever_it_lies_and_a_directory_of_its_name_is_told(
    check: SimpleNamespace, root: Root
) -> None:
    tree = check.Tree(str(root.path))
    for place in reversed(check.NPU_SMI_PATHS):
        root.write(place, "#!/bin/sh\n")
        assert check.npu_smi_facts(tree, run_it=True)["path"] == place
    (root.path / "usr/local/bin/npu-smi").unlink()
    (root.path / "usr/local/bin/npu-smi").mkdir()
    facts = check.npu_smi_facts(tree, run_it=True)
    assert (facts["path"], facts["directory"]) == ("/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi")
    assert facts["code"] is None  # the programs of an unpacked image do not run


def test_what_vllm_ascend_was_built_for_is_read_from_a_wheel_and_from_a_checkout(root: Root, gather: Any) -> None:
    text = '__soc_version__ = "ASCEND910B1"\n__device_type__ = "A2"\n'
    root.distribution("vllm_ascend", "0.23.0", {"vllm_ascend/_build_info.py": text})
    assert gather()["built_for"] == {"file": f"{SITE}/vllm_ascend/_build_info.py", "device_type": "A2"}
    (root.path / SITE.lstrip("/") / "vllm_ascend/_build_info.py").unlink()
    assert gather()["built_for"] == {"file": "", "device_type": ""}
    url = {"url": "file:///vllm-ascend", "dir_info": {"editable": True}}
    root.write(f"{SITE}/vllm_ascend-0.23.0.dist-info/direct_url.json", json.dumps(url))
    root.write("/vllm-ascend/vllm_ascend/_build_info.py", text)
    assert gather()["built_for"] == {"file": "/vllm-ascend/vllm_ascend/_build_info.py", "device_type": "A2"}
