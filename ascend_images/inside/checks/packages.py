"""Checks: installed packages against the pins, the lock and one another's files."""

from __future__ import annotations

import fnmatch
import re

from ..answers import (
    NO_LOCK,
    NO_PINS,
    NOTHING_INSTALLED,
    Given,
    Said,
    check,
    failed,
    not_run,
    of_cann,
    passed,
    unknown,
    variant_option,
)
from ..words import FEW, Facts, base_version, canonical, count, few, plain_version, same_version
from .ours import TORCH_FAMILY, ours, source_distributions

#: torchvision and torchaudio by the X.Y of torch (Ascend/pytorch's and pytorch.org's tables).
_TORCH_LINES = {
    "2.5": ("0.20", "2.5"), "2.6": ("0.21", "2.6"), "2.7": ("0.22", "2.7"), "2.8": ("0.23", "2.8"),
    "2.9": ("0.24", "2.9"), "2.10": ("0.25", "2.10"), "2.11": ("0.26", "2.11"),
}  # fmt: skip


def pin_of(given: Given, name: str) -> str:
    """Return the pin of a package, whatever way its name is spelt; empty where there is none."""
    return next((pin for pinned, pin in given.pins.items() if canonical(pinned) == canonical(name)), "")


def fits_pin(given: Given, pin: str, version: str) -> bool | None:
    """Tell whether a version is what a pin says; None where that takes `packaging` and there is none."""
    exact = plain_version(pin)
    if exact:
        return same_version(exact, version)
    return given.pep.allows(pin, version) if given.pep else None


@check(
    "duplicate-packages",
    "Does every distribution have one metadata directory only?",
    "Uninstall what the base image has before another version of it is copied in.",
)
def check_duplicate_packages(given: Given) -> list[Said]:
    """A package copied over another version of itself leaves two dist-infos, and files of both."""
    if not given.installed:
        return [NOTHING_INSTALLED]
    paths = [source.get("path") for source in given.sources if source.get("path")]
    places: dict[str, list[str]] = {}
    for facts in given.facts["distributions"]:
        # A checkout has an egg-info of its own beside the dist-info of its editable installation.
        checkout = any(f"{facts['location']}/".startswith(f"{path}/") for path in paths)
        beside = facts["metadata"].endswith(".egg-info") and not facts["location"].endswith(
            ("site-packages", "dist-packages")
        )
        if not checkout and not beside and not of_cann(facts):
            places.setdefault(canonical(facts["name"]), []).append(f"{facts['location']}/{facts['metadata']}")
    return [
        failed(
            name,
            f"{len(found)} of them: {', '.join(found)}",
            "one",
            "uninstall what the base image has before the lock is copied in",
        )
        for name, found in sorted(places.items())
        if len(found) > 1
    ]


@check(
    "torch-family",
    "Do torch, torch_npu, torchvision and torchaudio fit together, and are they the pinned ones?",
    "Install torch, torch_npu, torchvision and torchaudio from one lock, and nothing after it that may replace "
    "one of them.",
)
def check_torch_family(given: Given) -> list[Said]:
    """An NPU image was published whose torch was four minor versions ahead of its torch_npu (sglang#28628).

    Told from metadata: importing needs the driver, which a builder does not have.
    """
    found = {name: given.version(name) for name in TORCH_FAMILY}
    pins = {name: pin_of(given, name) for name in TORCH_FAMILY}
    if not any(found.values()) and not any(pins.values()):
        return [not_run("torch", "neither installed nor pinned")]
    wrong, torch = [], found["torch"]
    for name in TORCH_FAMILY:
        if pins[name] and (not found[name] or fits_pin(given, pins[name], found[name]) is False):
            wrong.append(name)
    if (torch and not found["torch_npu"]) or (found["torch_npu"] and not torch):
        wrong.append("torch" if not torch else "torch_npu")
    elif base_version(torch) != base_version(found["torch_npu"]):
        wrong.append("torch_npu")
    vision, audio = _TORCH_LINES.get(".".join(base_version(torch).split(".")[:2]), ("", ""))
    for name, line in (("torchvision", vision), ("torchaudio", audio)):
        if found[name] and line and not pins[name] and not f"{found[name]}.".startswith(f"{line}."):
            wrong.append(name)
    twice = given.blamed("duplicate-packages") & {canonical(name) for name in wrong}
    if twice:
        return [not_run("torch", f"because of duplicate-packages: {', '.join(sorted(twice))}")]
    if wrong:
        said = [
            f"{name} {found[name] or 'missing'}" for name in TORCH_FAMILY if found[name] or pins[name] or name in wrong
        ]
        cuda = "; torch is a CUDA build" if torch_is_cuda(given) else ""
        wanted = ", ".join(f"{name} {pin}" for name, pin in pins.items() if pin)
        return [
            failed(
                ", ".join(dict.fromkeys(wrong)),
                ", ".join(said) + cuda,
                wanted or "torch and torch_npu of one version",
                "see which install step brought the other version; the whole set is in lock.txt",
            )
        ]
    return [passed("torch", ", ".join(f"{name} {version}" for name, version in found.items() if version))]


def torch_is_cuda(given: Given) -> bool:
    """Tell whether the installed torch is a CUDA build: by its local version, its files, or what it says of itself."""
    facts = given.facts["torch"]
    local = given.version("torch").partition("+")[2]
    return local.startswith(("cu", "rocm")) or bool(facts["cuda_files"]) or bool(facts["cuda_version"])


#: CUDA's own distributions; nvidia-ml-py and nvidia-modelopt are none.
_CUDA_NAMES = ("nvidia-cu*", "nvidia-nccl*", "nvidia-nv*", "nvidia-*-cu[0-9]*", "cuda-*", "cupy-cuda*")


def forbidden_by(given: Given, name: str) -> str:
    """Return why a distribution must not be in the image, empty where it may.

    A pin overrides a pattern, and so does a source that is installed under that name.
    """
    name = canonical(name)
    source = source_distributions(given).get(name, {})
    if any(canonical(pinned) == name for pinned in given.pins) or source.get("install") == "editable":
        return ""
    for pattern, reason in given.image.get("exclude", {}).items():
        if fnmatch.fnmatchcase(name, re.sub(r"[-_.]+", "-", pattern).lower()):
            return str(reason)
    return "CUDA only" if any(fnmatch.fnmatchcase(name, pattern) for pattern in _CUDA_NAMES) else ""


@check(
    "forbidden-packages",
    "Is nothing installed that the pins exclude, and nothing for CUDA?",
    "Exclude the package in versions.toml and lock again; where it shares files with a wanted one, uninstall "
    "both and install the wanted one last.",
)
def check_forbidden_packages(given: Given) -> list[Said]:
    """CUDA wheels (15 packages on x86_64), opencv-python and triton come in silently with other packages.

    triton lays itself over triton-ascend, and torch no longer imports (vllm-ascend#7790).
    """
    if not given.installed:
        return [NOTHING_INSTALLED]
    reasons: dict[str, list[str]] = {}
    for name in sorted(given.installed):
        if reason := forbidden_by(given, name):
            reasons.setdefault(reason, []).append(name)
    findings = []
    for reason, names in reasons.items():
        shared = [pair for pair in given.facts["shared_files"] if set(pair["owners"]) & set(names)]
        over = "".join(
            f"; {pair['count']} files are also those of {next(name for name in pair['owners'] if name not in names)}"
            for pair in shared
            if set(pair["owners"]) - set(names)
        )
        whole = " ".join(f"{name} {given.version(name)}," for name in names[: 2 * FEW]).rstrip(",")
        then = "exclude it when locking, or uninstall it"
        if over:
            then = "uninstall both, then install the wanted one last"
        findings.append(failed(", ".join(names), whole + over, f"not installed: {reason}", then))
    if "torch" not in given.blamed("torch-family") and torch_is_cuda(given):
        facts = given.facts["torch"]
        signs = [
            given.version("torch"),
            *facts["cuda_files"][:1],
            *([f"CUDA {facts['cuda_version']}"] if facts["cuda_version"] else []),
        ]
        findings.append(
            failed(
                "torch",
                f"torch is a CUDA build: {', '.join(signs)}",
                "torch's CPU build",
                "take torch from the CPU index (+cpu on x86_64)",
            )
        )
    return findings


@check(
    "pinned-packages",
    "Is every pinned package there in exactly its version?",
    "Find the install step that brought the other version, and install the lock as a whole after it.",
)
def check_pinned_packages(given: Given) -> list[Said]:
    """Later install steps replace what earlier ones have pinned: the public recipes end in `pip install -U`.

    On x86_64 torch and torch's CPU build are two versions to pip (vllm-ascend#7089), so a local part counts where it
    is pinned.
    """
    if not given.pins:
        return [NO_PINS if not given.image else unknown("", f"image.json has no packages for {given.arch}")]
    answers = []
    known = {canonical(name) for name in TORCH_FAMILY} | given.blamed("duplicate-packages")
    compared = {name: pin for name, pin in given.pins.items() if canonical(name) not in known}
    for name, pin in sorted(compared.items()):
        found = given.version(name)
        if not found:
            answers.append(
                failed(name, "not installed", f"{name} {pin}", "see the build's log for what left it out or removed it")
            )
            continue
        fits = fits_pin(given, pin, found)
        if fits is None:
            answers.append(unknown(name, f"{found}; no `packaging` in the image to compare it with {pin}"))
        elif not fits:
            answers.append(
                failed(name, found, pin, "see which install step brought this version; lock.txt has the whole set")
            )
    if not compared:
        return [not_run("", "every pin has its check before this one")]
    return answers or [passed("", count(len(compared), "package"))]


@check(
    "locked-packages",
    "Is the whole lock installed, in exactly its versions?",
    "Install the whole of lock.txt with its hashes, last, and nothing after it.",
)
def check_locked_packages(given: Given) -> list[Said]:
    """What was resolved together must be installed together.

    Another package brought numpy 2 to a CANN that needed numpy 1 (vllm-ascend#1875).
    """
    if given.lock is None:
        return [NO_LOCK]
    # What a check before this one has named, and what is installed from its source.
    known = given.blamed("duplicate-packages", "torch-family", "pinned-packages") | set(source_distributions(given))
    compared = {name: version for name, version in given.lock.packages.items() if name not in known}
    if not compared:
        return [not_run("", "lock.txt names no package that has no check before this one")]
    answers = []
    for name, version in sorted(compared.items()):
        found = given.version(name)
        if not (found and same_version(version, found)):
            answers.append(
                failed(name, found or "not installed", version, "install the lock last, and nothing after it")
            )
    if len(answers) > FEW:
        names = [f"{said.subject} {said.found} (wanted {said.wanted})" for said in answers]
        return [
            failed(
                ", ".join(said.subject for said in answers),
                few(names),
                "what lock.txt says",
                "install the lock last, and nothing after it",
            )
        ]
    return answers or [passed("", count(len(compared), "package"))]


#: What CANN's base images install with pip (Ascend/cann-container-image), and what that asks for.
_OF_BASE = tuple(
    """
    pip setuptools wheel attrs cython numpy decorator sympy cffi pyyaml pathlib2 psutil protobuf scipy requests
    absl-py certifi charset-normalizer idna urllib3 mpmath pycparser six
    """.split()
)


@check(
    "extra-packages",
    "Is nothing installed but the lock, the sources and what the base image brought?",
    "Lock the package (`invoke lock`) or leave out the step that installs it.",
)
def check_extra_packages(given: Given) -> list[Said]:
    """What nobody asked for may replace what was asked for.

    The build installs with uv, the base images with pip: what uv installed and the lock does not have was installed
    by a build.
    """
    if given.lock is None:
        return [NO_LOCK]
    if not given.installed:
        return [NOTHING_INSTALLED]
    base, open_names = set(), [canonical(name) for name in _OF_BASE]
    while open_names:
        name = open_names.pop()
        if name in base or name not in given.installed:
            continue
        base.add(name)
        open_names += [
            canonical(re.split(r"[\s;<>=!~(\[]", line)[0])
            for line in given.installed[name]["requires"]
            if "extra ==" not in line
        ]
    wanted, brought, others = ours(given), [], []
    for name, facts in given.installed.items():
        if name in wanted or of_cann(facts) or forbidden_by(given, name):
            continue
        if facts["installer"] == "uv":
            brought.append(f"{name} {facts['version']}")
        elif name not in base:
            others.append(f"{name} {facts['version']}")
    answers = []
    if brought:
        answers.append(
            failed(
                ", ".join(text.split()[0] for text in brought),
                few(brought),
                "packages of lock.txt and sources only",
                f"lock it (invoke lock{variant_option(given)}) or leave it out",
            )
        )
    if others:
        answers.append(
            unknown(
                ", ".join(text.split()[0] for text in others),
                f"neither locked nor known to come with the base image: {few(others)}",
                "if the base image brings them, all is well",
            )
        )
    kept = sorted(base - wanted)
    return answers or [passed("", f"of the base image: {', '.join(kept)}" if kept else "")]


@check(
    "shared-files",
    "Does every installed file belong to one distribution?",
    "Exclude one of the two distributions, uninstall both and install the wanted one last.",
)
def check_shared_files(given: Given) -> list[Said]:
    """Triton and triton-ascend write one directory; removing one then damages the other (vllm-ascend#7790)."""
    if not given.installed:
        return [NOTHING_INSTALLED]
    answers = []
    for pair in given.facts["shared_files"]:
        if not any(forbidden_by(given, name) for name in pair["owners"]):
            one, other = pair["owners"]
            answers.append(
                failed(
                    f"{one}, {other}",
                    f"both write {pair['count']} files: {few(pair['files'])}",
                    "one owner of each file",
                    "exclude one of the two, uninstall both and install the wanted one last",
                )
            )
    for source in given.sources:
        own = canonical(source.get("distribution") or source["name"])
        for name in given.facts["module_owners"].get(source.get("module", ""), []):
            if (name != own or source.get("install") == "pythonpath") and not forbidden_by(given, name):
                answers.append(
                    failed(
                        f"{name}, {source['name']}",
                        f"{name} {given.version(name)} holds a package {source['module']} as well",
                        f"{source['module']} from {source['path']} only",
                        f"exclude {name}",
                    )
                )
    return answers


@check(
    "damaged-packages",
    "Are all files of every distribution there, as its RECORD says?",
    "Uninstall the distribution and install it again, after everything that shares its files.",
)
def check_damaged_packages(given: Given) -> list[Said]:
    """After "just uninstall triton" files of triton-ascend were missing, and torch did not import (vllm-ascend#7790).

    Bytecode does not count, nor do files that the pins patch. What the lock brought has a RECORD with a hash of each
    file; without, nobody can tell whether it is whole.
    """
    known = ours(given)
    blamed = {name for pair in given.facts["shared_files"] for name in pair["owners"]}
    twice = given.blamed("duplicate-packages")
    answers, compared = [], 0
    for name, facts in sorted(given.installed.items()):
        if of_cann(facts):
            continue
        if not facts["readable"]:
            answers.append(
                failed(
                    name,
                    f"{facts['location']}/{facts['metadata']} holds no readable metadata",
                    "METADATA with a version",
                    f"uninstall {name} and install it again",
                )
            )
            continue
        record = facts["record"]
        untold = "" if record and not record["unhashed_count"] else unproven(given, facts)
        if untold and name in known and name not in twice:
            answers.append(unknown(name, untold, f"uninstall {name} and install it again"))
        if record is None:
            continue
        compared += 1
        if name in twice or (not record["missing_count"] and (not record["changed_count"] or name in blamed)):
            continue
        parts = []
        if record["missing_count"]:
            parts.append(
                f"{record['missing_count']} of {count(record['files'], 'file')} missing ({few(record['missing'])})"
            )
        if record["changed_count"]:
            parts.append(
                f"{record['changed_count']} of {count(record['files'], 'file')} changed ({few(record['changed'])})"
            )
        text = f"{name} is damaged: {', '.join(parts)}"
        if name in known or not (given.image or given.lock):
            answers.append(
                failed(
                    name,
                    text,
                    "every file as its RECORD says",
                    f"uninstall {name} and install it again, after everything that shares its files",
                )
            )
        else:
            answers.append(unknown(name, f"{text}; it is the base image's own"))
    if not answers and not compared:
        return [not_run("", "no distribution has a RECORD")]
    return answers or [passed("", count(compared, "RECORD"))]


def unproven(given: Given, facts: Facts) -> str:
    """Return why files of a distribution cannot be compared with its RECORD, empty where they can.

    That of a source lies beside its checkout, which git compares.
    """
    record, place = facts["record"], f"{facts['location']}/"
    if any(place.startswith(f"{source['path'].rstrip('/')}/") for source in given.sources if source.get("path")):
        return ""
    if record is None:
        return f"{facts['location']}/{facts['metadata']} has no RECORD, so its files are not known"
    return f"the RECORD has no hash of {count(record['unhashed_count'], 'file')} ({few(record['unhashed'])})"


@check(
    "patches",
    "Did every patch of the pins apply?",
    "See what the package holds now, correct the patch in versions.toml, and pin the version that it is for.",
)
def check_patches(given: Given) -> list[Said]:
    """A patch by line number breaks silently when its package moves; here the text and its count are asked for."""
    if not given.image:
        return [NO_PINS]
    if not given.image.get("patches"):
        return [not_run("", "the pins patch nothing")]
    answers = []
    for patch, facts in zip(given.image["patches"], given.facts["patches"]):
        wanted = f"{patch['count']} times the new text and none of the old in {patch['file']}"
        # Where the new text contains the old one, the old cannot vanish.
        old = facts["old"] - (facts["new"] * patch["replace"].count(patch["find"]))
        if not facts["found"]:
            answers.append(
                failed(
                    patch["distribution"],
                    f"{patch['file']} is not there",
                    wanted,
                    "see whether the package still has this file",
                )
            )
        elif old > 0 or facts["new"] < patch["count"]:
            answers.append(
                failed(
                    patch["distribution"],
                    f"{facts['new']} times the new text, {old} times the old in {patch['file']}",
                    wanted,
                    "see whether the package has changed, and pin the patch to it",
                )
            )
    return answers or [passed("", f"{len(given.image['patches'])} applied")]
