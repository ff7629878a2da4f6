"""Variants and what the rules say of them, as text for people and as data for programs."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ascend_images.errors import BadInput
from ascend_images.pins.rules import ways_out
from ascend_images.pins.variant import Checkout, Finding, Variant


def variants_text(variants: Sequence[Variant]) -> str:
    """Return a table of variants."""
    rows = [("VARIANT", "STACK", "HARDWARE", "CANN", "OS", "PYTHON", "IMAGE")]
    rows += [
        (
            " ".join([v.name, *(f"({alias})" for alias in v.aliases), *(["experimental"] if v.experimental else [])]),
            v.stack,
            v.chip.name,
            v.cann if not v.overlay else f"{v.cann} over {v.base_cann}",
            v.os,
            v.python,
            f"{v.repository}:{v.tag}",
        )
        for v in variants
    ]
    return table(rows)


def variants_data(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """Return what `variants_text` shows, for programs."""
    return [
        {
            "name": v.name,
            "aliases": list(v.aliases),
            "experimental": v.experimental,
            "stack": v.stack,
            "hardware": v.hardware,
            "cann": v.cann,
            "base_cann": v.base_cann,
            "os": v.os,
            "python": v.python,
            "platforms": _platforms(v),
            "image": f"{v.repository}:{v.tag}",
            "base_image": v.base_image,
        }
        for v in variants
    ]


def show_data(variants: Iterable[Variant]) -> list[dict[str, Any]]:
    """Return variants in full, for programs: every field, platforms as Docker writes them."""
    return [{**msgspec.to_builtins(variant), "platforms": _platforms(variant)} for variant in variants]


def variant_text(variant: Variant) -> str:
    """Return one variant in full."""
    head = [
        ("variant", " ".join([variant.name, *variant.aliases])),
        *([("experimental", variant.experimental)] if variant.experimental else []),
        ("stack", variant.stack),
        ("hardware", f"{variant.chip.name} ({variant.hardware}), SoC {variant.soc_version}"),
        ("CANN", variant.cann if not variant.overlay else f"{variant.cann}, laid over {variant.base_cann}"),
        ("base image", variant.base_image),
        ("Python", variant.python),
        ("platforms", ", ".join(_platforms(variant))),
        ("image", f"{variant.repository}:{variant.tag}"),
    ]
    parts = [
        table(head),
        _part("packages", [(name, version) for name, version in variant.packages.items()]),
        _part("sources", [(source.name, _ref(source), source.path) for source in variant.sources]),
        _part("relaxed", [(f"{r.whose}: {r.demand}", r.reason) for r in variant.relax]),
        _part("without what they ask for", list(variant.no_dependencies.items())),
        _part("never installed", list(variant.exclude.items())),
        _part(
            "run-time settings",
            [(name, d.value if d.value is not None else "-", d.reason) for name, d in variant.runtime.items()],
        ),
        _part("environment", list(variant.env.items())),
        _part("rules", [(f.state, f.rule, f"{f.message}. {f.reason}".strip()) for f in variant.findings]),
    ]
    return "\n\n".join(part for part in parts if part)


def findings_text(variants: Iterable[Variant]) -> str:
    """Return what the rules found, the same finding of several variants once; broken first, then accepted, unknown."""
    grouped: dict[tuple[str, str, str, str, str], list[str]] = {}
    for variant in variants:
        for finding in variant.findings:
            key = (finding.state, finding.rule, finding.message, finding.reason, finding.wanted)
            grouped.setdefault(key, []).append(variant.name)
    order = {"broken": 0, "accepted": 1, "unknown": 2}
    return "\n".join(
        _finding_text(Finding(state=key[0], rule=key[1], message=key[2], reason=key[3], wanted=key[4]), names)
        for key, names in sorted(grouped.items(), key=lambda item: order[item[0][0]])
    )


def require_fitting(variants: Sequence[Variant]) -> None:
    """Raise BadInput, saying what to type, if a rule is broken and not accepted; `findings_text` says which and how."""
    broken = {
        (finding.rule, finding.message) for variant in variants for finding in variant.findings if _is_broken(finding)
    }
    if broken:
        names = ", ".join(variant.name for variant in variants if any(map(_is_broken, variant.findings)))
        rules_are = "1 rule is" if len(broken) == 1 else f"{len(broken)} rules are"
        raise BadInput(
            f"{names}: {rules_are} broken",
            wanted="pins that fit together, or an accept with its reason",
            do=ways_out(variants),
        )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def as_json(data: Any) -> str:
    """Return data, structs included, as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def _finding_text(finding: Finding, names: Sequence[str]) -> str:
    lines = [f"{finding.state}: {finding.rule} ({', '.join(names)})", f"  {finding.message}"]
    if finding.reason:
        lines.append(f"  because: {finding.reason}")
    elif finding.wanted:
        lines.append(f"  wanted:  {finding.wanted}")
    return "\n".join(lines)


def _is_broken(finding: Finding) -> bool:
    return finding.state == "broken"


def _platforms(variant: Variant) -> list[str]:
    return [arch.platform for arch in variant.platforms]


def _part(title: str, rows: Sequence[Sequence[str]]) -> str:
    return f"{title}\n" + "\n".join(f"  {line}" for line in table(rows).splitlines()) if rows else ""


def _ref(source: Checkout) -> str:
    return f"{source.ref} ({source.commit[:12]})" if source.commit and source.commit != source.ref else source.ref
