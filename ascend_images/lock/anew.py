"""uv keeps lists of versions by itself, for as long as their index allows: asked anew where one may be too old."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from packaging.utils import canonicalize_name

from ascend_images.lock.resolver import Question, UnresolvableError, Uv

# How uv 0.9 and later say of which package something is missing; "only" is followed by one version or by a list.
_LACKING = re.compile(
    r"\bno\s+versions?\s+of\s+(?P<none>[\w.-]*\w)"
    r"|\bonly\s+(?:the\s+following\s+versions\s+of\s+)?(?P<only>[\w.-]*\w)\S*\s+(?:is|are)\s+available"
    r"|\b(?P<unfit>[\w.-]*\w)[<>=!~]=\S+\s+ha(?:s|ve)\s+no\s+"
)


@dataclass(frozen=True)
class UvAnew(Uv):
    """uv that does not say that a version is not there because its list is an old one.

    When `fresh`, no list of an earlier command counts at all. Either way each package is asked anew once at most.
    """

    fresh: bool = False
    _asked: set[str] = field(default_factory=set, compare=False, repr=False)

    def resolve(self, question: Question) -> dict[str, str]:
        """Ask uv; see `Resolver.resolve`."""
        if self.offline:
            return super().resolve(question)
        renewed = ["--refresh"] if self.fresh and not self._asked else []
        while True:
            try:
                found = self._ask(question, renewed)
            except UnresolvableError as error:
                names = self._still(lacking(str(error)))
                if not names:
                    raise
            else:
                if "--refresh" in renewed:
                    self._asked.update(found)
                names = self._still(found) if self.fresh else []
                if not names:
                    return found
            self._asked.update(names)
            renewed = [word for name in names for word in ("--refresh-package", name)]

    def _ask(self, question: Question, renewed: Iterable[str]) -> dict[str, str]:
        return Uv.resolve(replace(self, arguments=(*self.arguments, *renewed)), question)

    def _still(self, names: Iterable[str]) -> list[str]:
        """Return the names that were not asked anew yet."""
        return sorted(set(names) - self._asked)


def lacking(explanation: str) -> set[str]:
    """Return the packages of which uv says that a version or a file is not there, by normalised name."""
    return {str(canonicalize_name(found[found.lastgroup or ""])) for found in _LACKING.finditer(explanation)}
