"""A bill of materials as SPDX 2.3 JSON (spdx.github.io/spdx-spec/v2.3), the form that cosign and BuildKit attach.

The same bill gives the same bytes: the time is that of the pins, and the namespace is made of the content.
"""

import hashlib
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from ascend_images import __version__
from ascend_images.images.view import CANN_TERMS
from ascend_images.sbom.component import CANN_LICENCE, Bill, Component, Kind

MEDIA_TYPE = "application/spdx+json"

_UNKNOWN = "NOASSERTION"
_DOCUMENT = "SPDXRef-DOCUMENT"
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9.-]+")
# Of these there is one, which needs no name.
_ONCE = (Kind.IMAGE, Kind.BASE)
_PURPOSES = {
    Kind.IMAGE: "CONTAINER",
    Kind.BASE: "CONTAINER",
    Kind.CANN: "FRAMEWORK",
    Kind.PYTHON: "APPLICATION",
    Kind.PACKAGE: "LIBRARY",
    Kind.SOURCE: "SOURCE",
    Kind.SYSTEM: "LIBRARY",
}


def spdx(bill: Bill) -> bytes:
    """Return the document."""
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": _DOCUMENT,
        "name": bill.name,
        "documentNamespace": "",
        "comment": "\n".join(bill.notes),
        "creationInfo": {"created": timestamp(bill.created), "creators": [f"Tool: ascend-images-{__version__}"]},
        "packages": [_package(one) for one in (bill.image, bill.base, *bill.all_parts())],
        "relationships": list(_relationships(bill)),
        "hasExtractedLicensingInfos": [
            {
                "licenseId": CANN_LICENCE,
                "name": "Huawei's terms for CANN",
                "extractedText": f"CANN comes under the terms of {CANN_TERMS}",
                "seeAlsos": [CANN_TERMS],
            }
        ],
    }
    name = _NOT_IN_IDS.sub("-", bill.name)
    document["documentNamespace"] = f"https://spdx.org/spdxdocs/ascend-images-{name}-{content_uuid(document)}"
    return encoded(document)


def timestamp(seconds: int) -> str:
    """Return a time as both formats write it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def content_uuid(document: dict[str, Any]) -> uuid.UUID:
    """Return an identifier that is the same for the same content and no other."""
    return uuid.uuid5(uuid.NAMESPACE_URL, hashlib.sha256(msgspec.json.encode(document)).hexdigest())


def encoded(document: dict[str, Any]) -> bytes:
    """Return a document as it is written."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _package(one: Component) -> dict[str, Any]:
    comment = [one.note] if one.note else []
    if one.one_of:
        comment.append("one of these files, by sha256: " + ", ".join(one.one_of))
    data: dict[str, Any] = {
        "SPDXID": _id(one),
        "name": one.name,
        **({"versionInfo": one.version} if one.version else {}),
        "supplier": f"Organization: {one.supplier}" if one.supplier else _UNKNOWN,
        "downloadLocation": one.place or _UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": _UNKNOWN,
        "licenseDeclared": one.licence or _UNKNOWN,
        "primaryPackagePurpose": _PURPOSES[one.kind],
    }
    if one.sha256:
        data["checksums"] = [{"algorithm": "SHA256", "checksumValue": one.sha256}]
    if one.purl:
        purl = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": one.purl}
        data["externalRefs"] = [purl]
    if comment:
        data["comment"] = "; ".join(comment)
    return data


def _relationships(bill: Bill) -> Iterator[dict[str, str]]:
    image = _id(bill.image)
    yield _relationship(_DOCUMENT, "DESCRIBES", image)
    yield _relationship(image, "DESCENDANT_OF", _id(bill.base))
    for part in bill.parts:
        yield _relationship(image, "CONTAINS", _id(part))
        for inner in part.parts:
            yield _relationship(_id(part), "CONTAINS", _id(inner))


def _relationship(of: str, kind: str, to: str) -> dict[str, str]:
    return {"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to}


def _id(one: Component) -> str:
    """Return an identifier: letters, digits, `.` and `-` alone, with a hash where others had to go."""
    kind = one.kind.value.replace(" ", "-")
    if one.kind in _ONCE:
        return f"SPDXRef-{kind}"
    text = f"{one.name}-{one.version}" if one.version else one.name
    plain = _NOT_IN_IDS.sub("-", text)
    more = "" if plain == text else f"-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return f"SPDXRef-{kind}-{plain}{more}"
