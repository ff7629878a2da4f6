"""What the tests of updates share: an index that knows all its versions, a registry that knows its tags, no network."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ascend_images.lock.outdated import Hosts
from ascend_images.lock.reach import UnreachableError
from ascend_images.lock.release import Release
from tests.lock_kit import FakeIndex
from tests.remotes import FakeGit, FakeImages


@dataclass
class Listing(FakeIndex):
    """An index in memory that knows all its versions."""

    def every_release(self, name: str, index: str | None = None) -> tuple[Release, ...]:
        self.release(name, "", index)
        return tuple(
            Release(name, version, tuple(files))
            for (where, own, version), files in self.releases.items()
            if (where, own) == (index or "", name)
        )


@dataclass
class FakeTags:
    """Registries in memory: the tags of each repository; one that is not there gives no answer."""

    there: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def tags(self, repository: str) -> tuple[str, ...]:
        if repository not in self.there:
            raise UnreachableError("no answer in time")
        return self.there[repository]


def hosts(
    index: FakeIndex | None = None,
    git: FakeGit | None = None,
    addresses: Mapping[str, str] | None = None,
    cann: tuple[str, ...] = (),
) -> Hosts:
    return Hosts(
        packages=index if isinstance(index, Listing) else Listing(),
        addresses=addresses or {},
        git=git or FakeGit(),
        images=FakeImages(),
        tags=FakeTags({"quay.io/ascend/cann": cann}),
    )
