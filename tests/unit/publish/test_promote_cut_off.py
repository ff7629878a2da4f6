"""A promotion that ends in its midst puts on record what it has done, on a machine that no other promotion sees."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ascend_images.errors import LookupIncomplete
from ascend_images.publish import promote as promoting
from ascend_images.publish.lock import FOLDER
from ascend_images.publish.manifest import Joined, join
from ascend_images.publish.promote import Move, promote, publication_of
from ascend_images.publish.published import FILE, Publication, load
from ascend_images.publish.registry import Repository
from ascend_images.publish.required import proofs, required
from ascend_images.publish.transport import Reply, Request
from tests.publish_kit import CHECKS, DOCKERFILE, FakeRegistry, Killed, project, pushed, reports, repository, variant

pytestmark = pytest.mark.subprocess

ALIASES = ("latest-one", "latest-two")


def ready(registry: FakeRegistry) -> tuple[Joined, Publication]:
    """Push and join an image; return it with the publication of a tag and two aliases."""
    client, of = repository(registry), variant()
    joined = join(of.name, of.platforms, pushed(client, of), client)
    publication = publication_of(
        joined,
        of,
        proofs(joined, reports(joined), required(CHECKS)),
        aliases=ALIASES,
        when="2026-11-30T12:00:00Z",
        commit="c" * 40,
        source="",
        dockerfile=DOCKERFILE,
        reason="",
    )
    return joined, publication


def go(root: Path, registry: FakeRegistry, joined: Joined, publication: Publication) -> None:
    promote(root, publication, joined, repository(registry), say=lambda _: None)


def stop_at(registry: FakeRegistry, tag: str, how: Callable[[], Reply]) -> None:
    def before(request: Request) -> Reply | None:
        return how() if request.method == "PUT" and request.url.endswith(f"/{tag}") else None

    registry.before = before


def killed() -> Reply:
    raise Killed


@pytest.mark.parametrize("done", [0, 1, 2])
@pytest.mark.parametrize(("how", "raised"), [(killed, Killed), (lambda: Reply(status=500), LookupIncomplete)])
def test_what_was_written_is_on_record_and_the_next_promotion_goes_on(
    tmp_path: Path, done: int, how: Callable[[], Reply], raised: type[BaseException]
) -> None:
    registry = FakeRegistry()
    root = project(tmp_path)
    joined, publication = ready(registry)
    stop_at(registry, publication.tags[done], how)
    with pytest.raises(raised):
        go(root, registry, joined, publication)
    part = msgspec.structs.replace(publication, aliases=publication.tags[1:done])
    assert load(root / FILE).publications == ((part,) if done else ())
    # It is not known here whether the one that was being written is.
    assert len(list((root / FOLDER / "pending").iterdir())) == 1
    registry.before = lambda _: None
    go(root, registry, joined, publication)
    assert load(root / FILE).publications == (part, publication)[0 if done else 1 :]
    assert list((root / FOLDER / "pending").iterdir()) == []


def test_a_tag_that_somebody_else_took_is_not_put_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = FakeRegistry()
    root = project(tmp_path)
    joined, publication = ready(registry)

    def ended(_: Repository, __: Move) -> None:
        raise Killed

    monkeypatch.setattr(promoting, "_read_back", ended)
    with pytest.raises(Killed):
        go(root, registry, joined, publication)
    assert not (root / FILE).exists()


def test_where_nothing_can_be_put_on_record_what_ended_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = FakeRegistry()
    root = project(tmp_path)
    joined, publication = ready(registry)
    stop_at(registry, ALIASES[0], killed)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(promoting, "append", full)
    with pytest.raises(Killed):
        go(root, registry, joined, publication)
    assert len(list((root / FOLDER / "pending").iterdir())) == 1
