"""Rules of what is released together: vLLM Ascend, MindSpeed, mcore-bridge, and what each was tested with."""

from collections.abc import Iterator

import msgspec

from ascend_images.pins.compat import base_version, fits, version
from ascend_images.pins.questions import is_commit
from ascend_images.pins.rules.rule import Asked, Problem, Rule, release_of
from ascend_images.pins.variant import Checkout


def _row_of_vllm_ascend(asked: Asked) -> Iterator[Problem]:
    source = asked.sources.get("vllm-ascend")
    if source is None:
        return
    if not source.version:
        yield _no_version(source, "which row of vLLM Ascend's compatibility table it has to meet")
        return
    row = asked.tables.vllm_ascend.get(source.version)
    if row is None:
        yield Problem(f"the compatibility table has no row for vLLM Ascend {source.version}", unknown=True)
        return
    variant = asked.variant
    vllm = asked.sources.get("vllm")
    if vllm is not None and not vllm.version:
        yield _no_version(vllm, f"whether it is the vLLM {row.vllm} of the row of vLLM Ascend {source.version}")
    if not asked.package("torch-npu"):
        yield _not_pinned("torch_npu", f"the {row.torch_npu} of the row of vLLM Ascend {source.version}")
    pairs = [
        ("vLLM", vllm.version if vllm else asked.package("vllm"), row.vllm),
        ("torch_npu", asked.package("torch-npu"), row.torch_npu),
        ("triton-ascend", asked.package("triton-ascend"), row.triton_ascend),
    ]
    differing = [
        f"{name} {found}, not {wanted}" for name, found, wanted in pairs if found and wanted and found != wanted
    ]
    cann = row.cann_by_chip.get(variant.chip.cann_tag, row.cann)
    if release_of(variant.cann) != release_of(cann):
        differing.append(f"CANN {variant.cann}, not {cann}")
    if not fits(f"{variant.python}.0", row.python):
        differing.append(f"Python {variant.python}, not {row.python}")
    if differing:
        yield Problem(
            f"the row of vLLM Ascend {source.version} is not met: {'; '.join(differing)}",
            f"the row, {_shown(msgspec.structs.replace(row, cann=cann, cann_by_chip={}))}",
        )


def _no_version(source: Checkout, open_question: str) -> Problem:
    """Return what is said where a rule would have to know the version of a source; its ref says none."""
    place = source.ref[:12] if is_commit(source.ref) else source.ref
    return Problem(
        f"{source.name} at {place} has no known version, so {open_question} is not known",
        f"the version that is there: sources.{source.name}.version",
        unknown=True,
    )


def _not_pinned(name: str, wanted: str) -> Problem:
    return Problem(f"{name} is not pinned: whether it is {wanted} is not known", f"a pin of {name}", unknown=True)


def _wheel_of_vllm_ascend(asked: Asked) -> Iterator[Problem]:
    pin, variant = asked.package("vllm-ascend"), asked.variant
    if pin and variant.chip.device_type != "A2":
        yield Problem(
            f"vllm-ascend {pin} as a wheel on {variant.chip.name}: wheels on the default index are built for the A2, "
            "and refuse to start elsewhere",
            "vllm-ascend as a source, which is compiled for the SoC",
        )


def _shown(row: msgspec.Struct) -> str:
    return ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(row).items() if value)


def _row_of_mindspeed(asked: Asked) -> Iterator[Problem]:
    source = asked.sources.get("mindspeed")
    if source is None:
        return
    if not source.version:
        yield _no_version(source, "which row of MindSpeed's table it has to meet")
        return
    row = asked.tables.mindspeed.get(source.version)
    if row is None:
        yield Problem(f"MindSpeed's table has no row for {source.version}", unknown=True)
        return
    variant = asked.variant
    torch = base_version(asked.package("torch"))
    if not torch:
        yield _not_pinned("torch", f"the {row.torch} of the row of MindSpeed {source.version}")
    differing = [
        f"{name} {found}, not {wanted}"
        for name, found, wanted in (
            ("CANN", variant.cann, row.cann),
            ("torch", torch, row.torch),
            ("Python", variant.python, row.python),
        )
        if found and found != wanted
    ]
    if differing:
        yield Problem(
            f"the row of MindSpeed {source.version} is not met: {'; '.join(differing)}", f"the row, {_shown(row)}"
        )


def _megatron_of_mindspeed(asked: Asked) -> Iterator[Problem]:
    mindspeed, megatron = asked.sources.get("mindspeed"), asked.sources.get("megatron-lm")
    if mindspeed is None or megatron is None:
        return
    for source in (mindspeed, megatron):
        if not source.version:
            yield _no_version(source, "whether MindSpeed and Megatron-LM are of one series")
    one, other = version(mindspeed.version), version(megatron.version)
    if one is not None and other is not None and one.release[:2] != other.release[:2]:
        series = ".".join(str(number) for number in one.release[:2])
        yield Problem(
            f"MindSpeed {mindspeed.version} ({mindspeed.ref}) with Megatron-LM {megatron.version} ({megatron.ref})",
            f"Megatron-LM {series}",
        )


def _megatron_of_bridge(asked: Asked) -> Iterator[Problem]:
    bridge, megatron = asked.sources.get("mcore-bridge"), asked.sources.get("megatron-lm")
    if bridge is None or megatron is None:
        return
    unversioned = [source for source in (bridge, megatron) if not source.version]
    for source in unversioned:
        yield _no_version(source, "whether mcore-bridge takes this Megatron-LM")
    if unversioned:
        return
    for row in asked.tables.mcore_bridge:
        if fits(bridge.version, row.bridge):
            if not fits(megatron.version, row.megatron):
                message = f"mcore-bridge {bridge.version} with Megatron-LM {megatron.version}"
                yield Problem(message, f"megatron-core {row.megatron}")
            return
    yield Problem(f"which megatron-core mcore-bridge {bridge.version} takes is not known", unknown=True)


RULES = (
    Rule(
        "vllm-ascend-row", "vLLM Ascend is tested with one vLLM, CANN, torch_npu and triton-ascend", _row_of_vllm_ascend
    ),
    Rule("mindspeed-row", "MindSpeed is tested with one CANN, torch and Python", _row_of_mindspeed),
    Rule(
        "vllm-ascend-wheel",
        "a build of vLLM Ascend carries the family of chips it was made for",
        _wheel_of_vllm_ascend,
    ),
    Rule("mindspeed-megatron", "MindSpeed patches the megatron-core of its own branch", _megatron_of_mindspeed),
    Rule("mcore-bridge", "mcore-bridge takes a range of megatron-core", _megatron_of_bridge),
)
