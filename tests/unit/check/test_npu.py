"""The checks of NPUs over facts of a host: they pass where all is well, and each fault gives one finding."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ascend_images.inside.facts import probes
from tests.unit.check import test_checks
from tests.unit.check.conftest import PRODUCTS, npu_smi_text, ran

NPU_CHECKS = (
    "visibility",
    "npu",
    "driver-mounted",
    "device-access",
    "npu-smi",
    "chip",
    "devices",
    "matmul",
    "all-reduce",
    "generate",
)
HAL = "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory"
BUSY = "aclInit failed: drvRetCode=87"
Spoil = Callable[[Any], None]

#: One line a fault of a host with two A2 cards: its name, the check that must find it, a part of what it says is found.
FAULTS: list[tuple[str, str, str, Spoil]] = []


def fault(name: str, check: str, found: str) -> Callable[[Spoil], Spoil]:
    def register(spoil: Spoil) -> Spoil:
        FAULTS.append((name, check, found, spoil))
        return spoil

    return register


def without_nodes(case: Any) -> None:
    case.facts["devices"]["nodes"] = []
    case.facts["npu_smi"].update(code=None, text="")
    case.facts["probe"] = None


def without_driver(case: Any) -> None:
    case.facts["driver"] = False
    case.facts["driver_files"].update(paths={}, version={})
    case.facts["npu_smi"].update(code=127, text=npu_smi_text("error-no-library.txt"))
    case.no_torch(HAL)
    case.facts["probe"] = None


# --- nodes and driver


@fault("an empty visibility variable after another", "visibility", "2 entries: 3, (empty)); 0 nodes of 1 asked for")
def _(case: Any) -> None:
    without_nodes(case)
    case.facts["asked"]["devices"] = []
    case.facts["container"] = {
        "env": ["ASCEND_VISIBLE_DEVICES=3", "FOO=1", "ASCEND_VISIBLE_DEVICES="],
        "asked": [3],
        "npu_required": True,
    }


@fault("a visibility variable that mounts nothing", "visibility", "asked for 3 (1 entry), none mounted")
def _(case: Any) -> None:
    without_nodes(case)
    case.facts["devices"]["visible"]["ASCEND_VISIBLE_DEVICES"] = "3"


@fault("an empty visibility variable in the image", "visibility", "its effective value is empty (1 entry)")
def _(case: Any) -> None:
    without_nodes(case)
    case.facts["asked"].update(npu=False, devices=[])
    case.facts["devices"]["visible"]["ASCEND_VISIBLE_DEVICES"] = ""


@fault("void where an NPU was asked for", "visibility", "asked for void")
def _(case: Any) -> None:
    without_nodes(case)
    case.facts["devices"]["visible"]["ASCEND_VISIBLE_DEVICES"] = "void"


@fault("no NPU where one is insisted on", "npu", "no NPU here (no /dev/davinci*)")
def _(case: Any) -> None:
    without_nodes(case)
    case.facts["asked"].update(devices=[], require=True)
    case.facts["driver"] = False
    case.fails("torch_npu", HAL)


@fault("no NPU where some were asked for", "npu", "0 of 2 NPUs")
def _(case: Any) -> None:
    without_nodes(case)


@fault("no NPU where whoever started the container insists", "npu", "no NPU here (no /dev/davinci*)")
def _(case: Any) -> None:
    without_nodes(case)
    case.facts["asked"].update(npu=False, devices=[])
    case.facts["container"] = {"env": [], "asked": [], "npu_required": True}


@fault("no driver", "driver-mounted", "host driver libraries not mounted: there is no /usr/local/Ascend/driver/lib64")
def _(case: Any) -> None:
    without_driver(case)


@fault("an empty directory for the driver", "driver-mounted", "driver/lib64 holds no libascend_hal.so")
def _(case: Any) -> None:
    without_driver(case)
    case.facts["driver_files"]["paths"] = {"/usr/local/Ascend/driver/lib64": "dir"}


@fault(
    "nodes of another owner", "device-access", "uid 65534 (groups 65534) may not read and write: mode 0660, owner 1000:"
)
def _(case: Any) -> None:
    case.facts["user"] = {"uid": 65534, "gid": 65534, "groups": [65534], "name": "nobody"}
    for node in case.facts["devices"]["nodes"]:
        node["usable"] = False
    case.facts["npu_smi"].update(code=187, text=npu_smi_text("error-no-permission.txt"))
    case.no_torch(BUSY)


@fault("a user without a passwd entry and two cards", "device-access", "no passwd entry, and 2 NPUs")
def _(case: Any) -> None:
    case.facts["user"] = {"uid": 1000, "gid": 1000, "groups": [1000], "name": ""}
    case.facts["probe"]["all_reduce"] = ran(exit=1, stderr="RuntimeError: hcclCommInitRootInfo")


# --- npu-smi and chips


@fault("a device that is held", "npu-smi", "exit code 255: dcmi module initialize failed. ret is -8005 (")
def _(case: Any) -> None:
    case.facts["npu_smi"].update(code=255, text=npu_smi_text("error-8005.txt"))
    case.no_torch(BUSY)


@fault("a device that is used", "npu-smi", "ret is -8020 (usually the device is used by another container or process)")
def _(case: Any) -> None:
    case.facts["npu_smi"].update(code=255, text=npu_smi_text("error-8020.txt"))


@fault("an npu-smi that never ends", "npu-smi", "no answer within 60 s")
def _(case: Any) -> None:
    case.facts["npu_smi"].update(code=124, text="")


@fault("an npu-smi that crashes", "npu-smi", "exit code 139: it printed nothing")
def _(case: Any) -> None:
    case.facts["npu_smi"].update(code=139, text="")


@fault("a directory for npu-smi", "npu-smi", "/usr/local/sbin/npu-smi is a directory")
def _(case: Any) -> None:
    case.facts["npu_smi"].update(path="", directory="/usr/local/sbin/npu-smi", code=None, text="")


@fault("chips of another family", "chip", "the image is for A2 (chip 910b of image.json), this host's chips are A3")
def _(case: Any) -> None:
    case.facts["npu_smi"]["text"] = npu_smi_text("a3-2npu.txt")
    end = "AssertionError: Current device type: A3 does not match the installed version's device type: A2"
    case.fails("vllm_ascend", end)
    case.facts["probe"]["matmul"]["0"] = ran({"dtype": "float16", "failed": "RuntimeError: no kernel"})


@fault("chips of another family by what torch calls them", "chip", "this host's chips are A3 (Ascend910_9392)")
def _(case: Any) -> None:
    case.facts["npu_smi"].update(path="", code=None, text="")
    case.facts["probe"]["count"]["said"][0]["names"] = ["Ascend910_9392"]


@fault("a wheel for another chip", "compiled-extensions", "built for device type A2 (/site/vllm_ascend/_build_info.py)")
def _(case: Any) -> None:
    without_source(case)
    case.image.update(chip="a3", device_type="A3")
    case.facts["cann"]["ops"][0]["chip"] = "A3"
    case.facts["built_for"] = {"file": "/site/vllm_ascend/_build_info.py", "device_type": "A2"}
    case.facts["npu_smi"]["text"] = npu_smi_text("a3-2npu.txt")


def without_source(case: Any) -> None:
    """Let vLLM Ascend come as a wheel."""
    case.image["sources"] = [source for source in case.image["sources"] if source["name"] != "vllm-ascend"]
    case.image["packages"]["amd64"]["vllm_ascend"] = "0.23.0"
    case.lock += "vllm-ascend==0.23.0\n"


# --- computing


@fault("fewer nodes than asked for", "devices", "davinci0, davinci1")
def _(case: Any) -> None:
    case.facts["asked"]["devices"] = [0, 1, 2]


@fault(
    "torch that sees fewer", "devices", "torch sees 1 of 2 devices (davinci0, davinci1); ASCEND_RT_VISIBLE_DEVICES=0"
)
def _(case: Any) -> None:
    case.facts["devices"]["visible"]["ASCEND_RT_VISIBLE_DEVICES"] = "0"
    case.facts["probe"]["count"]["said"][0]["count"] = 1


@fault("torch that cannot count", "devices", "killed by SIGSEGV")
def _(case: Any) -> None:
    case.facts["probe"]["count"] = ran(signal="SIGSEGV")
    case.facts["probe"].update(matmul={}, ranks=0, all_reduce=None)


@fault("a wrong product on one device", "matmul", "float32: relative error 0.97, tolerance 0.00195")
def _(case: Any) -> None:
    case.facts["probe"]["matmul"]["1"] = ran(*PRODUCTS[:2], {**PRODUCTS[2], "error": 0.97})


@fault("a product that is no number", "matmul", "float16: the product holds what is no number")
def _(case: Any) -> None:
    case.facts["probe"]["matmul"]["0"] = ran({**PRODUCTS[0], "error": None}, *PRODUCTS[1:])


@fault("the same failure on every device", "matmul", "float16: RuntimeError: no kernel")
def _(case: Any) -> None:
    for index in ("0", "1"):
        case.facts["probe"]["matmul"][index] = ran({"dtype": "float16", "failed": "RuntimeError: no kernel"})


@fault("a device that hangs after its first product", "matmul", "no end within the time limit")
def _(case: Any) -> None:
    case.facts["probe"]["matmul"]["1"] = ran(PRODUCTS[0], timed_out=True)


@fault("a device that says nothing", "matmul", "it ended without a product")
def _(case: Any) -> None:
    case.facts["probe"]["matmul"]["1"] = ran()


@fault("a wrong sum", "all-reduce", "wrong sums: rank 1: 3 of 1024 numbers")
def _(case: Any) -> None:
    case.facts["probe"]["all_reduce"]["said"][1]["wrong"] = 3


@fault("a rank that dies", "all-reduce", "rank 1: killed by SIGABRT: HCCL error; 1 of 2 ranks done")
def _(case: Any) -> None:
    said = [{"rank": 0, "index": 0, "wrong": 0, "of": 1024}, {"rank": 1, "index": 1, "failed": "killed by SIGABRT"}]
    case.facts["probe"]["all_reduce"] = ran(*said, exit=1, stderr="…\nHCCL error\n")


@fault("ranks that wait for one another", "all-reduce", "no end within the time limit; 0 of 2 ranks done")
def _(case: Any) -> None:
    case.facts["probe"]["all_reduce"] = ran(timed_out=True)


@fault("a rank that says nothing", "all-reduce", "1 of 2 ranks done")
def _(case: Any) -> None:
    case.facts["probe"]["all_reduce"]["said"].pop()


@fault("a model that vLLM cannot load", "generate", "exit code 1: ValueError: no such model")
def _(case: Any) -> None:
    case.facts["asked"]["model"] = "/models/x"
    case.facts["probe"]["generate"] = ran(exit=1, stderr="ValueError: no such model")


@fault("a model that says nothing", "generate", "no token")
def _(case: Any) -> None:
    case.facts["asked"]["model"] = "/models/x"
    case.facts["probe"]["generate"] = ran({"tokens": 0})


# --- the tests


@pytest.fixture
def host(case: Any) -> Any:
    """A host with two A2 cards, both given to the container and asked to compute."""
    case.on_host(0, 1)
    return case


def states(case: Any, *names: str) -> list[str]:
    answers = case.ask()
    return [said.answer.value for name in names or NPU_CHECKS for said in answers[name]]


def answer(case: Any, name: str) -> Any:
    (said,) = case.ask()[name]
    return said


def test_every_npu_check_passes_on_a_good_host(host: Any) -> None:
    host.facts["asked"]["model"] = "/models/x"
    host.facts["probe"]["generate"] = ran({"tokens": 8})
    assert {said.answer.value for list_of in host.ask().values() for said in list_of} == {"pass"}


def test_a_single_card_has_nothing_to_sum(case: Any) -> None:
    case.on_host(3)
    case.facts["asked"]["devices"] = [3]
    assert case.failures() == []
    assert answer(case, "all-reduce").found == "it takes two devices or more"
    assert answer(case, "generate").found == "asked for with --model"


@pytest.mark.parametrize(("wanted", "found", "spoil"), [pytest.param(*row[1:], id=row[0]) for row in FAULTS])
def test_a_fault_gives_one_finding_of_its_check(host: Any, wanted: str, found: str, spoil: Spoil) -> None:
    spoil(host)
    failures = host.failures()
    assert [name for name, _ in failures] == [wanted], failures
    said = failures[0][1]
    assert found in said.found
    assert said.subject
    assert said.wanted
    assert said.next


@pytest.mark.parametrize("spoil", [pytest.param(row[3], id=row[0]) for row in FAULTS])
def test_what_the_host_gets_wrong_is_not_called_the_images_fault(host: Any, spoil: Spoil) -> None:
    spoil(host)
    image_only = [name for name in host.ask() if name not in (*NPU_CHECKS, "entry-points", "compiled-extensions")]
    assert set(states(host, *image_only)) == {"pass"}
    assert "image is broken" not in json.dumps([said.found for list_of in host.ask().values() for said in list_of])


def test_every_check_has_a_fault_that_it_finds(check: SimpleNamespace) -> None:
    assert {row[1] for row in (*test_checks.FAULTS, *FAULTS)} == {one.id for one in check.CHECKS}


def test_npu_checks_stand_before_the_imports_that_they_explain(check: SimpleNamespace) -> None:
    ids = [one.id for one in check.CHECKS]
    before = ids[ids.index("visibility") : ids.index("entry-points")]
    assert (*before, *ids[ids.index("entry-points") + 1 :]) == NPU_CHECKS


def test_without_an_npu_nothing_is_asked_of_one(case: Any) -> None:
    assert set(states(case)) == {"not run"}
    assert {said.found for name in NPU_CHECKS for said in case.ask()[name]} == {"no NPU here (no /dev/davinci*)"}


def test_an_npu_that_is_not_asked_to_compute_says_so(host: Any) -> None:
    host.facts["asked"].update(npu=False, devices=[])
    host.facts["probe"] = None
    for name in ("devices", "matmul", "all-reduce", "generate"):
        assert answer(host, name).found == "asked for with --npu"
    assert set(states(host, *NPU_CHECKS[:6])) == {"pass"}


def test_an_unpacked_image_has_no_npu(case: Any) -> None:
    case.facts.update(live=False, origins=None, imports=None, user=None)
    case.facts["environment"].update(process={}, sh=None, login=None, set_env=None, python3={"process": ""})
    assert set(states(case)) == {"not run"}


@pytest.mark.parametrize("require", [True, False])
def test_without_a_node_only_one_check_says_so(host: Any, require: bool) -> None:
    without_nodes(host)
    host.facts["asked"].update(require=require, devices=[])
    said = {name: host.ask()[name][0].found for name in NPU_CHECKS if name != "npu"}
    because = {"because of npu: /dev/davinci*"} if require else {"no NPU here (no /dev/davinci*)"}
    assert {found for name, found in said.items() if name != "visibility"} == because


def test_after_an_empty_variable_the_rest_is_not_run_because_of_it(host: Any) -> None:
    without_nodes(host)
    host.facts["devices"]["visible"]["ASCEND_VISIBLE_DEVICES"] = ""
    assert {answer(host, name).found for name in NPU_CHECKS[1:]} == {"because of visibility: ASCEND_VISIBLE_DEVICES"}


def test_two_entries_with_the_right_one_last_are_a_warning(host: Any) -> None:
    host.facts["container"] = {"env": ["ASCEND_VISIBLE_DEVICES=", "ASCEND_VISIBLE_DEVICES=0,1"], "asked": [0, 1]}
    said = answer(host, "visibility")
    assert (said.answer.value, said.found) == ("pass", "0,1; warning: 2 entries: (empty), 0,1; the last one counts")


def test_void_mounts_nothing_on_purpose(case: Any) -> None:
    case.facts["devices"]["visible"]["ASCEND_VISIBLE_DEVICES"] = "void"
    assert answer(case, "visibility").answer.value == "not run"
    assert case.failures() == []


def test_imports_that_lack_the_driver_are_not_run_because_it_is_not_mounted(host: Any) -> None:
    without_driver(host)
    found = {said.subject: said for said in host.ask()["entry-points"]}
    assert found["torch_npu"].found == found["vllm_ascend"].found == "because of driver-mounted: driver"
    assert found["vllm"].answer.value == "pass"
    assert {answer(host, name).found for name in ("npu-smi", "chip", "matmul")} == {"because of driver-mounted: driver"}
    assert "invoke run --variant a2 --print" in answer(host, "driver-mounted").next


def test_the_driver_is_missed_however_long_the_traceback_is_below_the_cause(host: Any) -> None:
    without_driver(host)
    chain = "\nThe above exception was the direct cause of the following exception:\n\n" + "  File x\n" * 500
    host.fails("vllm", f"Traceback …\n{HAL}\n{chain}RuntimeError: Failed to load the backend extension: torch_npu")
    found = {said.subject: said.found for said in host.ask()["entry-points"]}
    assert found["vllm"] == "because of driver-mounted: driver"
    assert [name for name, _ in host.failures()] == ["driver-mounted"]


def test_a_driver_without_its_version_file_is_unknown(host: Any) -> None:
    host.facts["driver_files"]["version"] = {}
    assert answer(host, "driver-mounted").answer.value == "unknown"
    assert host.failures() == []


def test_the_full_version_of_the_driver_is_believed(host: Any) -> None:
    assert answer(host, "driver-mounted").found == "25.2.0.1"
    del host.facts["driver_files"]["version"]["package_version"]
    assert answer(host, "driver-mounted").found == "25.2.0"


@pytest.mark.parametrize(("mode", "then"), [(0o660, "--group-add 1000"), (0o600, "--user 1000")])
def test_who_may_not_open_nodes_is_told_the_group_or_the_owner(host: Any, mode: int, then: str) -> None:
    for node in host.facts["devices"]["nodes"]:
        node.update(mode=mode, usable=False)
    (said,) = host.ask()["device-access"]
    assert then in said.next
    assert "chmod" not in said.next


def test_one_card_needs_no_passwd_entry(case: Any) -> None:
    case.on_host(0)
    case.facts["user"] = {"uid": 1000, "gid": 1000, "groups": [1000], "name": ""}
    assert answer(case, "device-access").answer.value == "pass"


def test_without_npu_smi_the_version_file_tells_the_driver_and_the_chip_is_not_known(host: Any) -> None:
    host.facts["npu_smi"].update(path="", code=None, text="")
    host.facts["probe"]["count"]["said"][0]["names"] = ["", ""]
    said = answer(host, "npu-smi")
    assert said.answer.value == "unknown"
    assert "the driver is 25.2.0.1 by its version.info" in said.found
    chip = answer(host, "chip")
    assert (chip.answer.value, chip.found) == ("not run", "hardware unknown: npu-smi names no chip")


def test_a_health_that_is_not_ok_is_told_and_not_judged(host: Any) -> None:
    host.facts["npu_smi"]["text"] = npu_smi_text("a2-910b3-26.txt")
    listed, health = host.ask()["npu-smi"]
    assert (listed.answer.value, listed.found) == ("pass", "2 chips (910B3), driver 26.0.rc1")
    assert (health.answer.value, health.subject) == ("unknown", "health")
    assert health.found.startswith("not every chip is OK: NPU 1: Critical")
    assert health.next == "npu-smi info -t health -i 1"
    assert states(host, "chip") == ["pass"]


def test_whether_a_user_may_ask_the_driver_at_all_is_not_known(host: Any) -> None:
    host.facts["user"] = {"uid": 1000, "gid": 1000, "groups": [1000], "name": "npu"}
    host.facts["npu_smi"].update(code=187, text=npu_smi_text("error-no-permission.txt"))
    assert answer(host, "npu-smi").answer.value == "unknown"


@pytest.mark.parametrize("text", ["", "nothing of the kind\n", npu_smi_text("list.txt"), "│" * 50, "\0\n| 0 910B3 |"])
def test_an_output_that_nobody_can_read_is_unknown(host: Any, text: str) -> None:
    host.facts["npu_smi"]["text"] = text
    assert answer(host, "npu-smi").answer.value == "unknown"
    assert host.failures() == []


def test_a_holder_that_is_known_outside_has_its_own_finding(host: Any) -> None:
    host.facts["npu_smi"].update(code=255, text=npu_smi_text("error-8005.txt"))
    host.facts["host"] = {"holders": {"1": "other"}}
    assert answer(host, "npu-smi").found == "because of device-holder: another container has the device"


def test_a_busy_device_is_never_called_a_missing_driver(host: Any) -> None:
    host.facts["npu_smi"].update(code=255, text=npu_smi_text("error-8005.txt"))
    said = answer(host, "npu-smi")
    assert "usually" in said.found
    assert "invoke doctor" in said.next
    assert "--privileged" not in said.next


@pytest.mark.parametrize(
    ("table", "chip", "wanted"),
    [
        ("a3-2npu.txt", "a3", "pass"),
        ("310p3-duo.txt", "310p", "pass"),
        ("950.txt", "950", "pass"),
        ("a2-910b4.txt", "910b", "pass"),
        ("310p3-duo.txt", "910b", "fail"),
        ("950.txt", "a3", "fail"),
        ("first-910.txt", "910b", "fail"),
        ("310b4.txt", "310p", "unknown"),
        ("a3-2npu.txt", "future", "unknown"),
    ],
)
def test_the_chip_is_compared_with_the_family_that_the_table_tells(
    host: Any, table: str, chip: str, wanted: str
) -> None:
    host.image["chip"] = chip
    host.facts["npu_smi"]["text"] = npu_smi_text(table)
    assert states(host, "chip") == [wanted]


def test_a_board_tells_what_the_table_does_not(host: Any) -> None:
    host.image["chip"] = "a3"
    table = npu_smi_text("a2-910b3-26.txt").replace("910B3    ", "Ascend910")
    host.facts["npu_smi"].update(text=table, board=npu_smi_text("board-a3.txt"))
    assert states(host, "chip") == ["pass"]
    host.facts["npu_smi"]["board"] = "Chip Name : Ascend777"
    said = answer(host, "chip")
    assert said.answer.value == "unknown"
    assert "Ascend777" in said.found


def test_the_sibling_image_is_named_where_it_is_known(host: Any) -> None:
    host.facts["npu_smi"]["text"] = npu_smi_text("a3-2npu.txt")
    assert "chip a3" in answer(host, "chip").next
    host.facts["container"] = {"siblings": {"a3": "registry.example/ms-swift:a3"}}
    assert answer(host, "chip").next == "use registry.example/ms-swift:a3"


def test_an_image_without_pins_is_known_by_its_operators_or_by_what_vllm_ascend_was_built_for(host: Any) -> None:
    host.image, host.lock = {}, ""
    host.facts["sources"] = {}
    host.facts["npu_smi"]["text"] = npu_smi_text("a3-2npu.txt")
    assert answer(host, "chip").found.startswith("the image is for A2 (operators for 910b)")
    host.facts["cann"]["ops"] = []
    assert answer(host, "chip").found.startswith("the image is for A2 (vLLM Ascend built for A2)")
    host.facts["built_for"] = {"file": "", "device_type": ""}
    assert answer(host, "chip").answer.value == "unknown"


def test_a_wheel_for_the_right_chip_passes_and_pins_are_not_needed_to_tell(host: Any) -> None:
    without_source(host)
    assert states(host, "compiled-extensions") == ["pass"]
    host.image, host.lock = {}, ""
    host.facts["cann"]["ops"][0]["chip"] = "A3"
    assert states(host, "compiled-extensions") == ["fail"]
    host.facts["built_for"] = {"file": "", "device_type": ""}
    assert states(host, "compiled-extensions") == ["unknown"]


def test_a_type_that_a_chip_lacks_is_not_run(host: Any) -> None:
    skipped = {"dtype": "bfloat16", "skipped": "Ascend310P3 has no bfloat16"}
    host.facts["probe"]["matmul"]["0"] = ran(PRODUCTS[0], skipped, PRODUCTS[2])
    said = {(one.subject, one.answer.value) for one in host.ask()["matmul"]}
    assert said == {("npu:0", "pass"), ("npu:0 bfloat16", "not run"), ("npu:1", "pass")}


def test_a_second_device_that_fails_in_the_same_way_has_no_finding_of_its_own(host: Any) -> None:
    for index in ("0", "1"):
        host.facts["probe"]["matmul"][index] = ran(exit=1, stderr="RuntimeError: E39999")
    assert [(said.subject, said.answer.value) for said in host.ask()["matmul"]] == [
        ("npu:0", "fail"),
        ("npu:1", "not run"),
    ]


def test_what_has_nothing_to_do_with_npus_stops_no_check_of_them(host: Any) -> None:
    host.facts["leftovers"] = [{"kind": "a cache", "path": "/root/.cache/uv"}]
    host.installed("xgrammar")["version"] = "0.1"
    assert [name for name, _ in host.failures()] == ["locked-packages", "leftovers"]
    assert set(states(host, *NPU_CHECKS[:-1])) == {"pass"}


def test_nothing_computes_without_torch(host: Any) -> None:
    host.no_torch("ImportError: libhccl.so: cannot open shared object file")
    for name in ("devices", "matmul", "all-reduce", "generate"):
        assert answer(host, name).found == "because of entry-points: torch_npu"
    assert [name for name, _ in host.failures()] == ["entry-points"]


def test_torch_alone_is_asked_as_cpu(case: Any) -> None:
    case.on_host(0, 1)
    without_nodes(case)
    case.facts["driver"] = False
    case.facts["asked"].update(device="cpu", backend="gloo", devices=[])
    case.facts["probe"] = {
        "count": ran({"available": True, "count": 1, "names": [""]}),
        "matmul": {"0": ran(*PRODUCTS)},
        "ranks": 2,
        "all_reduce": ran(*({"rank": rank, "index": rank, "wrong": 0, "of": 1024} for rank in range(2))),
        "generate": None,
    }
    assert states(case, "devices", "matmul", "all-reduce", "generate") == ["pass", "pass", "pass", "not run"]
    case.facts["asked"]["model"] = "/models/x"
    assert states(case, "generate") == ["not run"]


def without(case: Any, *names: str) -> None:
    """Take distributions away, whose absence nobody asks about: there are no pins."""
    case.image, case.lock = {}, ""
    case.facts["sources"] = {}
    case.facts["imports"] = {}
    for name in names:
        case.remove(name)


def test_an_image_without_torch_computes_nothing_and_that_is_no_failure(host: Any) -> None:
    without(host, "torch", "torch-npu", "torchvision", "torchaudio")
    host.no_torch("ModuleNotFoundError: No module named 'torch'")
    for name in ("devices", "matmul", "all-reduce", "generate"):
        said = answer(host, name)
        assert (said.answer.value, said.found) == ("not run", "the image has no torch")


def test_torch_without_torch_npu_has_its_finding_already(host: Any) -> None:
    without(host, "torch-npu")
    host.no_torch("ModuleNotFoundError: No module named 'torch_npu'")
    host.facts["imports"] = {}
    for name in ("devices", "matmul", "all-reduce", "generate"):
        assert answer(host, name).found == "because of torch-family: torch_npu"


def test_a_torch_that_no_metadata_tells_of_computes_all_the_same(host: Any) -> None:
    without(host, "torch", "torch-npu", "torchvision", "torchaudio")
    assert set(states(host, "devices", "matmul", "all-reduce")) == {"pass"}


def test_an_image_without_vllm_generates_nothing(host: Any) -> None:
    without(host, "vllm", "vllm")
    host.facts["asked"]["model"] = "/models/x"
    host.facts["probe"]["generate"] = ran(exit=1, stderr="ModuleNotFoundError: No module named 'vllm'")
    said = answer(host, "generate")
    assert (said.answer.value, said.found) == ("not run", "the image has no vllm")


# --- what to type next


REFERENCE = "quay.io/ascend/cann:8.5.1-910b-ubuntu22.04-py3.11"


@pytest.mark.parametrize("pins", [True, False], ids=["pins", "no pins"])
@pytest.mark.parametrize("outside", [True, False], ids=["from outside", "in the container"])
@pytest.mark.parametrize("spoil", [pytest.param(row[3], id=row[0]) for row in (*test_checks.FAULTS, *FAULTS)])
def test_what_to_type_next_leaves_nothing_open(host: Any, spoil: Spoil, pins: bool, outside: bool) -> None:
    spoil(host)
    if not pins:
        host.image, host.facts["sources"] = {}, {}
    if outside:
        host.facts.setdefault("container", {})["reference"] = REFERENCE
    for said in [said for list_of in host.ask().values() for said in list_of if said.next]:
        assert not re.search(r"…|\.\.\.|<\w+>|--variant(?! [a-z0-9])|None", said.next), said.next
        # What is in the container of a verification is gone with it, and may not be in the image at all.
        assert not outside or "/opt/ascend-images" not in said.next


def test_a_step_is_repeated_by_hand_where_its_program_lies(host: Any) -> None:
    host.facts["probe"]["all_reduce"]["said"][1]["wrong"] = 3
    words = "all-reduce --backend hccl --indices 0,1 --device npu"
    assert answer(host, "all-reduce").next == f"run it by hand in the container: python3 {probes.PROGRAM} {words}"
    assert Path(probes.PROGRAM).is_file()
    host.facts["container"] = {"reference": REFERENCE}
    assert answer(host, "all-reduce").next == (
        f"run it by hand: invoke run --image {REFERENCE} --devices 0,1 --mount ./ascend_images/inside:/mnt/inside:ro "
        f"-- python3 /mnt/inside/probe.py {words}"
    )


def test_a_model_is_served_by_hand_with_its_folder_mounted(host: Any) -> None:
    host.facts["asked"]["model"] = "/mnt/model"
    host.facts["probe"]["generate"] = ran({"tokens": 0})
    command = "vllm serve /mnt/model --enforce-eager --max-model-len 256"
    assert answer(host, "generate").next == command
    host.facts["container"] = {"reference": REFERENCE}
    assert answer(host, "generate").next.endswith(
        f'invoke run --image {REFERENCE} --mount "$MODEL:/mnt/model:ro" -- {command}'
    )


def test_an_import_is_repeated_in_a_container_of_the_image_with_its_npus_where_there_are_any(host: Any) -> None:
    host.fails("torch_npu", "ImportError: libhccl.so: cannot open shared object file")
    said = next(said for said in host.ask()["entry-points"] if said.subject == "torch_npu")
    assert said.next == "python3 -c 'import torch_npu'"
    host.facts["container"] = {"reference": REFERENCE}
    said = next(said for said in host.ask()["entry-points"] if said.subject == "torch_npu")
    assert said.next == f"invoke run --image {REFERENCE} -- python3 -c 'import torch_npu'"
    without_nodes(host)
    said = next(said for said in host.ask()["entry-points"] if said.subject == "torch_npu")
    assert said.next == f"docker run --rm {REFERENCE} python3 -c 'import torch_npu'"


def test_who_insists_on_an_npu_from_outside_is_sent_to_a_host_that_has_one(host: Any) -> None:
    without_nodes(host)
    host.facts["asked"]["devices"] = []
    host.facts["container"] = {"reference": REFERENCE, "npu_required": True}
    assert answer(host, "npu").next == "run this on a host with NPUs (invoke doctor)"
    del host.facts["container"]["reference"]
    assert "invoke run --variant a2 --print" in answer(host, "npu").next
    host.image = {}
    assert 'invoke run --image "$IMAGE" --print' in answer(host, "npu").next


def test_an_image_without_a_name_is_not_named_where_another_chip_is_found(host: Any) -> None:
    host.facts["npu_smi"]["text"] = npu_smi_text("a3-2npu.txt")
    assert answer(host, "chip").next.endswith("invoke variants lists them (this one is a2)")
    del host.image["variant"]
    assert answer(host, "chip").next.endswith("invoke variants lists them")


# --- docker exec, as somebody outside sees it


def test_docker_exec_needs_what_the_pins_say_and_not_what_entrypoint_adds(case: Any) -> None:
    pinned = {"SOC_VERSION": "ascend910b1", "VLLM_USE_MODELSCOPE": "True"}
    path = case.facts["environment"]["process"]["PYTHONPATH"]
    case.facts["environment"]["exec"] = {**pinned, "PYTHONPATH": path}
    case.facts["environment"]["python3"]["exec"] = case.facts["python"]["executable"]
    assert ("docker exec", "pass") in [(said.subject, said.answer.value) for said in case.ask()["shells"]]
    assert case.failures() == []
    for change, found in (
        ({"SOC_VERSION": "other"}, "SOC_VERSION is other"),
        ({"PYTHONPATH": "/x"}, "PYTHONPATH lacks "),
    ):
        if "SOC_VERSION" in change:
            case.image["env"]["SOC_VERSION"] = "ascend910b1"
        case.facts["environment"]["exec"] = {**pinned, "PYTHONPATH": path, **change}
        ((name, said),) = case.failures()
        assert (name, said.subject) == ("shells", "docker exec")
        assert found in said.found
    case.facts["environment"]["exec"] = {"PYTHONPATH": path, "SOC_VERSION": "ascend910b1"}
    assert "VLLM_USE_MODELSCOPE is not set" in case.failures()[0][1].found


def test_docker_exec_with_another_python_fails(case: Any) -> None:
    case.image["env"] = {}
    case.facts["environment"]["exec"] = {}
    case.facts["environment"]["python3"]["exec"] = "/usr/bin/python3"
    ((name, said),) = case.failures()
    assert (name, said.found) == ("shells", "python3 is /usr/bin/python3")


def test_docker_exec_without_a_python_fails_by_the_pins_alone(case: Any) -> None:
    case.image["env"] = {}
    case.facts["environment"]["exec"] = {}
    case.facts["environment"]["python3"]["exec"] = ""
    ((name, said),) = case.failures()
    assert (name, said.found) == ("shells", "python3 is not found")
    case.image = {}
    assert ("docker exec", "unknown") in [(said.subject, said.answer.value) for said in case.ask()["shells"]]


def test_docker_exec_that_was_not_asked_is_unknown_from_outside(case: Any) -> None:
    assert [said.subject for said in case.ask()["shells"]] == ["sh -c", "bash -l"]
    case.facts["container"] = {"reference": REFERENCE}
    said = case.ask()["shells"][-1]
    assert (said.subject, said.answer.value) == ("docker exec", "unknown")
    assert REFERENCE in said.next
    case.facts["environment"].update(env_runs=False, exec={})
    assert [said.subject for _, said in case.failures()] == ["/usr/bin/env"]


def test_a_variable_that_is_wrong_everywhere_is_found_once(case: Any) -> None:
    case.set("SOC_VERSION", "ascend910b4")
    case.facts["environment"]["exec"] = dict(case.facts["environment"]["process"])
    assert [name for name, _ in case.failures()] == ["environment-values"]
