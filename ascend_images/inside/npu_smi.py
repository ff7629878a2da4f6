"""What `npu-smi` prints, read: the table of chips, boards, card lists, chip mappings, health and error texts.

`npu-smi info` knows four layouts, told apart by the headings of the table and never by its width, which changes between
drivers (98 or 116 columns for the same layout):

* `a2`: one chip a card (A2, and the first-generation 910); an NPU's id is the N of its /dev/davinciN.
* `a3`: `Chip  Phy-ID`, two dies a card; Phy-ID is the N of /dev/davinciN, and the name is `Ascend910` for every SoC.
* `310p`: `Chip  Device` and no HBM column; Device is the N of /dev/davinciN; NPU ids are sparse (0, 32, 32768, 32800).
* `950`: `NPU ID` and `Name` in cells of their own, no chip number; an NPU's id is the N of its /dev/davinciN.

Sources: outputs in public reports to github.com/vllm-project/vllm-ascend (632, 1047, 1696) and in the documentation of
MindCluster. Nothing here raises on any text: what cannot be read is kept, line by line, in `unknown`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

A2 = "A2"
A3 = "A3"
P310 = "310P"
A5 = "950"
FIRST = "910"
UNKNOWN = "unknown"

#: The chip word in the tags of CANN images, by family; no image is made for a chip whose family is unknown.
CANN_TAG = {A2: "910b", A3: "a3", P310: "310p", A5: "950", FIRST: "910"}
FAMILY_OF_TAG = {tag: family for family, tag in CANN_TAG.items()}

# The HBM of a first-generation chip, MB. A 910B4 has as much, but nothing under Memory-Usage.
_FIRST_HBM = 32768

# Chip names, in small letters and without `Ascend`, whose family they alone tell. `910b` alone is not among them: it
# was the name of a first-generation chip before it became the common name of the A2 ones. `a2g3` is what some drivers
# call an A2 chip (vllm-ascend's setup.py).
_FAMILY_BY_NAME = (
    (re.compile(r"910b[1-4](?:c|-1)?(?:[ _-]?vir\w*)?|a2g3"), A2),
    (re.compile(r"910c[1-4]?|910_93[0-9a-z]{2}"), A3),
    (re.compile(r"310p[1-7]?(?:[ _-]?vir\w*)?"), P310),
    (re.compile(r"950[a-z]*(?:_[0-9a-z]+)?"), A5),
    (re.compile(r"910(?:a|proa|prob|premiuma)"), FIRST),
)

# Characters of an output, and of a line in it, that are read: the table of sixteen chips has some ten thousand in all.
_LONGEST, _LONGEST_LINE = 1_000_000, 500
# One line is one chip's number, a process id, a size in MB: never long, and int() raises on thousands of digits.
_NUMBER = re.compile(r"[0-9]{1,12}", re.ASCII)
_USAGE = re.compile(r"([0-9]{1,12})/([0-9]{1,12})", re.ASCII)
_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]", re.ASCII)
_BARS = re.compile("[|│┃║]")
_FRAME = re.compile(r"[-+=|]+|[\u2500-\u257f]+")
_TITLE = re.compile(r"npu-smi\s+(\S+)\s+Version:\s*(\S+)")
_IDLE = re.compile(r"No running processes found in NPU [0-9]+")
_HEADING = re.compile(
    r"NPU ID|NPU Util\(%\)|NPU|Process id in container|Process id|Process name|Process memory\S*|"
    r"Slot ID|Chip Logic ID|Chip Phy-ID|Chip ID|Chip Name|Chip Count|\S+"
)
_LAYOUTS = {("Chip",): "a2", ("Chip", "Phy-ID"): "a3", ("Chip", "Device"): "310p"}
_MEMORY = (("HBM", "HBM-Usage(MB)"), ("DDR", "Memory-Usage(MB)"))

# The driver library writes these to the same output, before tables and before errors alike.
_NOTICE = re.compile(r"DrvMng\w+ failed\b")
_CODE = re.compile(r"(?<![\w.:-])-[1-9][0-9]{3,5}(?!\w)", re.ASCII)
_LIBRARY = re.compile(r"\b(lib\w[\w.+-]*\.so[\w.]*): cannot open shared object file")

_BY_CODE = {
    -8005: "the driver did not start for this process: usually the device is used by another container or process; "
    "the same code comes where this user may not open the device nodes and after a driver update without a restart",
    -8020: "usually the device is used by another container or process",
}
_BY_TEXT = (
    (r"get chip info failed", "usually this user may not ask the driver: that takes root or the group of the nodes"),
    (
        r"npu-smi: is a directory",
        "a directory lies where npu-smi should: docker makes one when the file it binds is missing",
    ),
    (
        # Looks no further than the next `npu-smi`, or a long line would take the square of its length.
        r"npu-smi(?:(?!npu-smi).)*(?:not found|no such file)|no such file(?:(?!no such file).)*npu-smi",
        "npu-smi is not there",
    ),
    (r"permission denied|operation not permitted", "this user may not start npu-smi or open a device node"),
)


@dataclass(frozen=True)
class DeviceError:
    """An error that npu-smi or the loader printed.

    `code` is the driver's number (-8020), None where the text has none; `line` is the text; `meaning` says in words
    what is usually behind it, which is experience and no proof.
    """

    code: int | None
    line: str
    meaning: str


@dataclass(frozen=True)
class Reading:
    """What every output may hold beside what was asked: errors, notices of the driver library, and lines not read."""

    errors: tuple[DeviceError, ...] = ()
    notices: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


_R = TypeVar("_R", bound=Reading)


@dataclass(frozen=True)
class Chip:
    """One chip of the table; None and the empty text stand for what was not printed or not readable.

    `davinci` is the N of its /dev/davinciN; `memory_used` and `memory_total` are MB of HBM, or of DDR where the chip
    has no HBM, which `memory_kind` tells. `ddr_total` is the total under Memory-Usage, MB. `health` is as printed: OK,
    Warning, Alarm, Critical or UNKNOWN by the vendor's manual; chips under Alarm have been seen to work. `dies` counts
    the chips that the table lists for this NPU.
    """

    npu: int
    chip: int | None
    davinci: int | None
    name: str
    health: str
    bus_id: str = ""
    memory_used: int | None = None
    memory_total: int | None = None
    memory_kind: str = ""
    ddr_total: int | None = None
    layout: str = ""
    dies: int = 1

    @property
    def family(self) -> str:
        """The family: by the name, else by the layout, the dies and the memory; `unknown` where they do not tell."""
        first = self.memory_kind == "HBM" and self.memory_total == _FIRST_HBM and bool(self.ddr_total)
        return family_of(self.name, two_dies=self.layout == "a3" or self.dies > 1, first_memory=first)

    @property
    def soc(self) -> str:
        """The SOC_VERSION, such as ascend910b3; empty where the table does not tell it (A3 and 950: ask the board)."""
        return _soc(self.name, "")


@dataclass(frozen=True)
class Process:
    """A process on a chip: its id on the host, its (often cut) name, its memory in MB, its id in its container."""

    npu: int
    chip: int | None
    pid: int
    name: str
    memory: int | None
    container_pid: int | None = None


@dataclass(frozen=True)
class Listing(Reading):
    """The table of `npu-smi info`: the driver's version, the tool's own, the chips and the processes, in its order."""

    version: str = ""
    tool_version: str = ""
    chips: tuple[Chip, ...] = ()
    processes: tuple[Process, ...] = ()


@dataclass(frozen=True)
class Board(Reading):
    """The output of `npu-smi info -t board`: every `key : value` line, and the three that name the chip."""

    values: dict[str, str] = field(default_factory=dict, hash=False)
    chip_type: str = ""
    chip_name: str = ""
    npu_name: str = ""

    @property
    def family(self) -> str:
        """The family, by the chip's name and, for `Ascend910`, by the NPU's; `unknown` for any other."""
        if _plain(self.chip_name) == "910":
            return family_of(f"910_{self.npu_name}")
        return family_of(self.chip_name)

    @property
    def soc(self) -> str:
        """The SOC_VERSION, such as ascend910b3, ascend910_9382 or ascend950pr_9579; empty where it is not told."""
        return _soc(self.chip_name, self.npu_name) if self.family != UNKNOWN else ""

    @property
    def text(self) -> str:
        """What the board calls the chip, in words for a message."""
        return f"Chip Type {self.chip_type!r}, Chip Name {self.chip_name!r}, NPU Name {self.npu_name!r}"


@dataclass(frozen=True)
class Card:
    """An NPU in `npu-smi info -l`: its id and how many chips it has, None where that is not readable."""

    npu: int
    chips: int | None


@dataclass(frozen=True)
class CardList(Reading):
    """The output of `npu-smi info -l`: the count it states, None where it states none, and the NPUs it lists."""

    total: int | None = None
    cards: tuple[Card, ...] = ()


@dataclass(frozen=True)
class MappedChip:
    """A row of `npu-smi info -m`; None stands for `-` and for columns that this output has not.

    `logic` is the id by which torch_npu knows the chip, `phy` the N of /dev/davinciN.
    """

    npu: int
    chip: int | None
    logic: int | None
    phy: int | None
    slot: int | None
    name: str

    @property
    def is_mcu(self) -> bool:
        """Whether it is a card's management controller, which has no device node and computes nothing."""
        return self.name.lower() == "mcu"


@dataclass(frozen=True)
class Mapping(Reading):
    """The output of `npu-smi info -m`, row by row, management controllers included."""

    rows: tuple[MappedChip, ...] = ()

    @property
    def chips(self) -> tuple[MappedChip, ...]:
        """The rows of chips that compute."""
        return tuple(row for row in self.rows if not row.is_mcu)


@dataclass(frozen=True)
class Health(Reading):
    """The output of `npu-smi info -t health`: one status for each chip asked, and the error codes it names."""

    statuses: tuple[str, ...] = ()
    error_codes: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """The first status that is not OK; `unknown` where the output has none at all."""
        return next((status for status in self.statuses if status.upper() != "OK"), "OK" if self.statuses else UNKNOWN)


def family_of(name: str, *, two_dies: bool = False, first_memory: bool = False) -> str:
    """Return the family of a chip by its name (`910B3`, `Ascend910`, `310P3`, `Ascend950PR`); `unknown` if it has none.

    `Ascend910` is A3 only where its card has two dies (`two_dies`); it and `910B` are first-generation only where the
    chip has that generation's memory (`first_memory`: 32768 MB of HBM and DDR besides), else nobody can tell.
    """
    plain = _plain(name)
    for pattern, family in _FAMILY_BY_NAME:
        if pattern.fullmatch(plain):
            return family
    if plain == "910" and two_dies:
        return A3
    return FIRST if first_memory and plain in ("910", "910b") else UNKNOWN


def parse(text: str) -> Listing:
    """Return what the output of `npu-smi info` says, whichever of the four layouts it has; never raises."""
    table = _Table()
    for line in _lines(text):
        table.read(line)
    return table.listing()


def parse_board(text: str) -> Board:
    """Return what `npu-smi info -t board -i N [-c M]` says of the chip; never raises.

    A2, A3 and 310P name the chip only with `-c`, a 950 only without; no NPU Name is printed for A2 and 310P and no Chip
    Type for A3 and 950. The first of two equal keys counts.
    """
    rest = _Rest()
    values: dict[str, str] = {}
    for key, value, _ in _pairs(text, rest, {"Chip Type", "Chip Name", "NPU Name"}):
        values.setdefault(key, value)
    return rest.into(
        Board(
            values=values,
            chip_type=_stated(values.get("Chip Type", "")),
            chip_name=_stated(values.get("Chip Name", "")),
            npu_name=_stated(values.get("NPU Name", "")),
        )
    )


def parse_list(text: str) -> CardList:
    """Return the cards of `npu-smi info -l`; never raises. Some cards print their product and serial number as well."""
    rest = _Rest()
    total: int | None = None
    cards: list[Card] = []
    for key, value, line in _pairs(text, rest, {"Total Count", "Card Count", "NPU ID", "Chip Count"}):
        number = _number(value)
        if key in ("Product Name", "Serial Number"):
            continue
        if number is None:
            rest.add(line)
        elif key in ("Total Count", "Card Count") and total is None:
            total = number
        elif key == "NPU ID":
            cards.append(Card(number, None))
        elif key == "Chip Count" and cards and cards[-1].chips is None:
            cards[-1] = replace(cards[-1], chips=number)
        else:
            rest.add(line)
    return rest.into(CardList(total=total, cards=tuple(cards)))


def parse_mapping(text: str) -> Mapping:
    """Return the rows of `npu-smi info -m` by the names of its columns; never raises."""
    rest = _Rest()
    columns: list[str] = []
    rows: list[MappedChip] = []
    for line in _lines(text):
        headings = _HEADING.findall(line)
        if headings[0] == "NPU ID" and headings[-1] == "Chip Name":
            columns = headings
            continue
        row = _mapped(columns, line)
        if row is None:
            rest.add(line)
        else:
            rows.append(row)
    return rest.into(Mapping(rows=tuple(rows)))


def parse_health(text: str) -> Health:
    """Return what `npu-smi info -t health` says, with `Health :` or `Health Status :`; never raises."""
    rest = _Rest()
    statuses: list[str] = []
    codes: list[str] = []
    for key, value, line in _pairs(text, rest, {"Health", "Health Status"}):
        if key in ("Health", "Health Status"):
            statuses.append(value or UNKNOWN)
        elif key == "Error Code":
            codes += [code for code in re.split(r"[\s,]+", value) if _stated(code)]
        elif key not in ("NPU ID", "Chip ID", "Chip Count", "Error Information"):
            rest.add(line)
    return rest.into(Health(statuses=tuple(statuses), error_codes=tuple(codes)))


class _Rest:
    """The lines beside what was asked: errors, notices and what nobody could read, as `Reading` has them."""

    def __init__(self) -> None:
        self.errors: list[DeviceError] = []
        self.notices: list[str] = []
        self.unknown: list[str] = []

    def add(self, line: str) -> None:
        """File a line that belongs to no output that was asked for."""
        error = _device_error(line)
        if _NOTICE.match(line):
            self.notices.append(line)
        elif error is not None:
            self.errors.append(error)
        else:
            self.unknown.append(line)

    def into(self, reading: _R) -> _R:
        """Return the reading with these lines."""
        return replace(reading, errors=tuple(self.errors), notices=tuple(self.notices), unknown=tuple(self.unknown))


class _First(NamedTuple):
    """The first row of a chip: its NPU and name, and the line it came from."""

    npu: int
    name: str
    health: str


class _Table:
    """A table of `npu-smi info` while it is read: the headings in force, the chip half read, and what is done.

    A chip takes two rows, and a heading of two rows says what stands in their cells. A cell holds several columns, of
    which only the last may have blanks in its values.
    """

    def __init__(self) -> None:
        self._rest = _Rest()
        self._version = self._tool_version = ""
        self._chips: list[Chip] = []
        self._processes: list[Process] = []
        self._first_headings: list[list[str]] = []
        self._second_headings: list[list[str]] = []
        self._process_headings: list[list[str]] = []
        self._first: _First | None = None

    def read(self, line: str) -> None:
        """Take the next line, which is not blank."""
        if _FRAME.fullmatch(line):
            return
        cells = _cells(line)
        if not cells:
            self._rest.add(line)
        elif any(cells) and not (self._take_banner(cells) or self._take_headings(cells)):
            taken = self._take_process(cells) if self._process_headings else self._take_chip(cells)
            if not taken:
                self._rest.add(line)

    def listing(self) -> Listing:
        """Return what was read; a chip whose second row never came is listed with what its first row says."""
        self._end_chip()
        rows = Counter(chip.npu for chip in self._chips)
        dies = Counter(npu for npu, _ in {(chip.npu, chip.chip) for chip in self._chips})
        chips = tuple(_placed(chip, rows[chip.npu], dies[chip.npu]) for chip in self._chips)
        return self._rest.into(
            Listing(
                version=self._version,
                tool_version=self._tool_version,
                chips=chips,
                processes=tuple(self._processes),
            )
        )

    def _take_banner(self, cells: list[str]) -> bool:
        title = _TITLE.fullmatch(cells[0])
        if len(cells) == 1 and title:
            self._tool_version, self._version = title.groups()
        return len(cells) == 1 and bool(title or _IDLE.fullmatch(cells[0]))

    def _take_headings(self, cells: list[str]) -> bool:
        headings = [_HEADING.findall(cell) for cell in cells]
        names = [name for cell in headings for name in cell]
        if {"Process id", "Process name"} <= set(names) and names[0] in ("NPU", "NPU ID"):
            self._end_chip()
            self._process_headings = headings
        elif {"Name", "Health"} <= set(names) and names[0] in ("NPU", "NPU ID"):
            self._end_chip()
            self._first_headings, self._second_headings, self._process_headings = headings, [], []
        elif "Bus-Id" in names and self._first_headings:
            self._second_headings = headings
        else:
            return False
        return True

    def _take_chip(self, cells: list[str]) -> bool:
        """Take one of a chip's two rows; False where the row is neither, or not wholly readable."""
        row = _assign(self._first_headings, cells)
        npu = _number(row.get("NPU", row.get("NPU ID", "")))
        name, health = row.get("Name", ""), row.get("Health", "")
        named = bool(re.search("[A-Za-z]", name)) and not _BUS_ID.fullmatch(health)
        if npu is not None and named and (self._first is None or _stated(name)):
            self._end_chip()
            self._first = _First(npu, name, health)
            return True
        row = _assign(self._second_headings, cells)
        if self._first is None or not row or not _second_row(row):
            return False
        chip, wholly = _chip(self._first, row, self._layout)
        self._chips.append(chip)
        self._first = None
        return wholly

    def _take_process(self, cells: list[str]) -> bool:
        row = _assign(self._process_headings, cells)
        npu, pid = _number(row.get("NPU", row.get("NPU ID", ""))), _number(row.get("Process id", ""))
        chip = _number(row.get("Chip", ""))
        if npu is None or pid is None or (chip is None and "Chip" in row):
            return False
        memory = _number(row.get("Process memory(MB)", ""))
        container_pid = _number(row.get("Process id in container", ""))
        self._processes.append(Process(npu, chip, pid, row["Process name"], memory, container_pid))
        return memory is not None

    def _end_chip(self) -> None:
        if self._first is not None:
            npu, name, health = self._first
            self._chips.append(Chip(npu, None, None, name, health, layout=self._layout))
        self._first = None

    @property
    def _layout(self) -> str:
        if self._first_headings[:1] == [["NPU ID"]]:
            return "950"
        return _LAYOUTS.get(tuple(self._second_headings[0]), "") if self._second_headings else ""


def _lines(text: str) -> list[str]:
    """The lines that are not blank, without the blanks around them; of an endless text the beginning, which it says."""
    lines = [line.strip()[:_LONGEST_LINE] for line in text[:_LONGEST].splitlines() if line.strip()]
    return lines if len(text) <= _LONGEST else [*lines, f"(cut here: the output has {len(text)} characters)"]


def _cells(line: str) -> list[str]:
    """The cells of a row; none where the line does not begin and end with a bar, as one that was cut off."""
    parts = _BARS.split(line)
    return [part.strip() for part in parts[1:-1]] if len(parts) > 2 and not parts[0] and not parts[-1] else []


def _assign(headings: list[list[str]], cells: list[str]) -> dict[str, str]:
    """The values of a row by column; nothing where the row has not the cells and values that the headings call for."""
    row: dict[str, str] = {}
    if len(headings) != len(cells):
        return {}
    for names, cell in zip(headings, cells):
        values = _values(names, cell)
        if values is None:
            return {}
        row.update(values)
    return row


def _values(names: list[str], cell: str) -> dict[str, str] | None:
    """The values of one cell by column, None where it does not fit its headings.

    A cell of usages that does not fit gives no values, and the row's others still count.
    """
    if any("-Usage" in name for name in names):
        return _usages(names, " ".join(cell.split()).replace(" /", "/").replace("/ ", "/").split())
    if not names:
        return None if cell else {}
    words = [cell] if len(names) == 1 else cell.split(None, len(names) - 1)
    return dict(zip(names, words)) if len(words) == len(names) else None


def _usages(names: list[str], words: list[str]) -> dict[str, str]:
    """The values of a cell with usages; none where numbers and usages do not stand where the headings have them."""
    values = dict(zip(names, words))
    fits = len(names) == len(words) and all(
        "/" in word or word == "NA" if "-Usage" in name else "/" not in word for name, word in values.items()
    )
    return values if fits else {}


def _second_row(row: dict[str, str]) -> bool:
    """Whether a row can be a chip's second: a chip number where the layout has one, and something for a bus id."""
    return bool(row.get("Bus-Id")) and ("Chip" not in row or _number(row["Chip"]) is not None)


def _chip(first: _First, row: dict[str, str], layout: str) -> tuple[Chip, bool]:
    """The chip of two rows, and whether all of its second row was readable; `davinci` and `dies` follow at the end."""
    sizes = {kind: row[column] for kind, column in _MEMORY if column in row}
    read = {kind: _USAGE.fullmatch(size) for kind, size in sizes.items()}
    used = {kind: (int(match[1]), int(match[2])) for kind, match in read.items() if match}
    kind = next((kind for kind in used if used[kind][1]), next(iter(used), ""))
    if "HBM" in sizes and "HBM" not in used:
        kind = ""  # its HBM cannot be read, and the DDR beside it is not what a model gets
    node = {"a3": "Phy-ID", "310p": "Device"}.get(layout)
    davinci = _number(row[node]) if node else None
    chip = Chip(
        first.npu,
        _number(row.get("Chip", "")),
        davinci,
        first.name,
        first.health,
        bus_id=row["Bus-Id"],
        memory_used=used[kind][0] if kind else None,
        memory_total=used[kind][1] if kind else None,
        memory_kind=kind,
        ddr_total=used["DDR"][1] if "DDR" in used else None,
        layout=layout,
    )
    sizes_read = bool(sizes) and all(kind in used or size in ("NA", "NA/NA") for kind, size in sizes.items())
    return chip, sizes_read and (not node or davinci is not None)


def _placed(chip: Chip, rows: int, dies: int) -> Chip:
    """The chip with what only the whole table tells: how many chips its NPU has, and its node where the id gives it.

    An NPU that has several rows in a table without Phy-ID does not say which of them has which node.
    """
    by_id = chip.layout == "950" or (chip.layout == "a2" and rows == 1)
    return replace(chip, dies=dies, davinci=chip.npu if by_id else chip.davinci)


def _mapped(columns: list[str], line: str) -> MappedChip | None:
    """A row of `info -m` by its columns; None where a number is missing or a column is neither a number nor `-`."""
    words = line.split(None, len(columns) - 1) if columns else []
    if not words or len(words) != len(columns):
        return None
    ids = dict(zip(columns[:-1], words[:-1]))
    numbers = {column: _number(word) for column, word in ids.items()}
    npu = numbers["NPU ID"]
    if npu is None or any(numbers[column] is None and word not in ("-", "NA") for column, word in ids.items()):
        return None
    chip, logic, phy = numbers.get("Chip ID"), numbers.get("Chip Logic ID"), numbers.get("Chip Phy-ID")
    return MappedChip(npu, chip, logic, phy, numbers.get("Slot ID"), words[-1])


def _pairs(text: str, rest: _Rest, known: set[str]) -> Iterator[tuple[str, str, str]]:
    """The `key : value` lines of a text as key, value and line; all others go to the rest.

    npu-smi writes blanks before the colon. Without one only the `known` keys count: a warning may have a colon too.
    """
    for line in _lines(text):
        before, colon, value = line.partition(":")
        key = " ".join(before.split())
        if colon and key and (before[-1].isspace() or key in known):
            yield key, value.strip(), line
        else:
            rest.add(line)


def _device_error(line: str) -> DeviceError | None:
    """The error that a line states; None where it states none."""
    number = _CODE.search(line)
    if number:
        code = int(number[0])
        return DeviceError(code, line, _BY_CODE.get(code, "a code of the driver whose meaning is not known here"))
    library = _LIBRARY.search(line)
    if library:
        meaning = f"{library[1]} is missing: usually the driver's lib64 is not mounted or not in LD_LIBRARY_PATH"
        return DeviceError(None, line, meaning)
    meanings = (meaning for pattern, meaning in _BY_TEXT if re.search(pattern, line, re.IGNORECASE))
    return next((DeviceError(None, line, meaning) for meaning in meanings), None)


def _number(text: str) -> int | None:
    """The number that a text is, or None."""
    return int(text) if _NUMBER.fullmatch(text) else None


def _stated(value: str) -> str:
    """The value, or the empty text where the tool states that there is none."""
    return "" if value in ("-", "NA", "N/A") else value


def _plain(name: str) -> str:
    """A chip's name in small letters, without `Ascend` and the blank that `info -m` puts after it."""
    return re.sub(r"^ascend[ _]?", "", name.strip().lower())


def _soc(chip_name: str, npu_name: str) -> str:
    """The SOC_VERSION of a chip, by the rules of vllm-ascend's setup.py; empty where the names do not tell it."""
    plain = _plain(chip_name)
    family = family_of(chip_name)
    if plain == "a2g3":
        return "ascend910b1"
    if plain == "910" or (family == A5 and "_" not in plain):
        return f"ascend{plain}_{npu_name.lower()}" if npu_name else ""
    if family == UNKNOWN or plain.startswith("910c"):
        return ""
    return "ascend" + plain
