"""What must fit together in a variant: rules over the pins and the vendors' tables, each with an id to accept it by.

A rule yields problems; none means that it holds. `evaluate` turns them into findings: broken, accepted (by its id, with
a reason, in the stack) or unknown, where no table says.
"""

from collections.abc import Iterable, Iterator, Sequence

from ascend_images.errors import BadInput, nearest
from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.compat import Compat, compat, version
from ascend_images.pins.model import Pins
from ascend_images.pins.rules import hardware, packages, refs, releases, torch
from ascend_images.pins.rules.rule import Asked, Problem, Rule, canonical
from ascend_images.pins.validate import dotted
from ascend_images.pins.variant import Finding, Variant

UNUSED_ACCEPT = "unused-accept"
MOVING_REF = refs.MOVING_REF
#: Every rule, in the order in which findings are told.
RULES: tuple[Rule, ...] = (*torch.RULES, *releases.RULES, *hardware.RULES, *packages.RULES, *refs.RULES)


def evaluate(variant: Variant, pins: Pins, tables: Compat | None = None) -> tuple[Finding, ...]:
    """Return what every rule finds of a variant, and each accept that accepts nothing.

    `tables` stand in for those of compat.toml. Raises BadInput for an index entry that is no requirement.
    """
    asked = Asked(
        variant=variant,
        pins=pins,
        packages={canonical(name): pin for name, pin in variant.packages.items()},
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
    pinned = {canonical(name): pin for name, pin in variant.packages.items()}
    if version(pinned.get("numpy", "")) is not None:
        return ()
    numpy = packages.numpy_range(compat(), variant.cann, variant.python)
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
