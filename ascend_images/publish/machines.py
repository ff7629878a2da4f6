"""The machines that a run of CI may count on: which build, and which have NPUs of what hardware."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ascend_images.errors import BadInput
from ascend_images.pins.platform import Arch, parse_arch
from ascend_images.pins.variant import Variant
from ascend_images.publish.matrix import RUNNERS

#: What is typed for architectures where no machine has NPUs.
NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Where images are built (labels by architecture), and the architectures of the machines with NPUs by hardware."""

    builders: Mapping[Arch, str | list[str]] = field(default_factory=lambda: RUNNERS)
    npus: Mapping[str, tuple[Arch, ...]]
    others: tuple[Arch, ...] = ()
    """The architectures for all hardware that `npus` does not name."""

    def lacking(self, variant: Variant) -> tuple[Arch, ...]:
        """Return the architectures of a variant of which no machine has its NPUs."""
        return tuple(arch for arch in variant.platforms if arch not in self.npus.get(variant.hardware, self.others))


def machines(npu_arch: str, build_runners: str = "", *, hardware: Iterable[str]) -> Machines:
    """Return what two texts say of machines, as a variable of a repository holds them; raises BadInput.

    `npu_arch` has words such as `a2:amd64,arm64 a3:arm64`; one without a hardware is for all that no other word names.
    `build_runners` has words such as `arm64:self-hosted,linux`; GitHub's own machines build what it does not name.
    """
    npus: dict[str, tuple[Arch, ...]] = {}
    others: tuple[Arch, ...] = ()
    known = tuple(hardware)
    for name, values in _words(npu_arch):
        if name and name not in known:
            raise BadInput(
                f'--npu-arch: "{name}" is no hardware',
                wanted=f"{', '.join(known)}, each with its architectures, divided by blanks",
                do=f"--npu-arch '{known[0]}:amd64,arm64 {known[-1]}:arm64'",
            )
        arches = tuple(parse_arch(value) for value in values if value != NONE)
        if name:
            npus[name] = (*npus.get(name, ()), *arches)
        else:
            others = (*others, *arches)
    return Machines(builders=_builders(build_runners), npus=npus, others=others)


def _builders(text: str) -> Mapping[Arch, str | list[str]]:
    chosen: dict[Arch, str | list[str]] = dict(RUNNERS)
    for name, labels in _words(text):
        if not name or not labels:
            raise BadInput(
                f'--build-runners "{text}"',
                wanted="an architecture with the labels of its machines, divided by blanks",
                do="--build-runners 'amd64:ubuntu-24.04-16-cores arm64:self-hosted,linux,ARM64'",
            )
        chosen[parse_arch(name)] = labels[0] if len(labels) == 1 else labels
    return chosen


def _words(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each word `NAME:VALUE,VALUE` as name and values; the name may be absent. Blanks may follow a comma."""
    for word in re.sub(r"\s*,\s*", ",", text).split():
        name, _, values = word.rpartition(":")
        yield name, [value for value in values.split(",") if value]
