"""Which host drivers (HDK) a CANN release takes: the lines and bounds that versions.toml writes."""

from dataclasses import dataclass

from ascend_images.pins.cann_version import ReleaseVersion


@dataclass(frozen=True)
class DriverRange:
    """A line of drivers, `25.2` for all of 25.2.x and its candidates, or a bound: `>=24.1.rc2`, `>=24.1.rc2,<=25.2.0`.

    `first` is the oldest version that is in it, `last` the newest, None for none.
    """

    text: str
    first: ReleaseVersion
    last: ReleaseVersion | None = None

    @classmethod
    def parse(cls, text: str) -> "DriverRange":
        """Return the range that a text names whose form the model allows; raises BadInput for another."""
        if not text.startswith(">="):
            # Nothing of a line precedes its candidate 0.
            return cls(text, ReleaseVersion.parse(f"{text}.rc0"))
        first, _, last = text.removeprefix(">=").partition(",<=")
        return cls(text, ReleaseVersion.parse(first), ReleaseVersion.parse(last) if last else None)

    def __contains__(self, version: ReleaseVersion) -> bool:
        if not self.text.startswith(">="):
            return version.series == self.first.series
        return self.first <= version and (self.last is None or version <= self.last)

    def __str__(self) -> str:
        return self.text if self.text.startswith(">=") else f"{self.text}.x"
