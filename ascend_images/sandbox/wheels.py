"""Stand-in wheels for a locked package set, and the lock that goes with them.

Each has the real name, version and import names, and next to nothing in it; only what builds sources (setuptools and
the like) is the real thing, fetched from the machine's index. `files/wheels.toml` and `files/wheels/` say where a
stand-in has more to say.
"""

import os
import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from ascend_images.digest import digest_of
from ascend_images.errors import LookupIncomplete
from ascend_images.images.uv_tool import UV_REQUIREMENT
from ascend_images.pins.lockfile import Conflict, LockedPackage, LockFile, file_name, inputs_hash
from ascend_images.pins.platform import Arch, host_arch
from ascend_images.pins.variant import Variant
from ascend_images.sandbox.data import data_table, data_tree, filled
from ascend_images.sandbox.process import call, last_lines
from ascend_images.sandbox.python_prefix import bundled_pip, find_prefixes, no_python
from ascend_images.sandbox.store import code_digest, digest, stored
from ascend_images.sandbox.tree import File, Tree, set_times, tar_gz, text_file
from ascend_images.sandbox.wheel_file import PURE, Wheel

_BUILDERS = ("setuptools", "setuptools-scm", "vcs-versioning", "packaging", "wheel")
# What setuptools brings along in a folder behind site-packages: what is installed there is what it takes.
_USED_BY_SETUPTOOLS = (
    "autocommand", "backports-tarfile", "importlib-metadata", "importlib-resources", "inflect", "jaraco-collections",
    "jaraco-context", "jaraco-functools", "jaraco-text", "more-itertools", "ordered-set", "platformdirs", "tomli",
    "typeguard", "typing-extensions", "zipp",
)  # fmt: skip
#: Distributions that are not stood in for: they build the sources and look at what is installed.
REAL = ("pip", "uv", *_BUILDERS, *_USED_BY_SETUPTOOLS)
# What a machine with glibc 2.28 takes, of the tags that projects use (peps.python.org, PEP 600).
_LIBCS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
# For the names of bound indexes too everything comes from the folder: the lock has no addresses, and nor has this.
_UV_TOML = 'no-index = true\nno-sources = true\nfind-links = ["/wheels"]\n'


def package_set(variant: Variant, arch: Arch, lock: LockFile | None) -> tuple[LockedPackage, ...]:
    """Return the packages to be stood in for: those of the lock.

    While there is none: those that the variant pins, and what their stand-ins ask for in some version that they allow.
    """
    if lock is not None:
        return lock.packages
    chosen = {str(canonicalize_name(name)): _a_version(variant.pin(name, arch)) for name in variant.packages}
    left_out = {canonicalize_name(name) for name in variant.exclude}
    left_out |= {canonicalize_name(source.distribution or source.name) for source in variant.sources}
    queue = list(chosen)
    while queue:
        for line in data_table("wheels.toml")["requires"].get(queue.pop(), ()):
            requirement = Requirement(line)
            name = str(canonicalize_name(requirement.name))
            if name not in chosen and name not in left_out:
                chosen[name] = _a_version(str(requirement.specifier))
                queue.append(name)
    return tuple(LockedPackage(name, version) for name, version in sorted(chosen.items()))


def wheels_context(variant: Variant, arch: Arch, lock: LockFile | None) -> Path:
    """Return a folder with a wheel (or an archive of sources) for every package, and a uv.toml that asks no index."""
    packages = package_set(variant, arch, lock)
    conflicts = lock.conflicts if lock is not None else ()
    checks = asked_of(variant)
    real = _real_wheels(variant.python, arch, packages, with_builders=lock is None)
    key = digest(
        [[package.name, package.version] for package in packages],
        [[conflict.whose, conflict.demand] for conflict in conflicts],
        sorted(checks),
        [path.name for path in real],
        _UV_TOML,
        code_digest("wheels.py", "wheel_file.py", "elf.py", "tree.py", "data.py", "files/wheels", "files/wheels.toml"),
    )

    def make(folder: Path) -> None:
        for path in real:
            os.link(path, folder / path.name)
        for name, content in stand_ins(packages, conflicts, checks, variant.python, arch).items():
            (folder / name).write_bytes(content)
        (folder / "uv.toml").write_text(_UV_TOML)
        set_times(folder)

    return stored("wheels", f"{variant.name}-{arch.value}", key, make)


def lock_context(variant: Variant, arch: Arch, lock: LockFile | None, wheels: Path) -> Path:
    """Return a folder with the stand-ins' lock: the lines of `lock`, with the hashes of the files in `wheels`."""
    text = str(standin_lock(variant, arch, lock, wheels))

    def make(folder: Path) -> None:
        (folder / file_name(variant.name, arch)).write_text(text)
        set_times(folder)

    return stored("lock", f"{variant.name}-{arch.value}", digest(text), make)


def standin_lock(variant: Variant, arch: Arch, lock: LockFile | None, wheels: Path) -> LockFile:
    """Return `lock` with the hashes of the stand-ins, and complete: every package is there.

    What the lock says of its inputs and of demands that are not met stays: the stand-ins were made so that it holds.
    """
    locked = {package.name: package.version for package in package_set(variant, arch, lock)}
    wanted = {**({} if lock is not None else dict.fromkeys(_BUILDERS, "")), **locked}
    found = {
        name: LockedPackage(name, version, (digest_of(path.read_bytes()),))
        for path in sorted(wheels.iterdir())
        if path.suffix in {".whl", ".gz"}
        for name, version in [_name_and_version(path.name)]
        # The installer of the build lies there too, perhaps beside another version that is locked.
        if name in wanted and wanted[name] in {"", version}
    }
    packages = tuple(found[name] for name in sorted(wanted))
    if lock is not None:
        return msgspec.structs.replace(lock, incomplete=(), packages=packages)
    return LockFile(
        variant=variant.name, arch=arch, python=variant.python, inputs=inputs_hash(variant, arch), packages=packages
    )


def stand_ins(
    packages: Sequence[LockedPackage],
    conflicts: Sequence[Conflict],
    checks: Collection[str],
    python: str,
    arch: Arch,
) -> dict[str, bytes]:
    """Return the stand-ins by file name; `checks` are the modules and attributes that must be importable.

    Each asks for what `files/wheels.toml` says as far as the set meets it, and for what `conflicts` says it asks for.
    """
    versions = {package.name: package.version for package in packages}
    sdists = set(data_table("wheels.toml")["sdist"]["names"])
    imports = data_table("wheels.toml")["imports"]
    taken = {module for name in versions for module in imports.get(name, ())}
    made = {}
    for package in packages:
        if package.name in REAL:
            continue
        requires = [
            *met(data_table("wheels.toml")["requires"].get(package.name, ()), versions),
            *(conflict.demand for conflict in conflicts if canonicalize_name(conflict.whose) == package.name),
        ]
        wheel = stand_in(
            package.name, package.version, python=python, arch=arch, requires=requires, checks=checks, taken=taken
        )
        if package.name in sdists:
            made[f"{wheel.stem}.tar.gz"] = _source_archive(wheel, arch)
        else:
            made[wheel.file_name] = wheel.pack()
    return made


def stand_in(
    name: str,
    version: str,
    *,
    python: str,
    arch: Arch,
    requires: Sequence[str] = (),
    checks: Collection[str] = (),
    taken: Collection[str] = (),
) -> Wheel:
    """Return the stand-in for one distribution on a Python (`3.12`) and architecture.

    `taken` are import names that other distributions are known to bring: one that merely has such a name (`dotenv`
    beside python-dotenv) brings no module.
    """
    table = data_table("wheels.toml")
    normal = canonicalize_name(name)
    values = {"VERSION": version, "REQUIRES": repr(list(requires))}
    default = re.sub(r"[-.]", "_", normal)
    modules = table["imports"].get(normal, [] if default in taken else [default])
    written = data_tree(f"wheels/{normal}", values, arch)
    written.pop("setup.py", None)
    tree = written or _default_modules(normal, version, modules, normal in table["scripts"])
    for check in checks:
        if any(check == module or check.startswith(f"{module}.") for module in modules):
            add_check(tree, check)
    return Wheel(
        name=name,
        version=version,
        tag=_tag(normal, python, arch),
        files={path: entry.content for path, entry in tree.items() if isinstance(entry, File)},
        requires=requires,
        scripts=table["scripts"].get(normal, {}),
        entry_points=table["entry_points"].get(normal, {}),
    )


def add_check(tree: Tree, check: str) -> None:
    """Add to a tree of modules what a check wants to import, unless it is there: `trl.GRPOTrainer`, `swift.cli.main`.

    A last part that begins with a capital is an attribute, anything else a module.
    """
    parts = check.split(".")
    attribute = parts.pop() if parts[-1][:1].isupper() else ""
    for depth in range(1, len(parts) + 1):
        path = "/".join(parts[:depth])
        namespace = depth < len(parts) and any(name.startswith(f"{path}/") for name in tree)
        if namespace or f"{path}.py" in tree or f"{path}/__init__.py" in tree:
            continue
        tree[f"{path}/__init__.py"] = text_file('"""Stand-in."""')
    home = "/".join(parts)
    path = f"{home}.py" if f"{home}.py" in tree else f"{home}/__init__.py"
    entry = tree[path]
    if attribute and isinstance(entry, File) and attribute.encode() not in entry.content:
        tree[path] = File(entry.content + f'\n\nclass {attribute}:\n    """Stand-in."""\n'.encode())


def asked_of(variant: Variant) -> tuple[str, ...]:
    """Return every module and attribute that the variant's checks import."""
    return tuple(dict.fromkeys([*variant.checks, *(check for source in variant.sources for check in source.checks)]))


def _default_modules(name: str, version: str, modules: Sequence[str], has_script: bool) -> Tree:
    """Return one package per import name, with `__version__`; those around it are packages too or nothing at all."""
    namespaces = set(data_table("wheels.toml")["namespaces"]["names"])
    text = f'"""Stand-in for {name}."""\n\n__version__ = "{version}"\n'
    if has_script:
        text += f'\n\ndef main():\n    print("{name} {version}, a stand-in")\n'
    tree: Tree = {}
    for module in modules:
        parts = module.split(".")
        for depth in range(1, len(parts)):
            if ".".join(parts[:depth]) not in namespaces:
                tree.setdefault("/".join([*parts[:depth], "__init__.py"]), text_file('"""Stand-in."""'))
        tree["/".join([*parts, "__init__.py"])] = text_file(text)
    return tree


def _tag(name: str, python: str, arch: Arch) -> str:
    """Return the tag of a distribution's wheel, of the kind that its real wheels have."""
    table = data_table("wheels.toml")["platform"]
    platform = f"{table['libc'].get(name, table['libc']['default'])}_{arch.kernel}"
    short = f"cp{python.replace('.', '')}"
    if name in table["cp"]:
        return f"{short}-{short}-{platform}"
    if name in table["abi3"]:
        return f"cp38-abi3-{platform}"
    if name in table["any_python"] or name in table["libc"]:
        return f"py3-none-{platform}"
    return PURE


def _source_archive(wheel: Wheel, arch: Arch) -> bytes:
    """Return the archive of sources of a distribution that no index has as a wheel."""
    values = {"VERSION": wheel.version, "REQUIRES": repr(list(wheel.requires))}
    written = data_tree(f"wheels/{canonicalize_name(wheel.name)}", values, arch)
    default = filled(
        "from setuptools import find_packages, setup\n\n"
        f'setup(name="{wheel.name}", version="@VERSION@", packages=find_packages(), install_requires=@REQUIRES@)\n',
        values,
    )
    tree: Tree = {path: File(content) for path, content in wheel.files.items()}
    tree["setup.py"] = written.get("setup.py", text_file(default))
    tree["pyproject.toml"] = text_file(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"'
    )
    tree["PKG-INFO"] = File(wheel.metadata.encode())
    return tar_gz(tree, prefix=f"{wheel.stem}/")


def met(lines: Iterable[str], versions: Mapping[str, str]) -> list[str]:
    """Return those requirements that the set meets."""
    return [
        line
        for line in lines
        for requirement in [Requirement(line)]
        if (found := versions.get(canonicalize_name(requirement.name)))
        and requirement.specifier.contains(found, prereleases=True)
    ]


def _real_wheels(python: str, arch: Arch, packages: Sequence[LockedPackage], *, with_builders: bool) -> list[Path]:
    """Return the files of what is not stood in for, fetched once.

    Raises LookupIncomplete where an index does not answer. Without a lock what builds the sources is taken in the
    version that the index offers.
    """
    wanted = [package for package in packages if package.name in REAL]
    named = {package.name for package in wanted}
    free = [name for name in _BUILDERS if with_builders and name not in named]
    lines = [*map(_requirement, wanted), *free]
    # pip refuses a file in which some lines have a hash and some have not, and two versions of one name.
    groups = [[line for line in lines if "--hash" in line], [line for line in lines if "--hash" not in line]]
    # The installer of the build itself: brought along, so that no index is asked for it either.
    groups.append([UV_REQUIREMENT])

    def make(folder: Path) -> None:
        for group in filter(None, groups):
            _download(python, arch, group, folder)

    folder = stored("real-wheels", f"py{python}-{arch.value}", digest(groups, arch), make)
    return sorted(folder.glob("*.whl"))


def _requirement(package: LockedPackage) -> str:
    return " ".join([f"{package.name}=={package.version}", *(f"--hash={text}" for text in package.hashes)])


def _download(python: str, arch: Arch, lines: Sequence[str], folder: Path) -> None:
    """Have pip fetch wheels from the index that this machine is set up for; it checks the hashes that are given."""
    prefix = next(find_prefixes(python, host_arch()), None)
    if prefix is None:
        raise no_python(python, "found none")
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", f"--dest={folder}"]
    if arch is not host_arch():
        # Told a platform, pip takes files of just that one; those with a hash may be built for an older libc.
        options += [f"--platform={libc}_{arch.kernel}" for libc in _LIBCS]
        options += [f"--python-version={python}"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("\n".join(lines) + "\n")
        listed.flush()
        program = [str(prefix / "bin" / f"python{python}"), "-m", "pip", "download", "-q"]
        environment = {"PYTHONPATH": str(bundled_pip(prefix, python))}
        done = call([*program, *options, "-r", listed.name], check=False, environment=environment)
    if done.returncode != 0:
        raise LookupIncomplete(
            f"the real wheels that build the stand-in sources were not fetched:\n{last_lines(done.stderr)}",
            wanted=", ".join(line.split(" ")[0] for line in lines),
            do="make pip reach an index, then try again: pip download setuptools",
        )


def _name_and_version(name: str) -> tuple[str, str]:
    if name.endswith(".whl"):
        distribution, version, _, _ = parse_wheel_filename(name)
        return distribution, str(version)
    stem, _, version_text = name.removesuffix(".tar.gz").rpartition("-")
    return canonicalize_name(stem), version_text


def _a_version(pin: str) -> str:
    """Return an exact version for a pin: itself, or for a range the first of its own bounds that lies in it."""
    try:
        return str(Version(pin))
    except InvalidVersion:
        specifiers = SpecifierSet(pin)
    bounds = sorted(Version(specifier.version.removesuffix(".*")) for specifier in specifiers)
    return next((str(bound) for bound in bounds if bound in specifiers), str(bounds[0]) if bounds else "1.0")
