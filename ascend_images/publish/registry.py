"""A client of container registries: manifests, tags and what they need, by the OCI distribution specification.

Over https, and over plain http on this machine's loopback, as Docker does it. What may pass by itself (429, 5xx, a
connection that is cut) is tried again.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlencode, urljoin, urlsplit, urlunsplit

from ascend_images.digest import digest_of, is_digest
from ascend_images.errors import BadInput, LookupIncomplete, PublishRefused, said
from ascend_images.images.publish import is_loopback
from ascend_images.pins.tags import ImageRef, is_tag
from ascend_images.publish.answers import refusal, retry_after, tags_in
from ascend_images.publish.authorization import Authorizer, parse_challenge
from ascend_images.publish.credentials import Login, login_for
from ascend_images.publish.transport import NoAnswerError, NotSentError, Reply, Request, Send, address, send

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
INDEX_TYPES = (INDEX, _DOCKER_INDEX)
MANIFEST_TYPES = (MANIFEST, _DOCKER_MANIFEST)
_ACCEPT = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))

_ATTEMPTS = 6
_FIRST_WAIT = 0.5  # seconds; doubled each time
_LONGEST_WAIT = 120.0  # seconds, of those a registry asks for
_MOST_REDIRECTS = 5
_PAGE = 100
_UPLOADS = 3

# 507 is "insufficient storage", which no waiting mends.
_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_NEXT = re.compile(r'<([^>]*)>\s*;\s*rel="?next"?')
_OK, _CREATED, _ACCEPTED, _NO_CONTENT = 200, 201, 202, 204
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _NOT_ALLOWED, _FULL = 401, 403, 404, 405, 507
_UPLOAD_IS_SPENT = frozenset((400, 404, 416))


class Stored(NamedTuple):
    """A manifest or index as a registry keeps it: its digest is that of its bytes."""

    digest: str
    media_type: str
    content: bytes


class Repository:
    """One image repository of a registry, by its name without tag and digest.

    Everything raises LookupIncomplete where the registry gives no answer, or none but that it cannot now, after several
    attempts; PublishRefused where it refuses; BadInput for what is no digest, or no tag, and would be another address.
    """

    def __init__(
        self,
        name: str,
        *,
        send: Send = send,
        login: Callable[[str], Login | None] = login_for,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        reference = ImageRef.parse(name)
        self.name = reference.name
        self._registry = reference.registry or "docker.io"
        self._path = _full_path(reference)
        host = "registry-1.docker.io" if self._registry == "docker.io" else self._registry
        self._base = f"{'http' if is_loopback(name) else 'https'}://{host}/v2/{self._path}/"
        self._send = send
        self._sleep = sleep
        self._authorizer = Authorizer(self._registry, self._asked, lambda: login(reference.registry))

    def manifest(self, reference: str) -> Stored | None:
        """Return what a tag or digest stands for, None where the repository has none of it."""
        reply = self._ask("GET", f"manifests/{self._named(reference)}", headers={"Accept": _ACCEPT})
        if reply.status == _NOT_FOUND:
            return None
        self._require(reply, "read", reference, _OK)
        return self._checked(reply, reference)

    def has_blob(self, digest: str) -> bool:
        """Say whether a blob is there."""
        reply = self._ask("HEAD", f"blobs/{self._of_digest(digest)}")
        if reply.status == _NOT_FOUND:
            return False
        self._require(reply, "read", digest, _OK)
        return True

    def blob(self, digest: str) -> bytes | None:
        """Return a small blob, such as a configuration; None where it is not there."""
        reply = self._ask("GET", f"blobs/{self._of_digest(digest)}")
        if reply.status == _NOT_FOUND:
            return None
        self._require(reply, "read", digest, _OK)
        return self._checked(reply, digest).content

    def put(self, reference: str, content: bytes, media_type: str) -> None:
        """Put a manifest or index under a tag, or its digest; everything that it names must be there."""
        headers = {"Content-Type": media_type}
        path = f"manifests/{self._named(reference)}"
        reply = self._ask("PUT", path, headers=headers, body=content, writes=True)
        self._require(reply, "write", reference, _OK, _CREATED, _ACCEPTED, _NO_CONTENT)

    def put_blob(self, content: bytes) -> str:
        """Put a small blob, unless it is there; return its digest."""
        digest = digest_of(content)
        if self.has_blob(digest):
            return digest
        for _ in range(_UPLOADS):
            begun = self._ask("POST", "blobs/uploads/", writes=True)
            self._require(begun, "write", digest, _ACCEPTED)
            reply = self._upload(begun.headers.get("location", ""), digest, content)
            # An upload that was cut has a part of the bytes already: only another one can be repeated.
            if reply.status not in _UPLOAD_IS_SPENT:
                break
        self._require(reply, "write", digest, _OK, _CREATED, _ACCEPTED, _NO_CONTENT)
        return digest

    def referrers(self, digest: str) -> bytes | None:
        """Return the index of what names an image as its subject; None where the registry has no such list.

        By the OCI distribution specification 1.1, "Listing Referrers"; then a tag has it (`publish.referrers`).
        """
        reply = self._ask("GET", f"referrers/{self._of_digest(digest)}", headers={"Accept": INDEX})
        if reply.status in (_NOT_FOUND, _NOT_ALLOWED):
            return None
        self._require(reply, "read", f"what refers to {digest}", _OK)
        return reply.body

    def delete(self, digest: str) -> None:
        """Delete a manifest or index by digest, and with it every tag on it; one that is gone already is no error."""
        reply = self._ask("DELETE", f"manifests/{self._of_digest(digest)}", writes=True, deletes=True)
        if reply.status == _NOT_ALLOWED:
            raise PublishRefused(
                f"{self._registry} does not let manifests be deleted (HTTP {_NOT_ALLOWED})",
                wanted="a registry that allows it",
                do="allow deleting in its configuration, or prune with the registry's own tools",
            )
        self._require(reply, "delete", digest, _OK, _ACCEPTED, _NO_CONTENT, _NOT_FOUND)

    def tags(self) -> tuple[str, ...]:
        """Return every tag, sorted; none for a repository that is not there yet."""
        return tuple(sorted(set(self._tags())))

    def _tags(self) -> Iterator[str]:
        path = f"tags/list?n={_PAGE}"
        seen: set[str] = set()
        while path and path not in seen:
            seen.add(path)
            reply = self._ask("GET", path)
            if reply.status == _NOT_FOUND:
                return
            self._require(reply, "read", "the list of tags", _OK)
            yield from tags_in(reply, self.name)
            following = _NEXT.search(reply.headers.get("link", ""))
            # On the same registry, whatever host it names itself by.
            path = f"tags/list?{following[1].partition('?')[2].partition('#')[0]}" if following else ""

    def _upload(self, location: str, digest: str, content: bytes) -> Reply:
        """Return the answer to a whole blob, sent where an upload was begun; only the registry gets a login."""
        own = urlsplit(self._base)
        parts = urlsplit(self._onward(location, self._base))
        query = "&".join(filter(None, (parts.query, urlencode({"digest": digest}))))
        url = urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))
        headers = {"Content-Type": "application/octet-stream"}
        if parts.netloc == own.netloc:
            return self._ask("PUT", url, headers=headers, body=content, writes=True)
        return self._asked(Request(method="PUT", url=url, headers=headers, body=content))

    def _checked(self, reply: Reply, reference: str) -> Stored:
        found = Stored(digest_of(reply.body), reply.headers.get("content-type", "").partition(";")[0], reply.body)
        if reference.startswith("sha256:") and found.digest != reference:
            raise LookupIncomplete(
                f"{self.name}@{reference}: what came has the digest {found.digest}",
                wanted="what was asked for; something between here and the registry changes it",
            )
        return found

    def _ask(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        writes: bool = False,
        deletes: bool = False,
    ) -> Reply:
        """Return the answer to a request, authorized as far as this user's login goes; redirections are followed."""
        actions = "pull,push,delete" if deletes else "pull,push" if writes else "pull"
        scope = f"repository:{self._path}:{actions}"
        url = urljoin(self._base, path)
        request = Request(method=method, url=url, headers=headers or {}, body=body)
        reply = self._asked(self._authorized(request, scope))
        if reply.status == _UNAUTHORIZED:
            challenge = parse_challenge(reply.headers.get("www-authenticate", ""))
            if challenge and self._authorizer.answer(scope, challenge):
                reply = self._asked(self._authorized(request, scope))
        for _ in range(_MOST_REDIRECTS):
            if reply.status not in _REDIRECTS or not reply.headers.get("location"):
                break
            url = self._onward(reply.headers["location"], url)
            # Without the authorization: the other host's address carries its own.
            request = Request(method=method, url=url, headers=headers or {}, body=body)
            reply = self._asked(request)
        return reply

    def _onward(self, location: str, base: str) -> str:
        """Return where an answer sends whoever asked; raises PublishRefused for what may not be asked."""
        own = urlsplit(self._base)
        plain = f"http://{own.netloc}/"
        if location.startswith(plain):
            # Behind a proxy a registry may take itself for one without TLS.
            location = f"{own.scheme}://{own.netloc}/{location.removeprefix(plain)}"
        url = address(location, base)
        if not url:
            raise PublishRefused(f"{self._registry} redirects to {said(location)}", wanted="https")
        return url

    def _named(self, reference: str) -> str:
        if is_tag(reference) or is_digest(reference):
            return reference
        raise BadInput(f"{self.name}: {said(repr(reference))} is neither a tag nor a digest", wanted="one of them")

    def _of_digest(self, digest: str) -> str:
        if is_digest(digest):
            return digest
        raise BadInput(f"{self.name}: {said(repr(digest))} is no digest", wanted="sha256: and 64 hex digits")

    def _authorized(self, request: Request, scope: str) -> Request:
        header = self._authorizer.header(scope)
        own = {**request.headers, **({"Authorization": header} if header else {})}
        return Request(method=request.method, url=request.url, headers=own, body=request.body)

    def _asked(self, request: Request) -> Reply:
        """Return an answer that does not pass by itself; raises LookupIncomplete where none came in all attempts."""
        why = ""
        for attempt in range(_ATTEMPTS):
            wait = _FIRST_WAIT * 2**attempt
            try:
                reply = self._send(request)
            except NotSentError as error:
                raise LookupIncomplete(
                    f"{urlsplit(request.url).netloc}: {_place(request)} cannot be asked: {error}",
                    wanted="what HTTP can say",
                ) from None
            except NoAnswerError as error:
                why = said(str(error))
            else:
                if reply.status not in _PASSING:
                    return reply
                why = f"HTTP {reply.status}{refusal(reply)}"
                wait = max(wait, min(retry_after(reply, time.time()), _LONGEST_WAIT))
            if attempt + 1 < _ATTEMPTS:
                self._sleep(wait)
        raise LookupIncomplete(
            f"{urlsplit(request.url).netloc}: {why} ({_place(request)}, {_ATTEMPTS} times)",
            wanted="a registry that answers",
            do="the same command again, later: it goes on where it stopped",
        )

    def _require(self, reply: Reply, verb: str, what: str, *good: int) -> None:
        """Raise PublishRefused for an answer whose status is none of the good ones."""
        if reply.status in good:
            return
        told = f"HTTP {reply.status}{refusal(reply)}"
        if reply.status in (_UNAUTHORIZED, _FORBIDDEN):
            raise PublishRefused(
                f"{self.name}: this user may not {verb} {what}: {told}",
                wanted=f"a login at {self._registry} that is still good and may {verb} there",
                do=f"docker login {self._registry}",
            )
        wanted = "room on the registry's disk" if reply.status == _FULL else "a registry that takes it"
        raise PublishRefused(f"{self.name}: the registry would not {verb} {what}: {told}", wanted=wanted)


def _place(request: Request) -> str:
    """Return what a message may tell of a request: without the query, which may hold what lets whoever has it in."""
    return said(f"{request.method} {urlsplit(request.url).path}")


def _full_path(reference: ImageRef) -> str:
    is_hub = reference.registry in ("", "docker.io")
    return f"library/{reference.repository}" if is_hub and "/" not in reference.repository else reference.repository
