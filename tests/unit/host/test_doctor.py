"""The doctor's lines on NPUs: one for each thing that is well, wrong or unknown, and each wrong thing said once."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.host.doctor import Line, Question, State, User, examine
from ascend_images.host.facts import EngineFacts, HostFacts, Output
from ascend_images.pins.resolve import resolve
from tests.host_kit import DRIVER, container, engine, host, nodes, sample
from tests.pins_kit import committed

PINS = committed()
A2, A3, A5 = (resolve(PINS, name) for name in ("a2", "a3", "a5"))
ROOT_USER, SOMEBODY = User(0, 0, (0,)), User(4711, 4711, (4711,))

BUSY = Output(255, sample("error-8005"))


def lines(
    facts: HostFacts, crowd: EngineFacts | None = None, *, no_engine: bool = False, **asked: Any
) -> dict[str, Line]:
    """The lines by subject; no subject is there twice."""
    found = examine(facts, None if no_engine else crowd or engine(), Question(pins=PINS, **asked))
    by_subject = {line.subject: line for line in found}
    assert len(by_subject) == len(found)
    return by_subject


def states(found: dict[str, Line]) -> dict[str, str]:
    return {subject: line.state.value for subject, line in found.items() if line.state is not State.OK}


NORMAL = {"Ascend Docker Runtime": "not here"}


def test_a_host_in_order_has_nothing_but_good_lines() -> None:
    found = lines(host(), variant=A2, user=ROOT_USER, devices=(3,))
    assert states(found) == NORMAL
    assert set(found) == {
        "NPU nodes",
        "permissions",
        "npu-smi",
        "chips",
        "health",
        "driver",
        "firmware",
        "in use",
        "Ascend Docker Runtime",
    }


def test_a_host_without_npus_is_no_problem_until_one_is_wanted() -> None:
    [line] = lines(HostFacts(), variant=A2).values()
    assert (line.state, line.subject) == (State.ABSENT, "NPU")
    [line] = lines(HostFacts(), variant=A2, devices=(0, 1)).values()
    assert (line.state, line.wanted) == (State.PROBLEM, "/dev/davinci0, /dev/davinci1")


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("text", ["\x1b[2J\x1b]0;title\x07", "\u202egnp.exe", "dcmi failed. ret is -8005\x1b[1A\b\b"])
def test_a_terminal_obeys_nothing_that_npu_smi_or_a_containers_name_says(text: str, code: int) -> None:
    crowd = engine(container(f"c{text}", 3))
    found = lines(host(info=Output(code, f"{text}\n| {text} |")), crowd, variant=A2, user=ROOT_USER)
    said = "".join(f"{line.subject}{line.found}{line.wanted}{line.next}" for line in found.values())
    assert not set(said) & {"\x1b", "\x07", "\b", "\u202e"}


def test_a_driver_that_brings_no_nodes_is_a_problem() -> None:
    line = lines(host(nodes=()))["NPU nodes"]
    assert (line.state, line.found) == (State.PROBLEM, "no /dev/davinciN, though a driver is installed")


@pytest.mark.parametrize("manager", ["davinci_manager", "devmm_svm", "hisi_hdc"])
def test_a_missing_manager_is_named(manager: str) -> None:
    others = tuple(name for name in ("davinci_manager", "devmm_svm", "hisi_hdc") if name != manager)
    found = lines(host(nodes=nodes(3, 5, 6, managers=others)))
    assert states(found) == {"NPU nodes": "problem", **NORMAL}
    assert f"/dev/{manager}" in found["NPU nodes"].found


def test_a_950_needs_no_devmm_svm() -> None:
    a5 = {
        "nodes": nodes(0, 1, 6, 7, managers=("davinci_manager", "hisi_hdc")),
        "info": Output(0, sample("950").replace("Alarm", "OK   ").replace("UNKNOWN", "OK     ")),
        "boards": {"0": Output(0, sample("board-950"))},
        "driver": {"version": "25.7.rc1"},
    }
    assert states(lines(host(**a5), variant=A5)) == {**NORMAL, "firmware": "unknown"}
    blind = lines(host(**{**a5, "info": None, "npu_smi": "", "boards": {}, "firmware": {}}), variant=A5)
    assert blind["NPU nodes"].state is State.OK, "what the variant states counts where nothing is detected"


def test_a_device_that_is_asked_for_and_not_there_is_named() -> None:
    assert "/dev/davinci9" in lines(host(), devices=(3, 9))["NPU nodes"].found


def test_missing_driver_libraries_are_a_problem() -> None:
    found = lines(host(paths={"/usr/local/bin/npu-smi": "file"}))
    assert states(found) == {"driver files": "problem", **NORMAL}
    assert "libascend_hal.so" in found["driver files"].found


@pytest.mark.parametrize(
    ("mode", "user", "state", "then"),
    [
        (0o660, ROOT_USER, "ok", ""),
        (0o660, User(1000, 5, (5,)), "ok", ""),
        (0o660, User(2000, 5, (5, 1000)), "ok", ""),
        (0o666, SOMEBODY, "ok", ""),
        (0o660, SOMEBODY, "problem", "sudo usermod -aG HwHiAiUser"),
        (0o600, SOMEBODY, "problem", "run as root"),
    ],
)
def test_permissions(mode: int, user: User, state: str, then: str) -> None:
    line = lines(host(nodes=nodes(3, 5, 6, mode=mode)), user=user)["permissions"]
    assert line.state == state
    assert then in line.next
    assert "chmod" not in line.next


def test_a_group_without_a_name_is_told_by_number() -> None:
    line = lines(host(install={}), user=SOMEBODY)["permissions"]
    assert 'usermod -aG 1000 "$USER"' in line.next


@pytest.mark.parametrize(
    ("changes", "state", "found"),
    [
        ({"npu_smi": "", "info": None, "paths": {}}, "unknown", "none in /usr/local/bin"),
        (
            {"npu_smi": "", "info": None, "paths": {"/usr/local/bin/npu-smi": "dir"}},
            "problem",
            "/usr/local/bin/npu-smi is a directory",
        ),
        ({"info": None}, "unknown", "was not asked"),
        ({"info": Output(124, "")}, "problem", "did not come back"),
        ({"info": Output(127, "x: Exec format error")}, "problem", "cannot be started: x: Exec format error"),
        ({"info": Output(139, "")}, "problem", "ended with 139: no output"),
        ({"info": Output(0, "strange\nwords")}, "problem", "lists no chip: words"),
        ({"info": Output(187, sample("error-no-permission"))}, "problem", "Get chip info failed"),
        ({"info": Output(127, sample("error-no-library"))}, "problem", "libc_sec.so"),
    ],
)
def test_npu_smi(changes: dict[str, Any], state: str, found: str) -> None:
    line = lines(host(**changes, boards={}))["npu-smi"]
    assert line.state == state
    assert found in line.found


def test_chips_of_another_family_than_the_variant_s_are_a_problem() -> None:
    line = lines(host(), variant=A3)["chips"]
    assert (line.state, "A2" in line.found, "Atlas A3 (A3)" in line.wanted) == (State.PROBLEM, True, True)


def test_chips_that_nobody_knows_are_unknown_with_the_text() -> None:
    facts = host(info=Output(0, sample("310b4")), boards={"0": Output(0, "Chip Name : 970X")})
    line = lines(facts, variant=A2)["chips"]
    assert (line.state, "970X" in line.found) == (State.UNKNOWN, True)


def test_another_architecture_than_the_variant_s_is_a_problem() -> None:
    arm = msgspec.structs.replace(A2, platforms=A2.platforms[1:])
    found = lines(host(), variant=arm)
    assert (found["architecture"].found, found["architecture"].wanted) == ("x86_64", "aarch64")
    assert states(found) == {"architecture": "problem", **NORMAL}
    assert lines(host(machine=""), variant=arm)["architecture"].state is State.UNKNOWN


@pytest.mark.parametrize(
    ("health", "state"), [("Alarm", "unknown"), ("Warning", "unknown"), ("UNKNOWN", "unknown"), ("Critical", "problem")]
)
def test_a_chip_that_is_not_well_is_named(health: str, state: str) -> None:
    facts = host(info=Output(0, sample("a2-910b4").replace("Warning", health)))
    line = lines(facts)["health"]
    assert (line.state, line.found) == (state, f"NPU 5 chip 0 (910B4-1): {health}")


@pytest.mark.parametrize(
    ("driver", "state"),
    [("26.1.0", "ok"), ("25.0.rc1", "problem"), ("27.0.0", "unknown"), ("7.5.0.5.220-24.1.0.3", "problem")],
)
def test_a_driver_against_the_variant_s_cann(driver: str, state: str) -> None:
    found = lines(host(driver={**DRIVER, "package_version": driver}), variant=A2)
    assert (found["driver"].state, driver in found["driver"].found) == (state, True)
    assert states(found) == ({"driver": state} if state != "ok" else {}) | NORMAL


def test_a_cann_that_no_table_names_is_unknown() -> None:
    other = msgspec.structs.replace(A2, cann="7.7.7")
    assert states(lines(host(), variant=other)) == {"driver": "unknown", **NORMAL}


def test_without_a_variant_the_driver_is_told() -> None:
    assert lines(host())["driver"].found == "26.1.0"
    bare = host(driver={}, info=None)
    assert lines(bare)["driver"].state is State.UNKNOWN
    assert lines(bare, variant=A2)["driver"].state is State.UNKNOWN


def test_firmware_that_the_driver_does_not_take_is_a_problem() -> None:
    line = lines(host(firmware={"version": "9.1.0"}))["firmware"]
    assert (line.state, line.wanted) == (State.PROBLEM, "[7.0.0,8.9.9]")


@pytest.mark.parametrize("code", ["error-8005", "error-8020"])
def test_a_busy_device_is_held_by_a_container(code: str) -> None:
    inside = Output(255, sample(code))
    seven = host(nodes=nodes(*range(8)))
    found = lines(seven, engine(container("other", 7)), devices=(7,), inside=inside, variant=A2)
    assert found["NPU 7"].found == "NPU 7 is in use by container other"
    assert states(found) == {"NPU 7": "problem", **NORMAL}, "nothing else is to blame"
    free = lines(seven, engine(container("other", 6)), devices=(7,), variant=A2)
    assert states(free) == NORMAL
    nobody = lines(seven, engine(container("other", 6)), devices=(7,), inside=inside)
    assert "holder not found" in nobody["busy NPU"].found
    assert states(nobody) == {"busy NPU": "problem", **NORMAL}


def test_a_host_whose_own_npu_smi_is_refused_names_all_who_hold() -> None:
    found = lines(host(info=BUSY, boards={}), engine(container("other", 5)))
    assert found["NPU 5"].state is State.PROBLEM
    assert found["npu-smi"].state is State.UNKNOWN
    alone = lines(host(info=BUSY, boards={}))
    assert "holder not found" in alone["busy NPU"].found


def test_who_holds_what_is_told_though_nobody_asked() -> None:
    found = lines(host(), engine(container("other", 5), container("more", 3)))
    assert found["in use"].found == "NPU 3 by container more, NPU 5 by container other"
    assert found["in use"].state is State.OK


def test_without_an_engine_nobody_knows_who_holds_what() -> None:
    found = lines(host(), no_engine=True)
    assert states(found) == {"in use": "unknown"}


@pytest.mark.parametrize(
    ("runtimes", "default", "found"),
    [(("ascend", "runc"), "ascend", "default runtime"), (("ascend", "runc"), "runc", "--runtime=ascend")],
)
def test_ascend_docker_runtime(runtimes: tuple[str, ...], default: str, found: str) -> None:
    line = lines(host(), engine(runtimes=runtimes, default=default))["Ascend Docker Runtime"]
    assert (line.state, found in line.found) == (State.OK, True)


OUTPUTS = st.none() | st.builds(
    Output, st.sampled_from([0, 1, 124, 127, 139, 255]), st.text() | st.sampled_from([sample("a2-910b4"), BUSY.text])
)
TEXTS = st.dictionaries(
    st.sampled_from(["version", "package_version", "usergroup", "compatible_version_fw"]), st.text()
)


@given(OUTPUTS, OUTPUTS, TEXTS, TEXTS, TEXTS, st.booleans(), st.sampled_from([None, A2, A5]))
def test_no_facts_make_it_raise(
    info: Output | None,
    inside: Output | None,
    driver: dict[str, str],
    firmware: dict[str, str],
    install: dict[str, str],
    asked: bool,
    variant: Any,
) -> None:
    facts = host(info=info, driver=driver, firmware=firmware, install=install, boards={})
    question = Question(pins=PINS, variant=variant, devices=(3,) if asked else (), user=SOMEBODY, inside=inside)
    for line in examine(facts, engine(), question):
        assert line.subject
        assert line.found
        assert line.state in (State.OK, State.ABSENT) or line.next or line.subject == "npu-smi"
