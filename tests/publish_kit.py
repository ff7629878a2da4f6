"""A registry in memory, small images made by hand, and the records and reports of them."""

import gzip
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from ascend_images import publishing
from ascend_images.digest import digest_of
from ascend_images.images.candidate import LABEL_IDENTITY, candidate_tag, identity
from ascend_images.images.plan import RECORDS
from ascend_images.images.record import Record, write_record
from ascend_images.pins.lockfile import file_name
from ascend_images.pins.model import Pins
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve
from ascend_images.pins.tags import ImageRef
from ascend_images.pins.variant import Variant
from ascend_images.publish.manifest import Joined
from ascend_images.publish.registry import INDEX, MANIFEST, Repository
from ascend_images.publish.required import NPU, required
from ascend_images.publish.transport import Reply, Request, Send
from ascend_images.verify.report import Report, Result, write_report
from tests.pins_kit import committed, committed_text

ROOT = Path(__file__).parents[1]
REPOSITORY = "registry.invalid/ascend/ms-swift"
DOCKERFILE = "dockerfiles/rendered/a2.Dockerfile"
BOTH = (Arch.AMD64, Arch.ARM64)
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
#: What a verification asks, as far as promotions are told.
CHECKS = ("container", "architecture", "pinned-packages", *NPU, "generate", "tag", "own-pins")
EPOCH = 1_700_000_000


class Killed(BaseException):
    """The process ends here."""


@cache
def pins() -> Pins:
    return committed()


#: Where a2's images go, by the pins of whoever runs this.
QUAY = resolve(pins(), "a2").repository
#: The same as a registry is asked for it.
OF_QUAY = ImageRef.parse(QUAY).repository


def variant(of: str = "a2", /, *, repository: str = REPOSITORY, **changed: Any) -> Variant:
    return msgspec.structs.replace(resolve(pins(), of), repository=repository, **changed)


# --- a registry in memory


@dataclass
class FakeRegistry:
    """A registry, asked as over HTTP. `minute` is its clock: what has no tag for `untagged_minutes` is removed.

    `before` and `after` are called with each request, before and after its effect, and may answer or raise instead.
    """

    manifests: dict[tuple[str, str], tuple[str, bytes, float]] = field(default_factory=dict)
    tags: dict[tuple[str, str], str] = field(default_factory=dict)
    blobs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    asked: list[Request] = field(default_factory=list)
    before: Callable[[Request], Reply | None] = lambda _: None
    after: Callable[[Request], Reply | None] = lambda _: None
    minute: float = 0.0
    untagged_minutes: float = float("inf")
    page: int = 1000
    deletes: bool = True

    def __call__(self, request: Request) -> Reply:
        self._drop_untagged()
        self.asked.append(request)
        instead = self.before(request)
        if instead is not None:
            return instead
        reply = self._reply(request)
        return self.after(request) or reply

    def readable(self) -> dict[str, str]:
        """Return the tags that are no candidates'."""
        return {tag: digest for (_, tag), digest in self.tags.items() if not tag.startswith("candidate-")}

    def writes(self) -> list[str]:
        """Return the last part of every path that was written or deleted."""
        return [request.url.rpartition("/")[2] for request in self.asked if request.method in ("PUT", "DELETE")]

    def _drop_untagged(self) -> None:
        if self.untagged_minutes == float("inf"):
            return
        used = set(self.tags.items())
        tagged = {(name, digest) for (name, _), digest in used}
        kept = set(tagged)
        for name, digest in tagged:
            kind, content, _ = self.manifests.get((name, digest), ("", b"", 0))
            if kind == INDEX:
                kept |= {(name, entry["digest"]) for entry in json.loads(content)["manifests"]}
        for key, (_, _, since) in list(self.manifests.items()):
            if key not in kept and self.minute - since >= self.untagged_minutes:
                del self.manifests[key]

    def _reply(self, request: Request) -> Reply:
        parts = urlsplit(request.url)
        words = parts.path.removeprefix("/v2/").split("/")
        if words[-2:] == ["tags", "list"]:
            return self._list("/".join(words[:-2]), parse_qs(parts.query))
        if words[-2] == "uploads" or words[-1] == "uploads":
            return self._upload("/".join(words[: words.index("blobs")]), request, parse_qs(parts.query))
        name, kind, reference = "/".join(words[:-2]), words[-2], words[-1]
        if kind == "referrers":
            return _error(404)
        if kind == "blobs":
            content = self.blobs.get((name, reference))
            return _error(404) if content is None else Reply(status=200, body=content)
        return getattr(self, f"_{request.method.lower()}")(name, reference, request)

    def _get(self, name: str, reference: str, _: Request) -> Reply:
        digest = self.tags.get((name, reference), reference)
        found = self.manifests.get((name, digest))
        if found is None:
            return _error(404)
        return Reply(status=200, headers={"content-type": found[0]}, body=found[1])

    def _put(self, name: str, reference: str, request: Request) -> Reply:
        content = request.body or b""
        document = json.loads(content)
        children = [entry["digest"] for entry in document.get("manifests", ())]
        blobs = [entry["digest"] for entry in (document.get("config"), *document.get("layers", ())) if entry]
        if any((name, digest) not in self.manifests for digest in children):
            return _error(404, "manifest unknown")
        if any((name, digest) not in self.blobs for digest in blobs):
            return _error(400, "blob unknown to registry")
        digest = digest_of(content)
        self.manifests[name, digest] = (request.headers["Content-Type"], content, self.minute)
        if not reference.startswith("sha256:"):
            self.tags[name, reference] = digest
        return Reply(status=201)

    def _delete(self, name: str, reference: str, _: Request) -> Reply:
        if not self.deletes:
            return _error(405)
        if (name, reference) not in self.manifests:
            return _error(404)
        del self.manifests[name, reference]
        self.tags = {key: digest for key, digest in self.tags.items() if (key[0], digest) != (name, reference)}
        return Reply(status=202)

    def _list(self, name: str, query: Mapping[str, list[str]]) -> Reply:
        names = sorted(tag for repository, tag in self.tags if repository == name)
        if not names:
            return _error(404)
        rest = [tag for tag in names if tag > query.get("last", [""])[0]]
        shown = rest[: self.page]
        more = {"link": f'</v2/{name}/tags/list?last={shown[-1]}&n=100>; rel="next"'} if len(rest) > len(shown) else {}
        return Reply(status=200, headers=more, body=json.dumps({"name": name, "tags": shown}).encode())

    def _upload(self, name: str, request: Request, query: Mapping[str, list[str]]) -> Reply:
        if request.method == "POST":
            return Reply(status=202, headers={"location": f"/v2/{name}/blobs/uploads/1"})
        (digest,) = query["digest"]
        self.blobs[name, digest] = request.body or b""
        return Reply(status=201)


def _error(status: int, message: str = "") -> Reply:
    return Reply(status=status, body=json.dumps({"errors": [{"code": "X", "message": message}]}).encode())


def repository(send: Send, name: str = REPOSITORY, sleeps: list[float] | None = None) -> Repository:
    """Return a client that waits for nothing and has no login."""
    waits = sleeps if sleeps is not None else []
    return Repository(name, send=send, login=lambda _: None, sleep=waits.append)


# --- images


@dataclass(frozen=True)
class Image:
    """An image as it is pushed: `top` is what the tag stands for, an index where something is attested."""

    arch: Arch
    blobs: Mapping[str, bytes]
    manifests: tuple[tuple[str, bytes], ...]

    @property
    def top(self) -> bytes:
        return self.manifests[-1][1]

    @property
    def manifest(self) -> bytes:
        return self.manifests[0][1]

    @property
    def config(self) -> str:
        return str(json.loads(self.manifest)["config"]["digest"])


def image(
    arch: Arch,
    text: str = "hello",
    *,
    attested: bool = True,
    said: Arch | None = None,
    created: int | None = None,
    labels: Mapping[str, str] | None = None,
) -> Image:
    """Return a tiny image that a real engine can pull.

    `said` is an architecture that its configuration lies about, `created` a time in seconds that it tells.
    """
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        info = tarfile.TarInfo("hello.txt")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text.encode()))
    layer = gzip.compress(tar.getvalue(), mtime=0)
    when = datetime.fromtimestamp(created, UTC).isoformat() if created is not None else None
    config = _json(
        {
            **({"created": when} if when else {}),
            "architecture": (said or arch).value,
            "os": "linux",
            "config": {"Cmd": ["/hello"], **({"Labels": dict(labels)} if labels else {})},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(tar.getvalue())]},
        }
    )
    manifest = _manifest(CONFIG, config, LAYER, layer)
    blobs = {digest_of(one): one for one in (config, layer)}
    manifests = [(MANIFEST, manifest)]
    if attested:
        statement = _json({"predicateType": "https://slsa.dev/provenance/v0.2", "predicate": {"of": text}})
        empty = _json({"architecture": "unknown", "os": "unknown", "rootfs": {"type": "layers", "diff_ids": []}})
        attestation = _manifest(CONFIG, empty, "application/vnd.in-toto+json", statement)
        blobs |= {digest_of(one): one for one in (statement, empty)}
        about = {
            "vnd.docker.reference.type": "attestation-manifest",
            "vnd.docker.reference.digest": digest_of(manifest),
        }
        nothing = {"architecture": "unknown", "os": "unknown"}
        entries = [
            entry(manifest, {"architecture": arch.value, "os": "linux"}),
            {**entry(attestation, nothing), "annotations": about},
        ]
        manifests += [(MANIFEST, attestation), (INDEX, index_of(*entries))]
    return Image(arch, blobs, tuple(manifests))


def entry(manifest: bytes, platform: Mapping[str, str], media_type: str = MANIFEST) -> dict[str, Any]:
    size = len(manifest)
    return {"mediaType": media_type, "digest": digest_of(manifest), "size": size, "platform": dict(platform)}


def index_of(*entries: Mapping[str, Any]) -> bytes:
    return _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": list(entries)})


def push(client: Repository, one: Image, *tags: str) -> str:
    """Push an image under tags, as buildx does it; return the digest that it has there."""
    base = client._base
    for digest, content in one.blobs.items():
        begun = client._send(Request(method="POST", url=f"{base}blobs/uploads/"))
        assert begun.status == 202, begun
        place = begun.headers["location"]
        place = place if "://" in place else base.partition("/v2/")[0] + place
        url = f"{place}{'&' if '?' in place else '?'}digest={digest}"
        kind = {"Content-Type": "application/octet-stream"}
        done = client._send(Request(method="PUT", url=url, headers=kind, body=content))
        assert done.status == 201, done
    for kind, content in one.manifests:
        client.put(digest_of(content), content, kind)
    for tag in tags:
        client.put(tag, one.top, one.manifests[-1][0])
    return digest_of(one.top)


def _manifest(config_type: str, config: bytes, layer_type: str, layer: bytes) -> bytes:
    def part(kind: str, content: bytes) -> dict[str, Any]:
        return {"mediaType": kind, "digest": digest_of(content), "size": len(content)}

    layers = [part(layer_type, layer)]
    config_part = part(config_type, config)
    return _json({"schemaVersion": 2, "mediaType": MANIFEST, "config": config_part, "layers": layers})


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


# --- records, reports and the project they belong to


def record(of: Variant, one: Image, /, **changed: Any) -> Record:
    """Return the record that a build of an image leaves."""
    values: dict[str, Any] = {
        "variant": of.name,
        "arch": one.arch,
        "image": f"{of.repository}:{candidate_tag(of.name, identity(of), one.arch)}",
        "tag": of.tag,
        "pushed": True,
        "digest": digest_of(one.top),
        "manifest": digest_of(one.manifest),
        "config": one.config,
        "bytes": 1,
        "layers": None,
        "seconds": 1.0,
        "unlocked": False,
        "incomplete": (),
        "epoch": EPOCH,
        "builder": "default",
        "base": of.base_image,
        "inputs": "",
        "dockerfile": digest_of(dockerfile_text(of.name)),
        "lock": digest_of(lock_text(of.name, one.arch)),
        "contexts": {},
        "local": {},
        "resolved": msgspec.json.decode(msgspec.json.encode(of)),
    }
    return Record(**{**values, **changed})


def dockerfile_text(name: str) -> bytes:
    return f"FROM cann AS {name}\n".encode()


def lock_text(name: str, arch: Arch) -> bytes:
    """Return the package lock of a variant for an architecture, as it lies here."""
    return (ROOT / "locks" / file_name(name, arch)).read_bytes()


def pushed(
    client: Repository,
    of: Variant,
    *,
    arches: Iterable[Arch] = BOTH,
    text: str = "hello",
    labels: Mapping[str, str] | None = None,
    **changed: Any,
) -> dict[Arch, Record]:
    """Push an image of a variant for each architecture; return their records."""
    made = {}
    for arch in arches:
        one = image(arch, text, labels=labels)
        made[arch] = record(of, one, **changed)
        push(client, one, made[arch].image.rpartition(":")[2])
    return made


def report(joined: Joined, platform: str, **changed: Any) -> Report:
    """Return a report of a joined image that passes whatever is required."""
    results = tuple(Result(name, "pass") for name in required(CHECKS))
    values: dict[str, Any] = {
        "name": joined.variant,
        "image": f"{joined.repository}@{joined.digest}",
        "digest": joined.digest,
        "platform": platform,
        "pins": joined.pins,
        "when": "2026-11-30T12:00:00Z",
        "seconds": 1.0,
        "host": {},
        "results": results,
        "facts": {},
    }
    return Report(**{**values, **changed})


def reports(joined: Joined, **changed: Any) -> list[Report]:
    return [report(joined, platform, **changed) for platform in joined.platforms]


def saying(report_of: Report, check: str, answer: Any) -> Report:
    """Return a report with another answer of one check; none at all for an empty one."""
    others = tuple(result for result in report_of.results if result.check != check)
    more = (Result(check, answer, "subject", "found"),) if answer else ()
    return msgspec.structs.replace(report_of, results=(*others, *more))


def project(folder: Path, *names: str) -> Path:
    """Make a committed project that holds the rendered files and locks of variants, and nothing else."""
    (folder / "locks").mkdir(parents=True, exist_ok=True)
    for name in names or ("a2",):
        for arch in BOTH:
            (folder / "locks" / file_name(name, arch)).write_bytes(lock_text(name, arch))
        path = folder / "dockerfiles" / "rendered" / f"{name}.Dockerfile"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dockerfile_text(name))
    (folder / ".gitignore").write_text("build/\n")
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder)
    return folder


def commit(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x")
    return git(folder, "rev-parse", "HEAD").strip()


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout


class World:
    """A committed project whose images go to one repository, and what is typed in it, without a verification."""

    def __init__(
        self,
        root: Path,
        opened: Callable[[str], Repository],
        registry: FakeRegistry | None = None,
        *,
        name: str = QUAY,
    ) -> None:
        (root / "versions.toml").write_text(committed_text().replace(f'"{QUAY}"', f'"{name}"'), encoding="utf-8")
        shutil.copy(ROOT / "versions.lock", root)
        shutil.copytree(ROOT / "dockerfiles" / "rendered", root / "dockerfiles" / "rendered")
        shutil.copytree(ROOT / "locks", root / "locks")
        self.root = project(root, "a2", "a3")
        self.name = name
        self.opened = opened
        self.registry = registry
        self.said: list[str] = []

    def build(self, *names: str, arches: Iterable[Arch] = BOTH, text: str = "", **fields: Any) -> None:
        """Push an image for each architecture and leave its record, as `invoke build --push` does."""
        for name in names:
            of = variant(name, repository=self.name)
            for arch in arches:
                labels = {LABEL_IDENTITY: identity(fields.get("resolved", of))}
                one = image(arch, text or name, labels=labels)
                made = record(of, one, **fields)
                push(self.opened(self.name), one, made.image.rpartition(":")[2])
                write_record(self.root / RECORDS / f"{name}.{arch.value}.json", made)

    def manifest(self, *names: str) -> list[Joined]:
        return publishing.manifest(self.root, names, RECORDS, opened=self.opened)

    def verify(self, *joined: Joined, check: str = "", answer: Any = "") -> None:
        """Leave reports that pass, but for one check's answer."""
        for one in joined:
            for passing in reports(one):
                given = saying(passing, check, answer) if check else passing
                write_report(self.root / "build" / "verify", given)

    def promote(self, *names: str, **fields: Any) -> list[str]:
        wish = publishing.Promotion(reports=self.root / "build" / "verify", **fields)
        say = self.said.append
        return publishing.promote(self.root, names, wish, checks=CHECKS, say=say, opened=self.opened, environment={})
