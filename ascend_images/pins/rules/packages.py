"""Rules of packages, and of what a stack says of them: exclusions and relaxations."""

import fnmatch
from collections.abc import Iterator

from ascend_images.errors import nearest
from ascend_images.pins.compat import Abi, Compat, fits, version
from ascend_images.pins.rules.rule import Asked, Problem, Rule, canonical, canonical_pattern, release_of


def _tvm_ffi_of_xgrammar(asked: Asked) -> Iterator[Problem]:
    xgrammar = asked.package("xgrammar")
    if not xgrammar:
        return
    excluded = any(fnmatch.fnmatchcase("apache-tvm-ffi", canonical_pattern(p)) for p in asked.variant.exclude)
    if _links_tvm_ffi(xgrammar) and excluded:
        yield Problem(
            f"xgrammar {xgrammar} links libtvm_ffi.so of apache-tvm-ffi, which is excluded",
            "no exclusion of apache-tvm-ffi: without it vLLM's server does not import",
        )


def _links_tvm_ffi(pin: str) -> bool:
    """Return whether a pin of xgrammar, a version or a range, is 0.2 or newer; a range is where it admits no 0.1."""
    parsed = version(pin)
    return parsed.release >= (0, 2) if parsed is not None else not fits("0.1.999", pin)


def _accepted_by_import(asked: Asked) -> Iterator[Problem]:
    for row in asked.tables.imports:
        pin, other = asked.package(canonical(row.package)), asked.package(canonical(row.needs))
        if not pin or (version(pin) is not None and not fits(pin, row.versions)):
            continue
        if version(other) is not None and fits(other, row.range):
            continue
        if version(pin) is None or version(other) is None:
            vague = f"{row.package} {pin} is a range" if version(pin) is None else ""
            vague = vague or (f"{row.needs} {other} is a range" if other else f"{row.needs} is not pinned")
            yield Problem(
                f"{vague}: {row.package}{row.versions} refuses any {row.needs} but {row.range} when it is imported",
                f"one version of {row.package} and of {row.needs}",
                unknown=True,
            )
        else:
            yield Problem(
                f"{row.package} {pin} refuses {row.needs} {other} when it is imported",
                f"{row.needs}{row.range}, or {row.package} not {row.versions}",
            )


def _numpy_of_cann(asked: Asked) -> Iterator[Problem]:
    allowed = numpy_range(asked.tables, asked.variant.cann, asked.variant.python)
    if allowed is None:
        yield Problem(f"which numpy CANN {asked.variant.cann} takes is not known", unknown=True)
        return
    if not allowed:
        return
    numpy = asked.package("numpy")
    if not numpy:
        yield Problem(f"numpy is not pinned; the lock takes one in {allowed}", f"a pin in {allowed}", unknown=True)
    elif version(numpy) is None:
        message = f"numpy {numpy} is a range; the lock takes one of it in {allowed}"
        yield Problem(message, f"a pin in {allowed}", unknown=True)
    elif not fits(numpy, allowed):
        yield Problem(
            f"numpy {numpy} with CANN {asked.variant.cann} ({asked.tables.sources['numpy']})", f"numpy{allowed}"
        )


def numpy_range(tables: Compat, cann: str, python: str) -> str | None:
    """Return the range of numpy that a CANN release takes, empty for any; None where the table has no such release."""
    series = release_of(cann).series
    for row in tables.numpy:
        if series in row.series and (not row.python or fits(f"{python}.0", row.python)):
            return row.range
    return None


def _abi_of_os(asked: Asked) -> Iterator[Problem]:
    libraries = asked.tables.os.get(asked.variant.os)
    for package in dict.fromkeys(row.package for row in asked.tables.abi):
        pin = asked.package(canonical(package))
        if not pin:
            continue
        if libraries is None:
            yield Problem(f"which symbol versions {asked.variant.os} has is not known", unknown=True)
            return
        need = _abi_need(asked.tables, package, pin)
        if need is None:
            yield Problem(f"which symbol versions {package} {pin} needs is not known", unknown=True)
            continue
        for name, wanted, found in (
            ("GLIBC", need.glibc, libraries.glibc),
            ("GLIBCXX", need.glibcxx, libraries.glibcxx),
        ):
            if wanted and _numbers(wanted) > _numbers(found):
                yield Problem(
                    f"{package} needs {name}_{wanted}, and {asked.variant.os} has {name}_{found} at most",
                    _fitting_os(need, asked.tables),
                )


def _abi_need(tables: Compat, package: str, pin: str) -> Abi | None:
    for row in tables.abi:
        if row.package == package and (not row.versions or (version(pin) is not None and fits(pin, row.versions))):
            return row
    return None


def _fitting_os(need: Abi, tables: Compat) -> str:
    for name, libraries in tables.os.items():
        if _numbers(libraries.glibc) >= _numbers(need.glibc) and _numbers(libraries.glibcxx) >= _numbers(need.glibcxx):
            return f"os = {name}"
    return "a newer operating system"


def _wheel_exists(asked: Asked) -> Iterator[Problem]:
    python = asked.variant.python
    for row in asked.tables.wheels:
        pin = asked.package(canonical(row.package))
        if pin not in row.versions or not fits(f"{python}.0", row.python):
            continue
        arches = [arch for arch in asked.variant.platforms if row.arch in (None, arch)]
        if arches:
            yield Problem(
                f"{row.package} {pin} has no wheel for Python {python} on {' and '.join(arches)}",
                "another version" if row.python == ">=3" else "another version, or another Python",
            )


def _exclusions_and_pins(asked: Asked) -> Iterator[Problem]:
    for pattern in asked.variant.exclude:
        for name in fnmatch.filter(asked.packages, canonical_pattern(pattern)):
            yield Problem(f'{name} is pinned, and excluded by "{pattern}"', "one or the other")


def _relaxed_is_there(asked: Asked) -> Iterator[Problem]:
    sources = {canonical(source.name) for source in asked.variant.sources}
    for relax in asked.variant.relax:
        if canonical(relax.whose) not in sources | set(asked.packages):
            message = (
                f'the relaxation of "{relax.whose}" ({relax.demand}) lifts nothing: the stack has no such source or pin'
            )
            yield Problem(message, nearest(relax.whose, [*asked.sources, *asked.packages]))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()


RULES = (
    Rule("xgrammar-tvm-ffi", "xgrammar links apache-tvm-ffi from 0.2 on", _tvm_ffi_of_xgrammar),
    Rule("import-refused", "some packages refuse others when imported, which no metadata says", _accepted_by_import),
    Rule("numpy-cann", "CANN's Python parts take a range of numpy", _numpy_of_cann),
    Rule("abi", "binaries ask for symbol versions of the system's C and C++ libraries", _abi_of_os),
    Rule("wheel-missing", "some releases lack wheels that their sisters have", _wheel_exists),
    Rule("exclude-pin", "what is never installed cannot be pinned", _exclusions_and_pins),
    Rule("relax-nothing", "a relaxation lifts a demand of something that is there", _relaxed_is_there),
)
