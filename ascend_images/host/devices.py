"""Which NPUs a container gets: those typed, or one card that nobody else has; whole cards where a card is two dies."""

import re
from collections.abc import Mapping, Sequence

from ascend_images.errors import BadInput, MissingTool
from ascend_images.host.chips import HostChips, chips_of
from ascend_images.host.facts import EngineFacts, HostFacts
from ascend_images.host.holders import holder_of, suspects
from ascend_images.host.npu_smi import A3
from ascend_images.host.request import parse_devices

ALL = "all"
NONE = "none"

_NODE = re.compile(r"/dev/davinci([0-9]{1,4})", re.ASCII)
_DIES = 2


def device_numbers(host: HostFacts) -> tuple[int, ...]:
    """Return N of each /dev/davinciN that the host has."""
    matches = (_NODE.fullmatch(node.path) for node in host.nodes)
    return tuple(sorted({int(match[1]) for match in matches if match}))


def choose_devices(
    text: str, host: HostFacts, engine: EngineFacts, family: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the numbers of the devices to give, and notes on them.

    `text` is as typed: numbers, `all`, `none`, or empty for one card: a chip, on A3 both dies of a card. The first card
    that no container holds is taken, one without processes and in good health before others. Raises BadInput for a
    device that is not there and for half an A3 card, MissingTool where the host has none and where a container holds
    what is needed.
    """
    if text == NONE:
        return (), ()
    require_readable(text)
    present = device_numbers(host)
    if not present:
        raise MissingTool(
            "this host has no NPU: there is no /dev/davinciN",
            wanted="a host with NPUs and their driver",
            do="invoke doctor; or --devices none for a container without NPUs",
        )
    known = chips_of(host)
    cards = _cards(present, known, family)
    busy = {number: holder for number in present if (holder := holder_of(number, engine, host.root))}
    states = _states(known)
    notes = [f"container {name} is privileged and may use any NPU" for name in suspects(engine)]
    if not text:
        return _free_card(cards, busy, states), tuple(notes)
    chosen = present if text == ALL else parse_devices(text)
    _require_present(text, chosen, present)
    _require_whole_cards(text, chosen, cards, family)
    _require_free(chosen, busy, [number for card in cards for number in card if not busy.keys() & set(card)])
    notes += [f"NPU {number}: {state}" for number in chosen for state in states.get(number, ())]
    return chosen, tuple(notes)


def require_readable(text: str) -> None:
    """Raise BadInput unless `--devices` can be meant, whatever devices a host has."""
    if text not in ("", ALL, NONE):
        parse_devices(text)


def devices_in_pod(text: str, family: str, present: Sequence[int] = ()) -> int:
    """Return how many devices a pod asks for; which ones is the scheduler's choice. Raises BadInput as above."""
    if text == NONE:
        return 0
    if text == ALL:
        if not present:
            raise BadInput("--devices all: this host has no NPU to count", wanted="numbers", do="--devices 0-7")
        return len(present)
    count = len(parse_devices(text)) if text else _DIES if family == A3 else 1
    if family == A3 and count % _DIES:
        raise BadInput(
            f"--devices {text}: {count} of an A3's dies", wanted="both dies of each card", do=f"--devices 0-{count}"
        )
    return count


def _cards(present: Sequence[int], known: HostChips, family: str) -> list[tuple[int, ...]]:
    """Return the devices card by card: each its own, on A3 the dies of one NPU by npu-smi, else 2k and 2k+1."""
    if family != A3:
        return [(number,) for number in present]
    npus = {chip.davinci: chip.npu for chip in known.chips if chip.davinci is not None}
    told = set(present) <= npus.keys()
    cards: dict[int, list[int]] = {}
    for number in present:
        cards.setdefault(npus[number] if told else number // _DIES, []).append(number)
    return [tuple(card) for card in cards.values()]


def _states(known: HostChips) -> dict[int, list[str]]:
    """Return what npu-smi tells against devices: critical health, and processes of this host."""
    at_work = {(process.npu, process.chip) for process in known.listing.processes}
    states: dict[int, list[str]] = {}
    for chip in known.chips:
        if chip.davinci is None:
            continue
        if chip.health.lower() == "critical":
            states.setdefault(chip.davinci, []).append("its health is Critical")
        if not at_work.isdisjoint({(chip.npu, chip.chip), (chip.npu, None)}):
            states.setdefault(chip.davinci, []).append("a process on this host uses it already")
    return states


def _free_card(
    cards: Sequence[tuple[int, ...]], busy: Mapping[int, str], states: Mapping[int, list[str]]
) -> tuple[int, ...]:
    free = [card for card in cards if not busy.keys() & set(card)]
    if not free:
        raise _in_use(busy, ())
    return next((card for card in free if not states.keys() & set(card)), free[0])


def _require_present(text: str, chosen: Sequence[int], present: Sequence[int]) -> None:
    missing = [f"/dev/davinci{number}" for number in chosen if number not in present]
    if missing:
        numbers = ",".join(map(str, present))
        raise BadInput(
            f"--devices {text}: there is no {', '.join(missing)}",
            wanted=f"some of {numbers}",
            do=f"--devices {numbers}",
        )


def _require_whole_cards(text: str, chosen: Sequence[int], cards: Sequence[tuple[int, ...]], family: str) -> None:
    if family != A3:
        return
    for card in cards:
        halves = [number for number in card if number in chosen]
        if halves and (len(halves) < len(card) or len(card) < _DIES):
            other = ",".join(str(number) for number in card if number not in chosen) or str(halves[0] ^ 1)
            whole = ",".join(map(str, sorted({*chosen, *map(int, other.split(","))})))
            raise BadInput(
                f"--devices {text}: NPU {halves[0]} is one of the two dies of an A3 card, which work as a pair",
                wanted=f"NPU {other} as well",
                do=f"--devices {whole}",
            )


def _require_free(chosen: Sequence[int], busy: Mapping[int, str], free: Sequence[int]) -> None:
    held = {number: busy[number] for number in chosen if number in busy}
    if held:
        raise _in_use(held, free)


def _in_use(busy: Mapping[int, str], free: Sequence[int]) -> MissingTool:
    """Return the failure for devices that containers hold; a device serves one container at a time."""
    first = next(iter(busy.values()))
    others = f", or --devices {','.join(map(str, free))}" if free else ""
    return MissingTool(
        "\n".join(f"NPU {number} is in use by container {holder}" for number, holder in busy.items()),
        wanted="devices that no other container has: a device belongs to one at a time",
        do=f"docker stop {first}{others}",
    )
