"""The plan of a run as a whole: what a container gets from a host, and when there is none."""

from typing import Any

import pytest
from docker.models.containers import _create_container_args
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ascend_images.errors import AscendImagesError, BadInput, MissingTool
from ascend_images.host.docker_command import docker_words
from ascend_images.host.facts import EngineFacts, HostFacts
from ascend_images.host.plan import RunPlan, container_arguments, plan_pod, plan_run
from ascend_images.host.ports import parse_ports
from ascend_images.host.request import Mount, RunRequest
from tests.run_kit import FILES, MANAGERS, PASSWD, a5_host, engine, host, nodes, request

MODELS = Mount("/data/models", "/models", read_only=False)
ASCEND = engine(runtimes=("ascend", "runc"))
ASCEND_DEFAULT = engine(runtimes=("ascend", "runc"), default="ascend")


def plan(
    asked: RunRequest | None = None,
    facts: HostFacts | None = None,
    known: EngineFacts | None = None,
    passwd: str | None = PASSWD,
    family: str = "A2",
    **more: Any,
) -> RunPlan:
    return plan_run(asked or request(**more), facts or host(2), known or engine(), passwd, family)


def devices(made: RunPlan) -> list[str]:
    return [device.host for device in made.devices]


# --- the host's part --------------------------------------------------------------------------------------------------


def test_a_container_gets_its_nodes_and_every_file_of_the_driver_that_is_there() -> None:
    made = plan(facts=host(1))
    assert devices(made) == ["/dev/davinci0", *MANAGERS]
    assert sorted(mount.target for mount in made.mounts) == sorted(FILES)
    assert (made.numbers, made.count, made.shm_size) == ((0,), 1, "1g")
    assert (made.groups, made.runtime, made.env, made.privileged, made.notes) == ((), "", {}, False, ())


@pytest.mark.parametrize("name", ["/dev/hisi_hdc", "/dev/davinci_manager", "/dev/devmm_svm"])
def test_a_node_that_is_not_there_stops_it(name: str) -> None:
    with pytest.raises(MissingTool, match=f"no {name}"):
        plan(facts=host(1, without=name))


def test_below_another_root_host_paths_change_and_container_paths_do_not() -> None:
    made = plan(facts=host(1, root="/tmp/host/"), known=ASCEND_DEFAULT)
    assert (made.devices[0].host, made.devices[0].container) == ("/tmp/host/dev/davinci0", "/dev/davinci0")
    assert {m.source for m in made.mounts} == {f"/tmp/host{m.target}" for m in made.mounts}
    assert made.runtime == ""
    assert made.env == {}


def test_a_container_without_npus_gets_nothing_of_the_host() -> None:
    made = plan(request(devices="none", user="65534"), HostFacts(), family="unknown")
    assert (made.devices, made.mounts, made.groups, made.shm_size, made.notes) == ((), (), (), "", ())


def test_a_busy_device_is_refused_and_nothing_is_made_of_privileges() -> None:
    with pytest.raises(MissingTool, match="NPU 1 is in use by container other") as error:
        plan(devices="1", known=engine(("other", 1)))
    assert "privileged" not in str(error.value)
    assert not plan(devices="0", known=engine(("other", 1))).privileged


# --- does the image fit the host? -------------------------------------------------------------------------------------


def test_an_image_for_other_chips_is_refused_with_the_variant_that_fits() -> None:
    with pytest.raises(BadInput, match="demo:a2 is for A2, and the chips of this host are A3") as error:
        plan(siblings={"A3": "a3"}, family="A3")
    assert error.value.do == "invoke run --variant a3"
    with pytest.raises(BadInput) as error:
        plan(family="950")
    assert error.value.do == "invoke variants"


def test_an_image_for_another_architecture_is_refused() -> None:
    with pytest.raises(BadInput, match="is for aarch64, and this host is x86_64"):
        plan(machine="aarch64", facts=host(1, machine="x86_64"))
    assert plan(machine="aarch64", facts=host(1, machine="aarch64"))
    assert plan(machine="aarch64", devices="none", facts=host(1, machine="x86_64"))


def test_a_host_that_tells_no_family_is_taken_for_the_images_and_that_is_said() -> None:
    made = plan(family="unknown")
    assert made.family == "A2"
    assert made.notes == ("the chip family of this host is unknown; A2 is assumed, which the image is for",)
    assert plan(request(family="unknown"), family="unknown").notes == ("the chip family of this host is unknown",)


def test_the_hosts_family_decides_for_an_image_that_tells_none() -> None:
    made = plan(request(family="unknown", devices=""), host(4), family="A3")
    assert (made.family, made.numbers) == ("A3", (0, 1))
    with pytest.raises(BadInput, match="pair"):
        plan(request(family="unknown", devices="0"), host(4), family="A3")


def test_a_950_gets_its_own_nodes() -> None:
    made = plan(request(family="950", devices=""), a5_host(), family="950")
    assert devices(made) == [
        "/dev/davinci0", "/dev/davinci_manager", "/dev/hisi_hdc", "/dev/ummu", "/dev/uburma",
    ]  # fmt: skip


# --- the Ascend Docker Runtime ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("known", "named"), [(ASCEND, "ascend"), (ASCEND_DEFAULT, "")])
def test_the_ascend_runtime_is_told_the_devices_and_brings_the_rest(known: EngineFacts, named: str) -> None:
    made = plan(devices="0,1", known=known)
    assert (made.runtime, made.devices, made.env) == (named, (), {"ASCEND_VISIBLE_DEVICES": "0,1"})
    assert [m.target for m in made.mounts] == ["/usr/local/Ascend/driver/version.info", "/etc/ascend_install.info"]
    words = docker_words(made)
    assert [word for word in words if "ASCEND_VISIBLE_DEVICES" in word] == ["ASCEND_VISIBLE_DEVICES=0,1"]
    assert "--device" not in words


def test_under_the_ascend_runtime_nodes_are_asked_for_all_the_same() -> None:
    with pytest.raises(MissingTool, match="hisi_hdc"):
        plan(facts=host(1, without="/dev/hisi_hdc"), known=ASCEND)
    assert plan(user="2000", known=ASCEND).groups == (1000,)


# --- the user ---------------------------------------------------------------------------------------------------------


def test_nobody_is_refused_with_the_owner_shown() -> None:
    with pytest.raises(BadInput, match="/dev/davinci0: crw-rw---- 1000 1000"):
        plan(user="65534")


def test_a_user_without_an_entry_gets_one_device_and_not_two() -> None:
    assert plan(user="1000").groups == ()
    with pytest.raises(BadInput, match="no entry for uid 1000"):
        plan(user="1000", devices="0,1")
    assert "could not be seen" in plan(user="1000", devices="0,1", passwd=None).notes[0]


def test_another_user_gets_the_group_of_the_nodes() -> None:
    assert plan(user="2000", groups=(1000,)).groups == (1000,)
    assert plan(user="2000").groups == (1000,)
    assert plan(user="2000", facts=host(1, nodes=nodes("/dev/davinci0", *MANAGERS, gid=77))).groups == (77,)
    assert plan(user="2000", facts=host(1, nodes=nodes("/dev/davinci0", *MANAGERS, mode=0o666))).groups == ()


@pytest.mark.parametrize("user", ["", "root", "0"])
def test_root_gets_the_plain_command(user: str) -> None:
    made = plan(user=user)
    assert (made.groups, made.user) == ((), user)


def test_the_images_own_user_counts_and_is_not_repeated() -> None:
    made = plan(image_user="ann")
    assert (made.user, made.uid, made.groups) == ("", 1100, (1000,))
    with pytest.raises(BadInput, match="user 65534"):
        plan(image_user="nobody")
    assert plan(image_user="nobody", user="root").groups == ()


@pytest.mark.parametrize("target", ["/root", "/root/.cache"])
def test_only_root_gets_mounts_below_root(target: str) -> None:
    mounts = (Mount("/root/.cache", target, read_only=False),)
    with pytest.raises(BadInput, match="may not enter /root"):
        plan(user="2000", mounts=mounts)
    assert plan(mounts=mounts).mounts[-1].target == target
    assert plan(user="2000", mounts=(Mount("/x", "/rooted"),)).mounts[-1].target == "/rooted"


# --- what was typed ---------------------------------------------------------------------------------------------------


def test_a_workspace_is_mounted_with_its_caches_and_what_was_typed_wins() -> None:
    made = plan(workspace="/data/ws", env={"HF_HOME": "/models/hf"}, mounts=(MODELS,))
    assert made.mounts[-2:] == (Mount("/data/ws", "/mnt/workspace", read_only=False, kind="dir"), MODELS)
    assert made.env == {
        "MODELSCOPE_CACHE": "/mnt/workspace/.cache/modelscope/hub",
        "HF_HOME": "/models/hf",
        "XDG_CACHE_HOME": "/mnt/workspace/.cache",
    }
    assert plan().env == {}


def test_a_typed_mount_replaces_the_drivers_of_the_same_target() -> None:
    typed = Mount("/opt/tools/npu-smi", "/usr/local/bin/npu-smi")
    targets = [(mount.source, mount.target) for mount in plan(mounts=(typed,)).mounts]
    assert [source for source, target in targets if target == typed.target] == ["/opt/tools/npu-smi"]


def test_two_mounts_on_one_target_are_refused() -> None:
    with pytest.raises(BadInput, match="two mounts have the target /models"):
        plan(mounts=(MODELS, Mount("/other", "/models/")))


def test_rights_are_only_what_was_typed_and_are_told_of() -> None:
    made = plan(privileged=True, network="host", ipc="host")
    assert (made.privileged, made.network, made.ipc, made.shm_size) == (True, "host", "host", "")
    assert "every device of the host" in made.notes[0]
    assert plan(shm_size="16g", ipc="host").shm_size == "16g"
    with pytest.raises(BadInput, match="--shm-size"):
        plan(shm_size="16 GB")


@pytest.mark.parametrize("network", ["host", "none", "container:other"])
def test_ports_that_docker_would_drop_are_refused(network: str) -> None:
    with pytest.raises(BadInput, match=f"--publish 80:8000 --network {network}: ") as error:
        plan(ports=(parse_ports("80:8000"),), network=network)
    assert error.value.do
    assert plan(network=network).network == network
    assert plan(ports=(parse_ports("80:8000"),), network="mine").ports


@given(
    st.sampled_from(["", "0", "0,1", "all", "none", "9", "x"]),
    st.sampled_from(["", "root", "1000", "2000", "65534", "ann", "nobody:7"]),
    st.sampled_from(["A2", "A3", "310P", "950", "910", "unknown"]),
    st.sampled_from(["A2", "A3", "950", "unknown"]),
    st.sampled_from([host(2), host(0), a5_host(), HostFacts(), host(1, without="/etc/ascend_install.info")]),
    st.sampled_from([engine(), ASCEND, ASCEND_DEFAULT, engine(("other", 0))]),
    st.sampled_from([None, "", PASSWD]),
)
def test_every_request_gets_a_plan_within_its_host_or_a_reason(
    text: str, user: str, wanted: str, family: str, facts: HostFacts, known: EngineFacts, passwd: str | None
) -> None:
    asked = request(devices=text, user=user, family=wanted)
    try:
        made = plan_run(asked, facts, known, passwd, family)
    except AscendImagesError as error:
        refusal = error
        assert refusal.found
        assert refusal.wanted
        assert "chmod" not in str(refusal)
        return
    present = {node.path for node in facts.nodes}
    assert {device.host for device in made.devices} <= {*present, "/dev/uburma"}
    assert {mount.source for mount in made.mounts} <= facts.paths.keys()
    assert not made.privileged
    assert not (made.devices and "ASCEND_VISIBLE_DEVICES" in made.env)


# --- the Docker SDK ---------------------------------------------------------------------------------------------------


def test_the_sdk_is_told_the_same() -> None:
    made = plan(
        user="2000", devices="0", passwd=None, command=("python", "-c", "print(1)"), network="host", ipc="host",
        workspace="/data/ws", name="x", interactive=True, privileged=True, shm_size="2g",
    )  # fmt: skip
    words = container_arguments(made)
    assert words["devices"][0] == "/dev/davinci0:/dev/davinci0:rwm"
    assert len(words["mounts"]) == len(made.mounts)
    create = _create_container_args({**words, "version": "1.45"})
    config = create["host_config"]
    assert [one["PathOnHost"] for one in config["Devices"]] == devices(made)
    assert {(one["Source"], one["Target"], one["ReadOnly"]) for one in config["Mounts"]} == {
        (mount.source, mount.target, mount.read_only) for mount in made.mounts
    }
    assert (config["GroupAdd"], config["Privileged"], config["ShmSize"]) == (["1000"], True, 2 << 30)
    assert (config["IpcMode"], config["NetworkMode"]) == ("host", "host")
    assert (create["command"], create["user"], create["tty"]) == (["python", "-c", "print(1)"], "2000", True)
    assert create["environment"] == made.env


def test_the_sdk_is_told_nothing_that_was_not_asked_for() -> None:
    assert container_arguments(plan(request(devices="none"), HostFacts())) == {"image": "demo:a2"}
    assert container_arguments(plan(known=ASCEND))["runtime"] == "ascend"


def test_the_sdk_opens_the_same_ports() -> None:
    words = ("8000:80", "127.0.0.1:9000-9001:90-91", "[::1]::5000/udp", "80")
    made = plan(ports=tuple(map(parse_ports, words)))
    config = _create_container_args({**container_arguments(made), "version": "1.45"})["host_config"]
    assert config["PortBindings"] == {
        "80/tcp": [{"HostIp": "", "HostPort": "8000"}, {"HostIp": "", "HostPort": ""}],
        "90/tcp": [{"HostIp": "127.0.0.1", "HostPort": "9000"}],
        "91/tcp": [{"HostIp": "127.0.0.1", "HostPort": "9001"}],
        "5000/udp": [{"HostIp": "::1", "HostPort": ""}],
    }


# --- pods -------------------------------------------------------------------------------------------------------------


def test_a_pod_is_planned_on_a_machine_without_npus_and_says_what_nobody_saw() -> None:
    made = plan_pod(request(devices="0,1", user="2000"), HostFacts(), None)
    assert (made.count, made.devices, made.mounts, made.groups) == (2, (), (), ())
    assert [note.partition(":")[0] for note in made.notes] == [
        "the cluster's scheduler chooses which 2 NPUs the pod gets",
        "this machine has no NPU",
        "the group of the nodes, which user 2000 needs, could not be seen",
        "whether the image's passwd has uid 2000, which HCCL needs for 2 devices, could not be seen",
    ]


def test_a_pod_gets_the_files_that_device_plugins_leave_out_and_the_group() -> None:
    made = plan_pod(request(devices="", user="2000"), host(1), PASSWD, "A2")
    assert [m.target for m in made.mounts] == ["/usr/local/Ascend/driver/version.info", "/etc/ascend_install.info"]
    assert (made.groups, made.gids, made.notes) == ((1000,), (0, 1000), ())


def test_a_pod_for_other_chips_than_this_hosts_is_refused() -> None:
    with pytest.raises(BadInput, match="is for A3"):
        plan_pod(request(family="A3", devices=""), host(2), None, "A2")
    assert plan_pod(request(family="A3", devices=""), HostFacts(), None).count == 2


def test_a_node_of_no_concern_to_chips_does_not_stop_a_pod() -> None:
    facts = replace(host(1), nodes=(*host(1).nodes, *nodes("/dev/upgrade", mode=0o600)))
    assert plan_pod(request(user="2000"), facts, PASSWD, "A2").groups == (1000,)


def test_the_ports_of_a_pod_are_not_its_nodes() -> None:
    made = plan_pod(request(devices="none", ports=(parse_ports("80:8000"),)), HostFacts(), PASSWD)
    assert made.notes == ("a pod opens no port of its node: a Service, or kubectl port-forward pod/NAME 8000",)


def test_a_pod_without_npus_asks_for_none() -> None:
    made = plan_pod(request(devices="none", user="2000"), host(1), PASSWD, "A2")
    assert (made.count, made.mounts, made.groups, made.shm_size, made.notes) == (0, (), (), "", ())
