"""What is not the same in the locks of two architectures, and why."""

from collections.abc import Mapping

from packaging.version import Version

from ascend_images.lock.components import active, asked_extras
from ascend_images.lock.demands import Settled
from ascend_images.lock.solve import Solved
from ascend_images.lock.target import Target
from ascend_images.pins.platform import Arch


def differences(here: Solved, versions: Mapping[str, str], there: Arch) -> tuple[str, ...]:
    """Return a line for each package of `here` that `versions`, of another architecture, lacks or has otherwise."""
    askers = _askers(here)
    target = Target(there, here.asked.target.python)
    lines = []
    for name, known in here.distributions.items():
        other = versions.get(name)
        if other == known.version:
            continue
        what = "only here" if other is None else f"{there.value} has {other}"
        lines.append(
            f"{name}=={known.version} {what}: {_why(here, name, other, askers.get(name, ()), versions, target)}"
        )
    return tuple(lines)


def _askers(here: Solved) -> dict[str, list[tuple[str, str, Settled]]]:
    """Return who asks for each package, by its normalised name: the asker's key and label, and the demand."""
    everyone = (*here.asked.sources, *here.components)
    extras = asked_extras(everyone, here.asked.target)
    found: dict[str, list[tuple[str, str, Settled]]] = {}
    for component in everyone:
        for entry in active(component, here.asked.target, extras.get(component.key, ())):
            found.setdefault(entry.demand.name, []).append((component.key, component.label, entry))
    return found


def _why(
    here: Solved,
    name: str,
    other: str | None,
    askers: list[tuple[str, str, Settled]] | tuple[()],
    versions: Mapping[str, str],
    target: Target,
) -> str:
    known = here.distributions[name]
    if other is not None and Version(other).public == Version(known.version).public:
        return "the CPU build has a version of its own on x86_64"
    if known.release is not None and not known.release.usable(target):
        return f"it has no file for {target.arch.kernel}"
    if other is not None:
        return "what is asked for there allows no version of both"
    sources = here.asked.given
    for key, label, entry in askers:
        marker = entry.demand.requirement.marker
        if (key in versions or key in sources) and marker is not None:
            return f"{label} asks for it where {marker}"
    labels = [label for key, label, _ in askers if key not in versions and key not in sources]
    return f"{labels[0]}, only here too, asks for it" if labels else f"nothing asks for it on {target.arch.kernel}"
