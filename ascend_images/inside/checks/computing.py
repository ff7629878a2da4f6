"""Checks: what the NPUs compute, asked for with --npu."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..answers import NOT_LIVE, Given, Said, check, failed, in_image, not_run, passed
from ..facts.npu import RT_VISIBLE, VISIBLE
from ..facts.probes import PROGRAM
from ..words import Facts, count, few, without_log_lines
from .imports import how_it_ended, root_cause
from .nodes import asked, because_of, davinci, hindered, mounts, nodes

NOT_ASKED = not_run("", "asked for with --npu")

#: Where probe.py is mounted by hand.
_MOUNTED = "/mnt/inside"

#: What explains that nothing can be computed. An import that failed is looked at apart: only some of them matter.
_CAUSES = ("driver-mounted", "device-access", "npu-smi")


def hindrance(given: Given, *checks: str) -> Said | None:
    """Return why a question to the computing devices cannot be asked; None where their facts are there."""
    if not given.facts["live"]:
        return NOT_LIVE
    wishes = given.facts["asked"]
    if wishes["device"] == "npu":
        found = hindered(given, *_CAUSES, *checks)
        # Without a device that is the reason, and asking would not help.
        if found is not None:
            return found
    if not wishes["npu"]:
        return NOT_ASKED
    absent = without_torch(given)
    if absent is not None:
        return absent
    for name in ("torch", "torch_npu"):
        for said in given.earlier.get("entry-points", []):
            if said.subject == name and said.answer.value in ("fail", "not run"):
                return not_run("", f"because of entry-points: {name}")
    return because_of(given, *checks)


def without_torch(given: Given) -> Said | None:
    """Return why nothing computes in an image without torch, by its metadata; None where torch has counted devices."""
    if given.facts["probe"] and went_well(given.facts["probe"]["count"]):
        return None
    names = ("torch", "torch_npu") if given.facts["asked"]["device"] == "npu" else ("torch",)
    absent = next((name for name in names if not given.version(name)), "")
    return (because_of(given, "torch-family") or not_run("", f"the image has no {absent}")) if absent else None


def probe(given: Given) -> Facts:
    """Return what probe.py found."""
    found: Facts = given.facts["probe"]
    return found


def went_well(ran: Mapping[str, Any]) -> bool:
    """Tell whether a step of probe.py came to its end."""
    return ran["exit"] == 0 and not ran["signal"] and not ran["timed_out"]


def crash(ran: Mapping[str, Any]) -> str:
    """Return in words how a step of probe.py ended badly."""
    end = root_cause(ran["stderr"])
    return f"{how_it_ended(ran)}: {end}" if end else how_it_ended(ran)


def by_hand(what: str, given: Given) -> str:
    """Return how to see the whole of what a step wrote.

    From outside this project's folder is mounted: the container is gone, and the image may have no such program.
    """
    words = f"{what} --device {given.facts['asked']['device']}"
    if not given.reference:
        return f"run it by hand in the container: python3 {PROGRAM} {words}"
    devices = [f"--devices {','.join(map(str, nodes(given)))}"] if nodes(given) else []
    mount = f"--mount ./ascend_images/inside:{_MOUNTED}:ro"
    return f"run it by hand: {in_image(given, f'python3 {_MOUNTED}/probe.py {words}', *devices, mount)}"


@check(
    "devices",
    "Are the NPUs that were asked for the ones in the container and the ones that torch sees?",
    "Give the container the nodes of all NPUs that it is asked to use, and leave ASCEND_RT_VISIBLE_DEVICES unset.",
)
def check_devices(given: Given) -> list[Said]:
    """A container may have fewer NPUs than were asked for, or none, and start all the same (HAMi#2954)."""
    found = hindrance(given)
    if found is not None:
        return [found]
    kind, wanted, here = given.facts["asked"]["device"], asked(given), nodes(given)
    if kind == "npu" and wanted and sorted(wanted) != here:
        return [failed("nodes", davinci(here), davinci(wanted), mounts(given))]
    ran = probe(given)["count"]
    if not went_well(ran) or not ran["said"]:
        return [failed("torch", crash(ran), f"torch that counts its devices ({kind})", by_hand("count", given))]
    said = ran["said"][-1]
    seen, names = said["count"], ", ".join(dict.fromkeys(filter(None, said["names"])))
    expected = len(here) if kind == "npu" else max(seen, 1)
    if not said["available"] or seen != expected:
        visible = given.facts["devices"]["visible"]
        set_to = [f"{name}={visible[name]}" for name in (VISIBLE, RT_VISIBLE) if visible.get(name) is not None]
        return [
            failed(
                "torch",
                f"torch sees {seen} of {count(expected, 'device')} ({davinci(here) or kind})"
                + (f"; {', '.join(set_to)}" if set_to else ""),
                f"all {expected}",
                f"unset {RT_VISIBLE}, and see what holds the others: invoke doctor",
            )
        ]
    return [passed("", f"{davinci(here) or kind}; torch sees {seen}{f': {names}' if names else ''}")]


@check(
    "matmul",
    "Does a matrix product on each NPU agree with the CPU's, in each type that the chip has?",
    "Compare driver and CANN (`invoke doctor`), and the operator package with the chip; a device that alone is "
    "wrong is "
    "ill: npu-smi info -t health.",
)
def check_matmul(given: Given) -> list[Said]:
    """An image may import everything and compute nothing, or nonsense: operators of another chip, a driver too old.

    The largest error, relative to the largest entry of the CPU's float64 product, must stay below a stated tolerance:
    four roundings of an operand, 0.00195 for float16, 0.0156 for bfloat16, and 0.00195 for float32, since chips may
    multiply it in HF32 or as float16.
    """
    found = hindrance(given, "chip", "devices")
    if found is not None:
        return [found]
    answers: list[Said] = []
    causes: dict[str, str] = {}
    for index, ran in sorted(probe(given)["matmul"].items(), key=lambda pair: int(pair[0])):
        name = f"{given.facts['asked']['device']}:{index}"
        for said in product_answers(given, name, ran):
            if said.answer.value == "fail" and said.found in causes:
                answers.append(
                    not_run(said.subject, f"because of matmul: {causes[said.found]}, which fails in the same way")
                )
                continue
            if said.answer.value == "fail":
                causes[said.found] = said.subject
            answers.append(said)
    return answers or [not_run("", "torch sees no device")]


def product_answers(given: Given, name: str, ran: Mapping[str, Any]) -> list[Said]:
    """Return what the products of one device say: one answer for all that agree, one for each other kind."""
    good, wrong, skipped = [], [], []
    then = by_hand(f"matmul --index {name.partition(':')[2]}", given)
    for said in ran["said"]:
        dtype = said.get("dtype", "")
        if "skipped" in said:
            skipped.append(not_run(f"{name} {dtype}", said["skipped"]))
        elif "failed" in said:
            wrong.append(f"{dtype}: {without_log_lines(said['failed']).strip()}")
        elif said["error"] is None:
            wrong.append(f"{dtype}: the product holds what is no number")
        elif said["error"] > said["tolerance"]:
            wrong.append(f"{dtype}: relative error {said['error']}, tolerance {said['tolerance']}")
        else:
            good.append(f"{dtype} {said['error']} (tolerance {said['tolerance']})")
    if not went_well(ran):
        wrong.append(crash(ran))
    if wrong:
        return [failed(name, "; ".join(wrong), "the CPU's product, within the tolerance", then), *skipped]
    if not good:
        return [failed(name, "it ended without a product", "a product in each type", then), *skipped]
    return [passed(name, f"relative error {', '.join(good)}"), *skipped]


@check(
    "all-reduce",
    "Do several NPUs sum a vector exactly, by HCCL?",
    "See whether the container has all NPUs of a card, a passwd entry for its user and /dev/shm enough "
    "(--shm-size), and "
    "whether another job uses the same NPUs.",
)
def check_all_reduce(given: Given) -> list[Said]:
    """HCCL fails where one NPU alone works: a user without a passwd entry, half a card (vllm-ascend#9490)."""
    found = hindrance(given, "chip", "devices", "matmul")
    if found is not None:
        return [found]
    ran, ranks = probe(given)["all_reduce"], probe(given)["ranks"]
    if ran is None:
        return [not_run("", "it takes two devices or more")]
    indices = ",".join(str(index) for index in range(ranks))
    then = by_hand(f"all-reduce --backend {given.facts['asked']['backend']} --indices {indices}", given)
    wanted = f"the exact sum on each of {count(ranks, 'rank')}"
    wrong = [said for said in ran["said"] if said.get("wrong")]
    if wrong:
        text = few(f"rank {said['rank']}: {said['wrong']} of {said['of']} numbers" for said in wrong)
        return [failed(given.facts["asked"]["backend"], f"wrong sums: {text}", wanted, then)]
    done = {said["rank"] for said in ran["said"] if said.get("wrong") == 0}
    if not went_well(ran) or len(done) != ranks:
        died = next((f"rank {said['rank']}: {said['failed']}" for said in ran["said"] if "failed" in said), "")
        text = ": ".join(part for part in (died, root_cause(ran["stderr"])) if part) if died else crash(ran)
        return [failed(given.facts["asked"]["backend"], f"{text}; {len(done)} of {ranks} ranks done", wanted, then)]
    return [passed(given.facts["asked"]["backend"], count(ranks, "rank"))]


@check(
    "generate",
    "Does vLLM generate tokens from a local model?",
    "Start vLLM by hand with the same model; what it says last names the cause: memory, a model that it does not "
    "know, or "
    "an operator that this chip lacks.",
)
def check_generate(given: Given) -> list[Said]:
    """What people start is vLLM, and between a matrix product and a token lies most of the image."""
    model = given.facts["asked"]["model"]
    found = hindrance(given, "chip", "devices", "matmul")
    if found is not None:
        return [found]
    if not model:
        return [not_run("", "asked for with --model")]
    ran = probe(given)["generate"]
    if ran is None:
        return [not_run(model, "torch sees no device")]
    if not went_well(ran) and not has_vllm(given):
        return [not_run(model, "the image has no vllm")]
    tokens = sum(said.get("tokens", 0) for said in ran["said"])
    if not went_well(ran) or not tokens:
        text = crash(ran) if not went_well(ran) else "no token"
        return [failed(model, text, "at least one token", serve_by_hand(given, model))]
    return [passed(model, count(tokens, "token"))]


def has_vllm(given: Given) -> bool:
    """Tell whether vLLM is installed by its metadata, or is a source of the pins."""
    return bool(given.version("vllm")) or any(source.get("module") == "vllm" for source in given.sources)


def serve_by_hand(given: Given, model: str) -> str:
    """Return how to start vLLM with the same model."""
    command = f"vllm serve {model} --enforce-eager --max-model-len 256"
    if not given.reference:
        return command
    started = in_image(given, command, f'--mount "$MODEL:{model}:ro"')
    return f"with MODEL set to the folder of --model: {started}"
