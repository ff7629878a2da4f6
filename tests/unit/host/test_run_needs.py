"""The managers' nodes and the driver's files: exactly those that the host has, and what stops without them."""

import pytest

from ascend_images.errors import MissingTool
from ascend_images.host.needs import driver_files, nodes_for, opened_nodes
from tests.run_kit import DRIVER, FILES, MANAGERS, a5_host, host, nodes

A5_NODES = ("/dev/davinci0", "/dev/davinci_manager", "/dev/hisi_hdc")


def targets(mounts: tuple) -> list[str]:
    return [mount.target for mount in mounts]


@pytest.mark.parametrize("family", ["A2", "A3", "310P", "910", "unknown"])
def test_chips_come_with_their_three_managers(family: str) -> None:
    assert nodes_for((0, 1), host(2), family) == ("/dev/davinci0", "/dev/davinci1", *MANAGERS)


@pytest.mark.parametrize("name", MANAGERS)
@pytest.mark.parametrize("family", ["A2", "unknown"])
def test_a_missing_manager_is_named(name: str, family: str) -> None:
    with pytest.raises(MissingTool, match=f"this host has no {name}\n"):
        nodes_for((0,), host(without=name), family)


def test_every_missing_node_is_named_at_once() -> None:
    with pytest.raises(MissingTool, match="no /dev/davinci0, /dev/davinci_manager, /dev/devmm_svm, /dev/hisi_hdc"):
        nodes_for((0,), host(nodes=()), "A2")


@pytest.mark.parametrize("family", ["950", "unknown"])
def test_a_950_has_a_bus_and_needs_no_svm(family: str) -> None:
    assert nodes_for((0,), a5_host(), family) == (*A5_NODES, "/dev/ummu", "/dev/uburma")


def test_a_950_without_a_bus_is_a_card_of_its_own() -> None:
    assert nodes_for((0,), host(nodes=nodes(*A5_NODES)), "950") == A5_NODES
    with pytest.raises(MissingTool, match="devmm_svm"):
        nodes_for((0,), host(nodes=nodes(*A5_NODES)), "unknown")


def test_a_folder_of_nodes_is_opened_node_by_node() -> None:
    paths = nodes_for((0,), a5_host(), "950")
    assert [node.path for node in opened_nodes(paths, a5_host())] == [*A5_NODES, "/dev/ummu", "/dev/uburma/udma0"]


def test_what_the_host_has_is_mounted_read_only() -> None:
    mounts, notes = driver_files(host(), "A2")
    assert sorted(targets(mounts)) == sorted(FILES)
    assert all(mount.read_only and mount.source == mount.target for mount in mounts)
    assert {mount.target: mount.kind for mount in mounts} == FILES
    assert notes == ()


@pytest.mark.parametrize("name", sorted(set(FILES) - {f"{DRIVER}/lib64", "/usr/local/dcmi"}))
def test_what_the_host_lacks_is_not_mounted_and_is_told(name: str) -> None:
    mounts, notes = driver_files(host(without=name), "A2")
    assert targets(mounts) == [path for path in targets(driver_files(host(), "A2")[0]) if path != name]
    assert len(notes) == 1
    assert name.rpartition("/")[2] in notes[0]


@pytest.mark.parametrize("name", ["/usr/local/bin/npu-smi", "/etc/ascend_install.info", f"{DRIVER}/version.info"])
def test_a_folder_where_a_file_should_be_is_not_mounted(name: str) -> None:
    mounts, notes = driver_files(host(paths={**FILES, name: "dir"}, npu_smi=""), "A2")
    assert name not in targets(mounts)
    assert [f"{name} is a folder, which docker makes for a missing file" in note for note in notes] == [True]


@pytest.mark.parametrize("kind", ["", "file"])
def test_without_the_drivers_libraries_nothing_is_started(kind: str) -> None:
    paths = {**FILES, f"{DRIVER}/lib64": kind} if kind else {k: v for k, v in FILES.items() if "lib64" not in k}
    with pytest.raises(MissingTool, match=f"no {DRIVER}/lib64, so torch_npu would not find libascend_hal.so"):
        driver_files(host(paths=paths), "A2")


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/usr/local/sbin/npu-smi", "/usr/local/sbin/npu-smi"),
        ("/usr/sbin/npu-smi", "/usr/sbin/npu-smi"),
        (f"{DRIVER}/tools/npu-smi", "/usr/local/bin/npu-smi"),
    ],
)
def test_npu_smi_is_found_wherever_it_lies_and_gets_into_path(path: str, target: str) -> None:
    files = {name: kind for name, kind in FILES.items() if "npu-smi" not in name}
    mounts, notes = driver_files(host(paths={**files, path: "file"}, npu_smi=path), "A2")
    assert [(mount.source, mount.target) for mount in mounts if "npu-smi" in mount.target] == [(path, target)]
    assert notes == ()


def test_a_driver_installed_elsewhere_is_mounted_where_images_look_for_it() -> None:
    elsewhere = {name.replace("/usr/local/Ascend", "/opt/npu"): kind for name, kind in FILES.items()}
    facts = host(paths=elsewhere, install={"driver_install_path_param": "/opt/npu"})
    mounts, notes = driver_files(facts, "A2")
    assert {mount.source: mount.target for mount in mounts}["/opt/npu/driver/lib64"] == f"{DRIVER}/lib64"
    assert notes == ()


def test_a_record_of_a_driver_that_is_not_there_does_not_count() -> None:
    mounts, _ = driver_files(host(install={"driver_install_path_param": "/opt/npu"}), "A2")
    assert f"{DRIVER}/lib64" in {mount.source for mount in mounts}


def test_tools_and_settings_for_several_nodes_are_mounted_where_they_are() -> None:
    more = {f"{DRIVER}/tools/hccn_tool": "file", f"{DRIVER}/topo": "dir", "/etc/hccn.conf": "file"}
    mounts, _ = driver_files(host(paths={**FILES, **more, "/etc/hixlep": "dir"}), "A3")
    assert set(targets(mounts)) == {*FILES, *more}


def test_a_950_gets_the_whole_drivers_folder_and_its_own_settings() -> None:
    mounts, _ = driver_files(a5_host(), "950")
    assert targets(mounts) == [
        DRIVER, "/usr/local/dcmi", "/etc/ascend_install.info", "/etc/hixlep", "/lib/route.conf",
        "/usr/local/bin/npu-smi",
    ]  # fmt: skip


def test_the_ascend_runtime_brings_what_it_brings() -> None:
    mounts, notes = driver_files(host(), "A2", by_runtime=True)
    assert targets(mounts) == [f"{DRIVER}/version.info", "/etc/ascend_install.info"]
    assert notes == ()
