"""Pins to Variant: every default filled in, every name looked up, every rule asked."""

import contextlib
from collections.abc import Mapping, Sequence

import msgspec
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, unknown
from ascend_images.pins import rules
from ascend_images.pins.cann_layout import CannLayout, cann_layout
from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.model import Cann, Pins, Source, Stack, VariantEntry
from ascend_images.pins.overrides import overridden, parse_overrides, version_of_ref, with_v
from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import answered, is_commit
from ascend_images.pins.tags import BaseTag, ImageRef, OsFamily, render_tag, split_os, unique_tags
from ascend_images.pins.tls import check_tls
from ascend_images.pins.validate import dotted
from ascend_images.pins.variant import Checkout, Finding, RunFile, Variant

_NEEDED = ("repository", "tag", "cann", "os", "python")


def variant_name(pins: Pins, name: str) -> str:
    """Return the name of the variant that is called `name`, its own or an alias; raises BadInput for an unknown one."""
    for own, entry in pins.variant.items():
        if name.lower() in (own.lower(), *(alias.lower() for alias in entry.aliases)):
            return own
    aliases = [alias for entry in pins.variant.values() for alias in entry.aliases]
    raise unknown("variant", name, [*pins.variant, *aliases])


def resolve(
    pins: Pins,
    name: str,
    overrides: Sequence[str] = (),
    *,
    base_image: str = "",
    allow_broken: bool = False,
    to_be_locked: bool = False,
) -> Variant:
    """Return the variant called `name`, with `key=value` overrides and another base image where one is given.

    What its names mean is taken from the pins' lock; `to_be_locked`: a ref that it does not know yet is no fault.
    Raises BadInput where a name is unknown, a value is missing or, unless `allow_broken`, a rule is broken that is
    not accepted.
    """
    own = variant_name(pins, name)
    entry = pins.variant[own]
    stack, entry = overridden(pins.stack[entry.stack], entry, parse_overrides(overrides))
    if base_image:
        entry = _with_base(entry, stack, ImageRef.parse(base_image).require_tag())
    variant = answered(_assembled(pins, own, stack, entry, base_image), pins.locked)
    check_tls(variant)
    if overrides:
        _check_accepts(variant)
    findings = rules.evaluate(variant, pins)
    if overrides or base_image:
        # A change may mend what the file accepts; that is no fault of the change.
        findings = tuple(finding for finding in findings if finding.rule != rules.UNUSED_ACCEPT)
    if to_be_locked:
        findings = tuple(finding for finding in findings if finding.rule != rules.MOVING_REF)
    variant = msgspec.structs.replace(variant, findings=findings)
    broken = [finding for finding in findings if finding.state == "broken"]
    if broken and not allow_broken:
        raise BadInput(
            "\n".join(f"{own}: {finding.rule}: {finding.message}" for finding in broken),
            wanted=_wanted(broken),
            do=rules.ways_out([variant]),
        )
    return variant


def resolve_all(pins: Pins, *, allow_broken: bool = False, to_be_locked: bool = False) -> tuple[Variant, ...]:
    """Return every variant; raises BadInput as `resolve` does, once for all of them."""
    variants: list[Variant] = []
    failed: dict[str, BadInput] = {}
    for name in pins.variant:
        try:
            variants.append(resolve(pins, name, allow_broken=allow_broken, to_be_locked=to_be_locked))
        except BadInput as error:
            failed[name] = error
    if failed:
        raise _together(failed)
    return tuple(variants)


def _together(failed: Mapping[str, BadInput]) -> BadInput:
    """Return one error for those of several variants: what they have in common is told once, with their names."""
    owners: dict[str, list[str]] = {}
    for name, error in failed.items():
        for line in error.found.splitlines():
            said = line.removeprefix(f"variant {name}: ").removeprefix(f"{name}: ")
            owners.setdefault(said, []).append(name)
    return BadInput(
        # What a stack lacks is told with its name; for all else a person who asked for others has to see whose it is.
        "\n".join(
            said if said.startswith("stack ") else f"{', '.join(names)}: {said}" for said, names in owners.items()
        ),
        wanted="; ".join(dict.fromkeys(error.wanted for error in failed.values() if error.wanted)),
        do="\n          ".join(dict.fromkeys(error.do for error in failed.values() if error.do)),
    )


def pinned_images(pins: Pins) -> dict[str, str]:
    """Return the variant of each image name that the file gives, without an architecture.

    A variant that cannot be assembled is left out: its fault is told where it is chosen. Raises BadInput where two
    would be one image.
    """
    variants = []
    for name, entry in pins.variant.items():
        with contextlib.suppress(BadInput):
            variants.append(_assembled(pins, name, pins.stack[entry.stack], entry, ""))
    return unique_tags(
        ((variant.name, f"{variant.repository}:{variant.tag}") for variant in variants),
        {variant.name: tag_values(variant) for variant in variants},
    )


def tag_values(variant: Variant) -> dict[str, str]:
    """Return what stands for each placeholder of the variant's tag."""
    return {
        **variant.packages,
        **{source.name: source.ref for source in variant.sources},
        "cann": variant.cann,
        "hardware": variant.hardware,
        "cann_tag": variant.chip.cann_tag,
        "os": variant.os,
        "python": variant.python,
    }


def _check_accepts(variant: Variant) -> None:
    """Raise BadInput for an accept of no rule; in the file the rules say so themselves."""
    known = [rule.id for rule in rules.RULES]
    for accepted in variant.accept:
        if accepted not in known:
            raise unknown("rule", accepted, known, where="accept")


def _wanted(broken: Sequence[Finding]) -> str:
    return "; ".join(finding.wanted for finding in broken if finding.wanted)


def _with_base(entry: VariantEntry, stack: Stack, image: ImageRef) -> VariantEntry:
    """Return the entry for a base image: its tag says the release, the OS and the Python."""
    tag = BaseTag.parse(image.tag or "")
    release = {"base_cann": tag.cann} if entry.base_cann or stack.base_cann else {"cann": tag.cann}
    return msgspec.structs.replace(entry, **release, os=tag.os, python=tag.python)


def _assembled(pins: Pins, name: str, stack: Stack, entry: VariantEntry, base_image: str) -> Variant:
    chosen = {key: getattr(entry, key, "") or getattr(stack, key) for key in (*_NEEDED, "base_cann")}
    unsaid = [f'"{key}"' for key in _NEEDED if not chosen[key]]
    if unsaid:
        raise BadInput(
            f"variant {name}: nothing says its {' and '.join(unsaid)}",
            do=f"write {'it' if len(unsaid) == 1 else 'them'} in {dotted(('stack', entry.stack))} or in "
            f"{dotted(('variant', name))}",
        )
    hardware = pins.hardware[entry.hardware]
    cann = _release_name(pins, chosen["cann"])
    base_cann = _release_name(pins, chosen["base_cann"] or cann)
    base = pins.cann[base_cann]
    family, _ = split_os(chosen["os"])
    python_home = base.python_home.get(chosen["python"], "")
    if not python_home:
        raise BadInput(
            f"variant {name}: where Python {chosen['python']} lies in the base images of CANN {base_cann} is not known",
            wanted=f"one of Python {', '.join(base.python_home)}",
            do=f'add it to cann."{base_cann}".python_home, or choose with --set python=…',
        )
    layout = cann_layout(cann, python_home)
    soc_version = (entry.soc_version or hardware.soc_version).strip().lower()
    packages = _packages(pins, stack, cann, hardware.triton)
    sources = _checkouts(entry.stack, stack)
    platforms = tuple(Arch(platform) for platform in entry.platforms)
    tag = f"{base_cann}-{hardware.cann_tag}-{chosen['os']}-py{chosen['python']}"
    variant = Variant(
        name=name,
        aliases=entry.aliases,
        experimental=entry.experimental,
        stack=entry.stack,
        release=stack.release,
        repository=chosen["repository"],
        tag="",
        tag_template=chosen["tag"],
        platforms=platforms,
        hardware=entry.hardware,
        chip=hardware,
        soc_version=soc_version,
        cann=cann,
        base_cann=base_cann,
        base_image=base_image or f"{pins.base.image}:{tag}",
        os=chosen["os"],
        os_family=str(family),
        python=chosen["python"],
        python_home=python_home,
        cann_home=layout.home,
        cann_scripts=layout.scripts,
        runs=_runs(pins, cann, hardware.ops_package, platforms) if cann != base_cann else (),
        packages=packages,
        no_dependencies=stack.no_dependencies,
        relax=stack.relax,
        exclude=stack.exclude,
        accept=stack.accept,
        sources=sources,
        env=_environment(stack, layout, sources, cann, soc_version),
        install_env=stack.install_env,
        runtime=stack.runtime,
        checks=stack.checks,
        patches=stack.patches,
        system_packages=_system_packages(stack, family),
        workdir=stack.workdir,
        indexes=pins.index,
        metadata=pins.metadata,
        findings=(),
    )
    return msgspec.structs.replace(variant, tag=render_tag(chosen["tag"], tag_values(variant)))


def _release_name(pins: Pins, text: str) -> str:
    """Return a CANN release as the file spells it: files of CANN write RC where tags write rc."""
    wanted = ReleaseVersion.parse(text)
    for name in pins.cann:
        if ReleaseVersion.parse(name) == wanted:
            return name
    raise unknown("CANN release", text, pins.cann)


def _packages(pins: Pins, stack: Stack, cann: str, triton: bool) -> dict[str, str]:
    """Return the pinned packages; where hardware and stack take triton-ascend unpinned, the release's own version."""
    packages = dict(stack.packages)
    pinned = {canonicalize_name(package) for package in packages}
    excluded = {canonicalize_name(package) for package in (*stack.exclude, *stack.without)}
    if triton and "torch-npu" in pinned and "triton-ascend" not in pinned | excluded:
        packages["triton-ascend"] = rules.default_triton_ascend(pins, cann)
    return packages


def _checkouts(name: str, stack: Stack) -> tuple[Checkout, ...]:
    """Return the sources of the stack called `name`; raises BadInput that names every key which they lack."""
    lacks = {
        source: [f'"{key}"' for key in ("git", "ref", "path", "module") if not getattr(table, key)]
        for source, table in stack.sources.items()
    }
    lacks = {source: keys for source, keys in lacks.items() if keys}
    if lacks:
        raise BadInput(
            "\n".join(
                f"stack {name}: source {source}: {' and '.join(keys)} {'is' if len(keys) == 1 else 'are'} missing"
                for source, keys in lacks.items()
            ),
            do=f"write {'it' if sum(map(len, lacks.values())) == 1 else 'them'} in "
            + " and ".join(f"[{dotted(('stack', name, 'sources', source))}]" for source in lacks),
        )
    return tuple(_checkout(source, table) for source, table in stack.sources.items())


def _checkout(name: str, source: Source) -> Checkout:
    fields = msgspec.structs.asdict(source)
    ref = with_v(name, source.ref)
    fields |= {
        "ref": ref,
        "commit": ref if is_commit(ref) else "",
        "version": source.version or version_of_ref(ref),
        "distribution": source.distribution or name,
    }
    return Checkout(name=name, **fields)


def _runs(pins: Pins, cann: str, ops_package: str, platforms: Sequence[Arch]) -> tuple[RunFile, ...]:
    release: Cann = pins.cann[cann]
    missing = [part for part in ("toolkit", "ops", "nnal") if part not in release.run]
    if missing:
        raise BadInput(
            f"CANN {cann} cannot be laid over another release: its {' and '.join(missing)} packages are not known",
            do="write " + " and ".join(f"{dotted(('cann', cann, 'run', part))}.url" for part in missing),
        )
    files = []
    for arch in platforms:
        for part, run in release.run.items():
            url = run.url.format(arch=arch.kernel, ops=ops_package)
            file = url.rsplit("/", 1)[-1]
            files.append(RunFile(part=part, arch=arch, url=url, file=file, sha256=run.sha256.get(file, "")))
    return tuple(files)


def _environment(
    stack: Stack, layout: CannLayout, sources: Sequence[Checkout], cann: str, soc_version: str
) -> dict[str, str]:
    """Return the image's environment in order: CANN's own, the sources on PYTHONPATH before it, then the stack's."""
    environment = dict(layout.environment)
    on_path = [source.path for source in sources if source.install == "pythonpath"]
    environment["PYTHONPATH"] = ":".join([*on_path, environment["PYTHONPATH"]])
    environment |= {"CANN_VERSION": cann, "SOC_VERSION": soc_version}
    environment |= stack.env
    return environment | {name: d.value for name, d in stack.runtime.items() if d.value is not None}


def _system_packages(stack: Stack, family: OsFamily) -> tuple[str, ...]:
    return stack.system.apt if family is OsFamily.UBUNTU else stack.system.yum
