"""A bill of materials as CycloneDX 1.6 JSON (cyclonedx.org/docs/1.6/json); the same bill gives the same bytes."""

from typing import Any

from ascend_images import __version__
from ascend_images.images.view import CANN_TERMS
from ascend_images.sbom.component import CANN_LICENCE, Bill, Component, Kind
from ascend_images.sbom.spdx import content_uuid, encoded, timestamp

MEDIA_TYPE = "application/vnd.cyclonedx+json"

_TYPES = {
    Kind.IMAGE: "container",
    Kind.BASE: "container",
    Kind.CANN: "framework",
    Kind.PYTHON: "application",
    Kind.PACKAGE: "library",
    Kind.SOURCE: "library",
    Kind.SYSTEM: "library",
}
_NAMESPACE = "io.ascend-images"


def cyclonedx(bill: Bill) -> bytes:
    """Return the document. What a component holds lies inside it; the base image is the image's ancestor."""
    image = _component(bill.image)
    image["pedigree"] = {"ancestors": [_component(bill.base)]}
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": "",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(bill.created),
            "tools": {"components": [{"type": "application", "name": "ascend-images", "version": __version__}]},
            "component": image,
            "properties": [{"name": f"{_NAMESPACE}:note", "value": text} for text in bill.notes],
        },
        "components": [_component(one) for one in bill.parts],
        "dependencies": [{"ref": bill.image.key, "dependsOn": [one.key for one in bill.parts]}],
    }
    document["serialNumber"] = content_uuid(document).urn
    return encoded(document)


def _component(one: Component) -> dict[str, Any]:
    data: dict[str, Any] = {"type": _TYPES[one.kind], "bom-ref": one.key, "name": one.name}
    if one.version:
        data["version"] = one.version
    if one.supplier:
        data["supplier"] = {"name": one.supplier}
    if one.note:
        data["description"] = one.note
    if one.sha256:
        data["hashes"] = [{"alg": "SHA-256", "content": one.sha256}]
    if one.licence:
        data["licenses"] = _licences(one.licence)
    if one.purl:
        data["purl"] = one.purl
    if one.place:
        kind = "vcs" if one.place.startswith("git+") else "distribution"
        data["externalReferences"] = [{"type": kind, "url": one.place}]
    if one.one_of:
        data["properties"] = [{"name": f"{_NAMESPACE}:sha256-one-of", "value": text} for text in one.one_of]
    if one.parts:
        data["components"] = [_component(part) for part in one.parts]
    return data


def _licences(licence: str) -> list[dict[str, Any]]:
    """Return a licence as CycloneDX has it: one that has no identifier by its name, else an expression."""
    if licence == CANN_LICENCE:
        return [{"license": {"name": licence, "url": CANN_TERMS}}]
    return [{"expression": licence}]
