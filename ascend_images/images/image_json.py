"""image.json: what an image says of itself, every pin resolved; check.py compares the image with it."""

from typing import Any

import msgspec

from ascend_images.digest import digest_of
from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import Checkout, Variant

#: Raised when a reader of an older image.json would misread a newer one.
SCHEMA = 1


def image_document(variant: Variant) -> dict[str, Any]:
    """Return image.json as a dictionary in its order of keys. Environment values may hold `{kernel_arch}`."""
    return {
        "schema": SCHEMA,
        "variant": variant.name,
        "aliases": list(variant.aliases),
        "stack": variant.stack,
        "experimental": variant.experimental,
        "release": variant.release,
        "hardware": variant.hardware,
        "chip": variant.chip.cann_tag,
        "device_type": variant.chip.device_type,
        "soc_version": variant.soc_version,
        "cann": variant.cann,
        "base_cann": variant.base_cann,
        "cann_home": variant.cann_home,
        "cann_scripts": list(variant.cann_scripts),
        "base_image": variant.base_image,
        # An image of a base whose digest is not known says nothing of one.
        **({"base_digest": variant.base_digest} if variant.base_digest else {}),
        "os": variant.os,
        "python": variant.python,
        "python_home": variant.python_home,
        "repository": variant.repository,
        "tag": variant.tag,
        "platforms": [arch.value for arch in variant.platforms],
        "packages": {arch.value: _packages(variant, arch) for arch in variant.platforms},
        "sources": [_source(source) for source in variant.sources],
        "checks": list(variant.checks),
        "exclude": dict(variant.exclude),
        "no_dependencies": dict(variant.no_dependencies),
        "env": dict(variant.env),
        "entrypoint": entrypoint(variant),
        "workdir": variant.workdir,
        "runtime": {name: msgspec.to_builtins(decision) for name, decision in variant.runtime.items()},
        "accept": dict(variant.accept),
        "relax": [msgspec.to_builtins(relax) for relax in variant.relax],
        "indexes": {name: index.url for name, index in variant.indexes.items()},
        "patches": [msgspec.to_builtins(patch) for patch in variant.patches],
    }


def image_json(variant: Variant) -> str:
    """Return the text of `dockerfiles/rendered/<variant>.image.json`."""
    return msgspec.json.format(msgspec.json.encode(image_document(variant)), indent=2).decode() + "\n"


def pins_digest(variant: Variant) -> str:
    """Return `sha256:…` over what image.json says: two images of one digest were made from the same pins."""
    return digest_of(msgspec.json.encode(image_document(variant)))


def entrypoint(variant: Variant) -> list[str]:
    """Return ENTRYPOINT: the release's set_env scripts, which add what depends on the host, then the command."""
    # The toolkit's script leaves an empty entry at the end, by which every command would search its own directory.
    no_empty_entry = 'export PYTHONPATH="${PYTHONPATH%:}"'
    commands = [*(f"source {script}" for script in variant.cann_scripts), no_empty_entry, 'exec "$@"']
    return ["/bin/bash", "-c", " && ".join(commands), "--"]


def _packages(variant: Variant, arch: Arch) -> dict[str, str]:
    return {name: variant.pin(name, arch) for name in variant.packages}


def _source(source: Checkout) -> dict[str, Any]:
    return {
        "name": source.name,
        "git": source.git,
        "ref": source.ref,
        "commit": source.commit,
        "path": source.path,
        "module": source.module,
        "distribution": source.distribution,
        "version": source.installed_version,
        "install": source.install,
        "submodules": source.submodules,
        "compiles": source.compiles,
        "checks": list(source.checks),
    }
