"""What must fit together in a variant: rules over the pins and the vendors' tables, each with an id to accept it by.

A rule yields problems; none means that it holds. `evaluate` turns them into findings: broken, accepted (by its id, with
a reason, in the stack) or unknown, where no table says.
"""

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, nearest
from ascend_images.pins.bindings import range_served
from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.compat import Abi, Compat, base_version, compat, fits, version
from ascend_images.pins.model import Pins
from ascend_images.pins.overrides import version_of_ref
from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import is_commit
from ascend_images.pins.tags import BaseTag, ImageRef, placeholders
from ascend_images.pins.validate import dotted
from ascend_images.pins.variant import TORCH_TRIO, Checkout, Finding, Variant

UNUSED_ACCEPT = "unused-accept"
MOVING_REF = "moving-ref"


@dataclass(frozen=True)
class Problem:
    """What a rule found; `unknown` where its table does not say."""

    message: str
    wanted: str = ""
    unknown: bool = False


@dataclass(frozen=True)
class Rule:
    """One rule: its id, why it is one, and the function that asks it."""

    id: str
    why: str
    ask: Callable[["Asked"], Iterable[Problem]]


@dataclass(frozen=True)
class Asked:
    """What a rule is asked of: the variant, all pins, and its packages by normalised name."""

    variant: Variant
    pins: Pins
    packages: dict[str, str]
    sources: dict[str, Checkout]
    tables: Compat

    def package(self, name: str) -> str:
        """Return the pinned version of a package, or nothing."""
        return self.packages.get(name, "")


def evaluate(variant: Variant, pins: Pins, tables: Compat | None = None) -> tuple[Finding, ...]:
    """Return what every rule finds of a variant, and each accept that accepts nothing.

    `tables` stand in for those of compat.toml. Raises BadInput for an index entry that is no requirement.
    """
    asked = Asked(
        variant=variant,
        pins=pins,
        packages={_canonical(name): pin for name, pin in variant.packages.items()},
        sources={source.name.lower(): source for source in variant.sources},
        tables=tables or compat(),
    )
    findings = [_finding(rule, problem, variant) for rule in RULES for problem in rule.ask(asked)]
    return (*findings, *_unused_accepts(variant, findings))


def ways_out(variants: Iterable[Variant]) -> str:
    """Return what to type where rules are broken: the accept of each by its id, or what to remove from the file."""
    stacks: dict[str, dict[str, None]] = {}
    for variant in variants:
        broken = (finding.rule for finding in variant.findings if finding.state == "broken")
        stacks.setdefault(variant.stack, {}).update(dict.fromkeys(broken))
    return "\n          ".join(_way_out(stack, list(broken)) for stack, broken in stacks.items() if broken)


def _way_out(stack: str, broken: Sequence[str]) -> str:
    table = f"[{dotted(('stack', stack, 'accept'))}] of versions.toml"
    accepts = [f'--set "accept.{rule}=REASON"' for rule in broken if rule != UNUSED_ACCEPT]
    ways = []
    if accepts:
        ways.append(f"change a pin; or, where it is meant: {' '.join(accepts)}, or the same in {table}")
    if UNUSED_ACCEPT in broken:
        ways.append(f"remove the accept from {table}")
    return "; ".join(ways)


def default_triton_ascend(pins: Pins, cann: str) -> str:
    """Return the triton-ascend of a CANN release's series; raises BadInput for a series that has none."""
    name = ReleaseVersion.parse(cann).series
    series = pins.series.get(name)
    if series is None or series.triton_ascend is None:
        having = [f"{key} ({value.triton_ascend})" for key, value in pins.series.items() if value.triton_ascend]
        raise BadInput(
            f"CANN {name} has no default triton-ascend",
            wanted=f"a version of triton-ascend; series with a default: {', '.join(having)}",
            do="--set packages.triton-ascend=…, or write it to the stack's packages",
        )
    return series.triton_ascend


def constraints(variant: Variant) -> tuple[str, ...]:
    """Return what the rules ask of packages that are not pinned to one version, as requirements, for the resolver."""
    pinned = {_canonical(name): pin for name, pin in variant.packages.items()}
    if version(pinned.get("numpy", "")) is not None:
        return ()
    numpy = _numpy_range(compat(), variant.cann, variant.python)
    return (f"numpy{numpy}",) if numpy else ()


def _finding(rule: Rule, problem: Problem, variant: Variant) -> Finding:
    if problem.unknown:
        return Finding(rule=rule.id, state="unknown", message=problem.message, reason="", wanted=problem.wanted)
    reason = variant.accept.get(rule.id)
    return Finding(
        rule=rule.id,
        state="broken" if reason is None else "accepted",
        message=problem.message,
        reason=reason or "",
        wanted=problem.wanted,
    )


def _unused_accepts(variant: Variant, findings: Iterable[Finding]) -> Iterator[Finding]:
    used = {finding.rule for finding in findings if finding.state == "accepted"}
    not_asked = {finding.rule: finding.message for finding in findings if finding.state == "unknown"}
    known = [rule.id for rule in RULES]
    for accepted in variant.accept:
        if accepted not in known:
            message = f'the accept "{accepted}" names no rule'
            yield Finding(
                rule=UNUSED_ACCEPT, state="broken", message=message, reason="", wanted=nearest(accepted, known)
            )
        elif accepted not in used and accepted in not_asked:
            # Nobody knows whether it is needed: to call it needless would have it removed, and missed afterwards.
            message = f'the accept "{accepted}" could not be asked: {not_asked[accepted]}'
            yield Finding(rule=UNUSED_ACCEPT, state="unknown", message=message, reason="")
        elif accepted not in used:
            message = f'the accept "{accepted}" accepts nothing: the rule holds'
            wanted = f"no accept.{accepted} in stack {variant.stack}"
            yield Finding(rule=UNUSED_ACCEPT, state="broken", message=message, reason="", wanted=wanted)


# --- torch ------------------------------------------------------------------------------------------------------------


def _torch_of_torch_npu(asked: Asked) -> Iterator[Problem]:
    torch, torch_npu = asked.package("torch"), asked.package("torch-npu")
    if not torch or not torch_npu:
        return
    for name, pin in (("torch", torch), ("torch_npu", torch_npu)):
        if version(pin) is None:
            yield Problem(f"{name} {pin} is a range: whether torch and torch_npu fit is not known", unknown=True)
            return
    if base_version(torch) != base_version(torch_npu):
        yield Problem(f"torch {torch} with torch_npu {torch_npu}", f"torch {base_version(torch_npu)}")


def _torch_companions(asked: Asked) -> Iterator[Problem]:
    torch = base_version(asked.package("torch"))
    if not torch:
        return
    for name in TORCH_TRIO[1:]:
        if not asked.package(name):
            yield Problem(f"{name} is not pinned beside torch {torch}", f"a pin of {name}")
    row = asked.tables.torch.get(torch)
    if row is None:
        yield Problem(f"which torchvision and torchaudio go with torch {torch} is not known", unknown=True)
        return
    for name, wanted in (("torchvision", row.torchvision), ("torchaudio", row.torchaudio)):
        found = asked.package(name)
        if found and wanted and base_version(found) != wanted:
            yield Problem(f"{name} {found} with torch {torch}", f"{name} {wanted}")


def _cann_of_torch_npu(asked: Asked) -> Iterator[Problem]:
    torch_npu = asked.package("torch-npu")
    if not torch_npu:
        return
    release = asked.tables.torch_npu.get(torch_npu)
    if release is None:
        yield Problem(f"which CANN torch_npu {torch_npu} is built for is not known", unknown=True)
    elif not _same_release_or_series(release, asked.variant.cann):
        fitting = [
            npu for npu, cann in asked.tables.torch_npu.items() if _same_release_or_series(cann, asked.variant.cann)
        ]
        same_torch = [npu for npu in fitting if base_version(npu) == base_version(torch_npu)]
        yield Problem(
            f"torch_npu {torch_npu} is built for CANN {release}, and this is CANN {asked.variant.cann}",
            f"torch_npu {' or '.join(same_torch or fitting)}" if fitting else f"CANN {release}",
        )


def _same_release_or_series(tabled: str, cann: str) -> bool:
    """Return whether a release answers a table's entry: X.Y.0 there stands for its series, another for itself."""
    one, other = _release(tabled), _release(cann)
    return one.series == other.series if tabled.endswith(".0") else one == other


def _index_of_cpu_torch(asked: Asked) -> Iterator[Problem]:
    trio = [name for name in TORCH_TRIO if asked.package(name)]
    if Arch.AMD64 in asked.variant.platforms:
        missing = [f"{name} {asked.package(name)}" for name in trio if not _index_of(asked, name, Arch.AMD64)]
        if missing:
            yield Problem(
                f"amd64 takes {', '.join(_with_cpu(pin) for pin in missing)}, and no index serves "
                + ("it" if len(missing) == 1 else "them"),
                f"an [index.…] that serves {' and '.join(pin.split()[0] for pin in missing)} on x86_64, "
                'or platforms = ["arm64"]',
            )
    torch = version(asked.package("torch"))
    if (
        Arch.ARM64 in asked.variant.platforms
        and torch is not None
        and torch.release >= _CUDA_ON_ARM64_FROM
        and not _index_of(asked, "torch", Arch.ARM64)
    ):
        yield Problem(
            f"arm64 takes torch {torch} from the default index, where it is a CUDA build from 2.11 on",
            'an [index.…] of CPU builds that serves torch on aarch64, or platforms = ["amd64"]',
        )


#: Up to 2.10 the default index's torch for aarch64 is a CPU build of 100 to 140 MB, from here on a CUDA one of 400 MB.
_CUDA_ON_ARM64_FROM = (2, 11)


def _with_cpu(pin: str) -> str:
    return pin if "+" in pin else f"{pin}+cpu"


def _index_of_triton_ascend(asked: Asked) -> Iterator[Problem]:
    pin, variant = asked.package("triton-ascend"), asked.variant
    parsed = version(pin)
    in_default = parsed is not None and parsed.release < _TRITON_ASCEND_ELSEWHERE_FROM
    if not pin or (in_default and fits(f"{variant.python}.0", "<3.12")):
        return
    missing = [arch for arch in variant.platforms if not _index_of(asked, "triton-ascend", arch)]
    if missing and parsed is None:
        yield Problem(
            f"triton-ascend {pin} is a range, and no index serves it on {' and '.join(missing)}: whether the default "
            "one has what is locked is not known",
            "one version, or an [index.…] that serves triton-ascend",
            unknown=True,
        )
    elif missing:
        yield Problem(
            f"triton-ascend {pin} for Python {variant.python} on {' and '.join(missing)}: no index serves it, and the "
            "default one has it up to 3.2.0 and for Python below 3.12 only",
            "an [index.…] that serves triton-ascend",
        )


_TRITON_ASCEND_ELSEWHERE_FROM = (3, 2, 1)


def _index_of(asked: Asked, name: str, arch: Arch) -> bool:
    """Return whether an index of the file serves a pinned package there."""
    pin = asked.package(name)
    return any(_serves(index.serves, name, pin, asked.variant.python, arch) for index in asked.variant.indexes.values())


@lru_cache(maxsize=1024)
def _serves(serves: tuple[str, ...], name: str, pin: str, python: str, arch: Arch) -> bool:
    ranges = (range_served(text, name, python, arch) for text in serves)
    return any(found is not None and (version(pin) is None or fits(pin, str(found))) for found in ranges)


# --- vLLM Ascend, MindSpeed, mcore-bridge -----------------------------------------------------------------------------


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
    if _release(variant.cann) != _release(cann):
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


# --- hardware and base image ------------------------------------------------------------------------------------------


def _soc_of_hardware(asked: Asked) -> Iterator[Problem]:
    variant = asked.variant
    known = tuple(dict.fromkeys((variant.chip.soc_version, *variant.chip.soc_versions)))
    if not any(fnmatch.fnmatchcase(variant.soc_version, pattern.lower()) for pattern in known):
        owner = next(
            (
                f" (of {hardware.name})"
                for hardware in asked.pins.hardware.values()
                if any(fnmatch.fnmatchcase(variant.soc_version, p.lower()) for p in hardware.soc_versions)
            ),
            "",
        )
        yield Problem(f"SoC {variant.soc_version}{owner} on {variant.chip.name}", f"one of {', '.join(known)}")


def _first_generation(asked: Asked) -> Iterator[Problem]:
    variant = asked.variant
    if variant.chip.cann_tag == "910" and ("vllm-ascend" in asked.sources or asked.package("vllm-ascend")):
        yield Problem(
            f"{variant.chip.name} has CANN's tag 910, the first generation, which vLLM Ascend does not support",
            "cann_tag 910b where an A2 is meant, or a stack without vllm-ascend",
        )


def _chip_of_base(asked: Asked) -> Iterator[Problem]:
    variant = asked.variant
    chip = _base_tag(variant.base_image).chip
    if chip.lower() != variant.chip.cann_tag:
        first = " (910 is the first generation, not A2)" if chip == "910" else ""
        yield Problem(
            f"the base image {variant.base_image} is for {chip}{first}, "
            f"and SoC {variant.soc_version} is of {variant.chip.cann_tag}",
            f"a base image of {variant.chip.cann_tag}",
        )


def _base_is_offered(asked: Asked) -> Iterator[Problem]:
    variant = asked.variant
    release = asked.pins.cann[variant.base_cann]
    chip = variant.chip.cann_tag
    if any(chip in b.chips and variant.os in b.os and variant.python in b.python for b in release.bases):
        return
    what = f"CANN {variant.base_cann} for {chip} on {variant.os} with Python {variant.python}"
    offered = sorted({f"{o} py{p}" for b in release.bases if chip in b.chips for o in b.os for p in b.python})
    if release.complete:
        yield Problem(
            f"there is no base image of {what}", f"one of {', '.join(offered)}" if offered else "another release"
        )
    else:
        yield Problem(f"whether there is a base image of {what} is not known", unknown=True)


def _triton_on_hardware(asked: Asked) -> Iterator[Problem]:
    chip = asked.variant.chip
    if chip.triton:
        return
    if asked.package("triton-ascend"):
        yield Problem(
            f"triton-ascend {asked.package('triton-ascend')} on {chip.name}, which it does not support",
            "a stack without triton-ascend",
        )
    for name in asked.tables.triton_importers:
        if asked.package(name) or name in asked.sources:
            yield Problem(f"{name} imports triton, which does not run on {chip.name}", f"a stack without {name}")


# --- packages ---------------------------------------------------------------------------------------------------------


def _tvm_ffi_of_xgrammar(asked: Asked) -> Iterator[Problem]:
    xgrammar = asked.package("xgrammar")
    if not xgrammar:
        return
    excluded = any(fnmatch.fnmatchcase("apache-tvm-ffi", _canonical_pattern(p)) for p in asked.variant.exclude)
    if _links_tvm_ffi(xgrammar) and excluded:
        yield Problem(
            f"xgrammar {xgrammar} links libtvm_ffi.so of apache-tvm-ffi, which is excluded",
            "no exclusion of apache-tvm-ffi: without it vLLM's server does not import",
        )


def _links_tvm_ffi(pin: str) -> bool:
    """Return whether a pin of xgrammar, a version or a range, is 0.2 or newer; a range is where it admits no 0.1."""
    parsed = version(pin)
    return parsed.release >= (0, 2) if parsed is not None else not fits("0.1.999", pin)


def _accepted_by_import(asked: Asked) -> Iterator[Problem]:
    for row in asked.tables.imports:
        pin, other = asked.package(_canonical(row.package)), asked.package(_canonical(row.needs))
        if not pin or (version(pin) is not None and not fits(pin, row.versions)):
            continue
        if version(other) is not None and fits(other, row.range):
            continue
        if version(pin) is None or version(other) is None:
            vague = f"{row.package} {pin} is a range" if version(pin) is None else ""
            vague = vague or (f"{row.needs} {other} is a range" if other else f"{row.needs} is not pinned")
            yield Problem(
                f"{vague}: {row.package}{row.versions} refuses any {row.needs} but {row.range} when it is imported",
                f"one version of {row.package} and of {row.needs}",
                unknown=True,
            )
        else:
            yield Problem(
                f"{row.package} {pin} refuses {row.needs} {other} when it is imported",
                f"{row.needs}{row.range}, or {row.package} not {row.versions}",
            )


def _numpy_of_cann(asked: Asked) -> Iterator[Problem]:
    allowed = _numpy_range(asked.tables, asked.variant.cann, asked.variant.python)
    if allowed is None:
        yield Problem(f"which numpy CANN {asked.variant.cann} takes is not known", unknown=True)
        return
    if not allowed:
        return
    numpy = asked.package("numpy")
    if not numpy:
        yield Problem(f"numpy is not pinned; the lock takes one in {allowed}", f"a pin in {allowed}", unknown=True)
    elif version(numpy) is None:
        message = f"numpy {numpy} is a range; the lock takes one of it in {allowed}"
        yield Problem(message, f"a pin in {allowed}", unknown=True)
    elif not fits(numpy, allowed):
        yield Problem(
            f"numpy {numpy} with CANN {asked.variant.cann} ({asked.tables.sources['numpy']})", f"numpy{allowed}"
        )


def _numpy_range(tables: Compat, cann: str, python: str) -> str | None:
    """Return the range of numpy that a CANN release takes, empty for any; None where the table has no such release."""
    series = _release(cann).series
    for row in tables.numpy:
        if series in row.series and (not row.python or fits(f"{python}.0", row.python)):
            return row.range
    return None


def _abi_of_os(asked: Asked) -> Iterator[Problem]:
    libraries = asked.tables.os.get(asked.variant.os)
    for package in dict.fromkeys(row.package for row in asked.tables.abi):
        pin = asked.package(_canonical(package))
        if not pin:
            continue
        if libraries is None:
            yield Problem(f"which symbol versions {asked.variant.os} has is not known", unknown=True)
            return
        need = _abi_need(asked.tables, package, pin)
        if need is None:
            yield Problem(f"which symbol versions {package} {pin} needs is not known", unknown=True)
            continue
        for name, wanted, found in (
            ("GLIBC", need.glibc, libraries.glibc),
            ("GLIBCXX", need.glibcxx, libraries.glibcxx),
        ):
            if wanted and _numbers(wanted) > _numbers(found):
                yield Problem(
                    f"{package} needs {name}_{wanted}, and {asked.variant.os} has {name}_{found} at most",
                    _fitting_os(need, asked.tables),
                )


def _abi_need(tables: Compat, package: str, pin: str) -> Abi | None:
    for row in tables.abi:
        if row.package == package and (not row.versions or (version(pin) is not None and fits(pin, row.versions))):
            return row
    return None


def _fitting_os(need: Abi, tables: Compat) -> str:
    for name, libraries in tables.os.items():
        if _numbers(libraries.glibc) >= _numbers(need.glibc) and _numbers(libraries.glibcxx) >= _numbers(need.glibcxx):
            return f"os = {name}"
    return "a newer operating system"


def _wheel_exists(asked: Asked) -> Iterator[Problem]:
    python = asked.variant.python
    for row in asked.tables.wheels:
        pin = asked.package(_canonical(row.package))
        if pin not in row.versions or not fits(f"{python}.0", row.python):
            continue
        arches = [arch for arch in asked.variant.platforms if row.arch in (None, arch)]
        if arches:
            yield Problem(
                f"{row.package} {pin} has no wheel for Python {python} on {' and '.join(arches)}",
                "another version" if row.python == ">=3" else "another version, or another Python",
            )


def _exclusions_and_pins(asked: Asked) -> Iterator[Problem]:
    for pattern in asked.variant.exclude:
        for name in fnmatch.filter(asked.packages, _canonical_pattern(pattern)):
            yield Problem(f'{name} is pinned, and excluded by "{pattern}"', "one or the other")


def _relaxed_is_there(asked: Asked) -> Iterator[Problem]:
    sources = {_canonical(source.name) for source in asked.variant.sources}
    for relax in asked.variant.relax:
        if _canonical(relax.whose) not in sources | set(asked.packages):
            message = (
                f'the relaxation of "{relax.whose}" ({relax.demand}) lifts nothing: the stack has no such source or pin'
            )
            yield Problem(message, nearest(relax.whose, [*asked.sources, *asked.packages]))


# --- refs and tags ----------------------------------------------------------------------------------------------------


def _no_moving_ref(asked: Asked) -> Iterator[Problem]:
    if not asked.variant.release:
        return
    for source in asked.variant.sources:
        if not source.commit and not _is_tag(source.ref):
            short = set(source.ref) <= set("0123456789abcdef")
            yield Problem(
                f"{source.name} is at {source.ref}, part of a commit, and this is a release"
                if short
                else f"{source.name} follows {source.ref}, which moves, and this is a release",
                f"its commit in versions.lock (invoke lock --variant {asked.variant.name}), a tag, or release = false",
            )


def _is_tag(ref: str) -> bool:
    """Return whether a ref names one version; a `core_r…` or `release/…` is a branch."""
    return bool(version_of_ref(ref)) and not ref.startswith(("core_r", "r"))


def _tag_says_hardware_and_os(asked: Asked) -> Iterator[Problem]:
    template = asked.variant.tag_template
    named = set(placeholders(template))
    if not named & {"cann_tag", "hardware"}:
        yield Problem(f'the tag "{template}" does not say the hardware', "{cann_tag} in it")
    if "os" not in named:
        yield Problem(f'the tag "{template}" does not say the operating system', "{os} in it")


RULES = (
    Rule("torch-npu-torch", "a torch_npu loads into the torch of its own version alone", _torch_of_torch_npu),
    Rule("torch-trio", "torchvision and torchaudio are built against one torch", _torch_companions),
    Rule("torch-npu-cann", "torch_npu's post number selects the CANN release", _cann_of_torch_npu),
    Rule("torch-index", "on x86_64 torch_npu asks for torch's CPU build", _index_of_cpu_torch),
    Rule(
        "triton-ascend-index",
        "the default index has triton-ascend up to 3.2.0 and Python 3.11",
        _index_of_triton_ascend,
    ),
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
    Rule("soc-hardware", "code is compiled for one family of chips", _soc_of_hardware),
    Rule("first-generation", "CANN's tag 910 is the first generation, not the A2", _first_generation),
    Rule("base-chip", "the base image holds one chip's operators", _chip_of_base),
    Rule("base-offered", "base images exist for some chips, systems and Pythons", _base_is_offered),
    Rule("triton-hardware", "triton-ascend supports some families", _triton_on_hardware),
    Rule("xgrammar-tvm-ffi", "xgrammar links apache-tvm-ffi from 0.2 on", _tvm_ffi_of_xgrammar),
    Rule("import-refused", "some packages refuse others when imported, which no metadata says", _accepted_by_import),
    Rule("numpy-cann", "CANN's Python parts take a range of numpy", _numpy_of_cann),
    Rule("abi", "binaries ask for symbol versions of the system's C and C++ libraries", _abi_of_os),
    Rule("wheel-missing", "some releases lack wheels that their sisters have", _wheel_exists),
    Rule("exclude-pin", "what is never installed cannot be pinned", _exclusions_and_pins),
    Rule("relax-nothing", "a relaxation lifts a demand of something that is there", _relaxed_is_there),
    Rule(MOVING_REF, "a release means the same tomorrow", _no_moving_ref),
    Rule("tag-names", "a tag says hardware and operating system", _tag_says_hardware_and_os),
)


@lru_cache(maxsize=1024)
def _release(text: str) -> ReleaseVersion:
    return ReleaseVersion.parse(text)


@lru_cache(maxsize=1024)
def _base_tag(image: str) -> BaseTag:
    return BaseTag.parse(ImageRef.parse(image).tag or "")


@lru_cache(maxsize=4096)
def _canonical(name: str) -> str:
    return str(canonicalize_name(name))


def _canonical_pattern(pattern: str) -> str:
    return pattern.lower().replace("_", "-")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()
