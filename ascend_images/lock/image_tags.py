"""The tags of an image repository, asked of its registry over the OCI distribution API (tag listing, anonymous)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urljoin

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from ascend_images.images.network import mirrored_image
from ascend_images.lock.reach import UnreachableError, plain_reason
from ascend_images.pins.tags import ImageRef

#: Seconds for a connection and for an answer.
_TIMEOUT = (10.0, 60.0)
#: Pages of a thousand tags: CANN's repository has a few hundred.
_PAGES = 50
_FIELD = re.compile(r'(?P<key>[a-z]+)="(?P<value>[^"]*)"')
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?")


class TagHost(Protocol):
    """Whom to ask for the tags of an image repository."""

    def tags(self, repository: str) -> tuple[str, ...]:
        """Return every tag of a repository such as `quay.io/ascend/cann`; raises UnreachableError."""


@dataclass(frozen=True)
class RegistryTags:
    """The registries themselves; `mirrors` replaces image repositories."""

    mirrors: Mapping[str, str] = field(default_factory=dict)

    def tags(self, repository: str) -> tuple[str, ...]:
        """Return every tag of a repository; raises UnreachableError."""
        place = ImageRef.parse(f"{mirrored_image(repository, self.mirrors) or repository}:x")
        registry, path = place.registry or "registry-1.docker.io", place.repository
        # As engines do it: a registry on this machine's loopback may do without TLS.
        scheme = "http" if _LOOPBACK.fullmatch(registry) else "https"
        url: str | None = f"{scheme}://{registry}/v2/{path}/tags/list?n=1000"
        session = requests.Session()
        session.mount("https://", HTTPAdapter(max_retries=Retry(total=2, connect=1, backoff_factor=0.4)))
        found: list[str] = []
        for _ in range(_PAGES):
            if url is None:
                break
            answer = _get(session, url, path)
            found += _tags(answer)
            following = answer.links.get("next", {}).get("url")
            url = urljoin(url, following) if following else None
        return tuple(dict.fromkeys(found))


def _get(session: requests.Session, url: str, repository: str) -> requests.Response:
    try:
        answer = session.get(url, timeout=_TIMEOUT)
        if answer.status_code == 401 and "Authorization" not in session.headers:
            session.headers["Authorization"] = f"Bearer {_token(session, answer, repository)}"
            answer = session.get(url, timeout=_TIMEOUT)
    except requests.RequestException as error:
        raise UnreachableError(plain_reason(str(error))) from None
    if answer.status_code in (401, 403):
        raise UnreachableError("it has no such image, or one that asks for a login")
    if not answer.ok:
        raise UnreachableError(f"it answers {answer.status_code} {answer.reason}")
    return answer


def _token(session: requests.Session, refusal: requests.Response, repository: str) -> str:
    """Return the token that a registry gives anybody, as its refusal says where."""
    said = dict(_FIELD.findall(refusal.headers.get("WWW-Authenticate", "")))
    realm = said.get("realm", "")
    if not realm.startswith("https://"):
        raise UnreachableError("it asks for a login")
    asked = {"service": said.get("service", ""), "scope": f"repository:{repository}:pull"}
    answer = session.get(realm, params=asked, timeout=_TIMEOUT)
    given = _json(answer) if answer.ok else {}
    token = given.get("token") or given.get("access_token")
    if not isinstance(token, str):
        raise UnreachableError("it has no such image, or one that asks for a login")
    return token


def _tags(answer: requests.Response) -> list[str]:
    tags = _json(answer).get("tags") or []
    if not isinstance(tags, list):
        raise UnreachableError("an answer that is no list of tags")
    return [tag for tag in tags if isinstance(tag, str)]


def _json(answer: requests.Response) -> dict[str, Any]:
    try:
        content = answer.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise UnreachableError("an answer that is no list of tags")
    return content
