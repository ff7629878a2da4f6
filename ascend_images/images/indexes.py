"""The indexes of a rendered file: the one place in it that says which package comes from which."""

from ascend_images.pins.bindings import Binding, bindings
from ascend_images.pins.variant import Variant


def uv_project(variant: Variant) -> str:
    """Return a pyproject.toml by which uv takes each bound package from its index and asks it for nothing else.

    `uv pip install -r` reads [tool.uv.sources] from such a file alone; the versions and hashes stand in the lock. All
    indexes are listed, so that a mirror given as UV_INDEX replaces one by its name and stays bound.
    """
    bound = bindings(variant)
    lines = ["[project]", 'name = "image"', 'version = "0"', "dependencies = ["]
    lines += [f'    "{binding.package}{_condition(binding, variant)}",' for binding in bound]
    lines += ["]", "", "[tool.uv.sources]"]
    for package in dict.fromkeys(binding.package for binding in bound):
        sources = ", ".join(_source(binding, variant) for binding in bound if binding.package == package)
        lines.append(f"{package} = [{sources}]")
    for name, index in variant.indexes.items():
        lines += ["", "[[tool.uv.index]]", f'name = "{name}"', f'url = "{index.url}"', "explicit = true"]
    return "\n".join(lines) + "\n"


def _source(binding: Binding, variant: Variant) -> str:
    marker = _marker(binding, variant)
    return f'{{ index = "{binding.index}"' + (f', marker = "{marker}"' if marker else "") + " }"


def _condition(binding: Binding, variant: Variant) -> str:
    marker = _marker(binding, variant)
    return f"; {marker}" if marker else ""


def _marker(binding: Binding, variant: Variant) -> str:
    if set(binding.arches) == set(variant.platforms):
        return ""
    return " or ".join(f"platform_machine == '{arch.kernel}'" for arch in binding.arches)
