"""What the workflows in .github ask: what is to be built, where which image is verified, which pins could move."""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_images.errors import BadInput, PublishRefused
from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import Unanswered
from ascend_images.pins.variant import Variant
from ascend_images.publish import matrix as matrices
from ascend_images.publish import published
from ascend_images.publish.lock import committed, one_at_a_time
from ascend_images.publish.manifest import load_joined
from ascend_images.publish.published import Publication, Published
from ascend_images.publishing import MANIFESTS, Say
from ascend_images.selection import select
from ascend_images.updating import Outdated

#: How GitHub labels a self-hosted runner's architecture (docs.github.com, "Using self-hosted runners in a workflow").
ARCH_LABELS: Mapping[Arch, str] = {Arch.AMD64: "X64", Arch.ARM64: "ARM64"}
#: What is typed for architectures where no machine has NPUs.
NONE = "none"
#: Where GitHub Actions reads a step's outputs (docs.github.com, "Workflow commands").
OUTPUTS = "GITHUB_OUTPUT"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run has to do: the variants it builds, those it leaves out with the reason, where each is verified."""

    variants: tuple[Variant, ...]
    left_out: Mapping[str, str]
    npu_arches: tuple[Arch, ...]

    def outputs(self) -> dict[str, str]:
        """Return what the jobs of a workflow are told: matrices as JSON, `words` as `--variant` takes them."""
        return {
            "any": json.dumps(bool(self.variants)),
            "builds": json.dumps(matrices.matrix(self.variants)),
            "variants": json.dumps([one.name for one in self.variants]),
            "verifications": json.dumps({"include": list(self._verifications())}),
            "words": shlex.join(one.name for one in self.variants),
        }

    def _verifications(self) -> Iterator[dict[str, Any]]:
        """Yield one entry for each image: where no machine has NPUs, a runner without them does what it can."""
        for entry in matrices.matrix(self.variants)["include"]:
            arch = Arch(entry["arch"])
            has_npu = arch in self.npu_arches
            kept = {key: entry[key] for key in ("variant", "arch", "platform")}
            runner = [*entry["npu"], ARCH_LABELS[arch]] if has_npu else [entry["runner"]]
            yield {**kept, "runner": runner, "npu": "--require-npu" if has_npu else ""}


def npu_arches(text: str) -> tuple[Arch, ...]:
    """Return the architectures, divided by commas, of which there are machines with NPUs; raises BadInput."""
    from ascend_images.cli import architectures

    return () if text.strip() == NONE else architectures([text])


def plan(root: Path, names: Sequence[str], arches: tuple[Arch, ...]) -> Plan:
    """Return what is to be built: the variants that are named, else those whose published image is not the tree's.

    So what one run did not come to is taken up by the next. What could never be published, since its lock is missing
    or incomplete or versions.lock does not answer its pins, is left out where it was not named.
    """
    selection = select(root, tuple(names), everything=not names, allow_broken=True)
    if names:
        return Plan(variants=selection.variants, left_out={}, npu_arches=arches)
    history = published.load(root / published.FILE)
    wanted = [one for one in selection.variants if not _is_published(root, one, history)]
    unanswered = selection.unanswered()
    left_out = {one.name: reason for one in wanted if (reason := _unready(root, one, unanswered))}
    ready = tuple(one for one in wanted if one.name not in left_out)
    return Plan(variants=ready, left_out=left_out, npu_arches=arches)


def joined_image(root: Path, name: str, arch: Arch | None = None) -> str:
    """Return what was joined of a variant, by digest: the index, or the image in it for one architecture.

    An engine that has several images of an index takes its own machine's whatever platform is meant; the digest of one
    image leaves no choice. Raises PublishRefused where nothing was joined, or not for that architecture.
    """
    if not name:
        raise BadInput("no variant is named", wanted="--variant NAME", do="invoke variants")
    (variant,) = select(root, (name,), allow_broken=True).variants
    joined = load_joined(root / MANIFESTS / f"{variant.name}.json", variant.name)
    if arch is None:
        return f"{joined.repository}@{joined.digest}"
    if arch.platform not in joined.platforms:
        raise PublishRefused(
            f"{variant.name}: joined of {', '.join(joined.platforms)}",
            wanted=arch.platform,
            do=f"invoke build --variant {variant.name} --arch {arch.value} --push",
        )
    return f"{joined.repository}@{joined.platforms[arch.platform].manifest}"


def remember(root: Path, revision: str, file: Path | None, say: Say) -> list[Publication]:
    """Add to published.json what a revision or another such file holds, and return what was added, oldest first.

    A revision that is not there, or has no such file, holds nothing. Raises BadInput for a file that cannot be read.
    """
    if bool(revision) == bool(file):
        raise BadInput("what is to be remembered?", wanted="either --from REVISION or --file PATH")
    if file:
        more = published.load(file)
    else:
        content = committed(root, revision, published.FILE)
        more = published.parse(content, f"{revision}:{published.FILE}") if content is not None else Published()
    with one_at_a_time(root, say):
        before = published.load(root / published.FILE)
        added = [one for one in more.publications if one not in before.publications]
        if added:
            # Each of the two is in the order of time already.
            merged = sorted([*before.publications, *added], key=lambda one: one.when)
            published.write(root / published.FILE, Published(publications=tuple(merged)))
    return added


def updates(found: Outdated) -> dict[str, str]:
    """Return what `invoke bump` could do about newer releases, as a matrix: one entry a pull request.

    A release that breaks a rule or a demand is left to people, unless an older one fits.
    """
    entries: dict[str, dict[str, str]] = {}
    for update in found.updates:
        if update.breaks and not update.fitting:
            continue
        for command in update.bump.splitlines():
            words = shlex.split(command)
            if words[:2] == ["invoke", "bump"]:
                name, version = words[2:4]
                entries[f"{name} {version}"] = _entry(name, version)
    return {"any": json.dumps(bool(entries)), "updates": json.dumps({"include": list(entries.values())})}


def tell(outputs: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> str:
    """Return outputs for people, one a line, and hand them to GitHub's runner where there is one. Raises OSError."""
    lines = [f"{key}={value}" for key, value in outputs.items()]
    if place := environment.get(OUTPUTS):
        with Path(place).open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    return "\n".join(lines)


def _is_published(root: Path, variant: Variant, history: Published) -> bool:
    """Say whether the last image under a variant's tag was built from what the tree holds."""
    before = history.of_tag(variant.repository, variant.tag)
    if not before:
        return False
    try:
        return not matrices.changed_since(root, before[-1].commit, [variant])
    except BadInput:
        return False  # that commit is not here: building once too often is the smaller harm


def _unready(root: Path, variant: Variant, unanswered: Sequence[Unanswered]) -> str:
    """Return why an image of a variant could not be published, by its locks; nothing where it could."""
    own = [one.found for one in unanswered if variant.name in one.variants]
    if own:
        more = f" (and {len(own) - 1} more)" if own[1:] else ""
        return f"{own[0]}{more}: invoke lock --variant {variant.name}"
    for arch in variant.platforms:
        path = root / "locks" / file_name(variant.name, arch)
        if not path.is_file():
            return f"{path.name} is not there: invoke lock --variant {variant.name}"
        if not LockFile.load(path).complete:
            return f"{path.name} is incomplete: invoke lock --variant {variant.name}"
    return ""


def _entry(name: str, version: str) -> dict[str, str]:
    """Return one update: what is bumped, the branch of its pull request, the artifact that holds its commit."""
    plain = "-".join(_plain(text) for text in (name, version))
    return {"name": name, "version": version, "branch": f"update/{plain}", "artifact": f"update-{plain}"}


def _plain(text: str) -> str:
    """Return a text as a branch and an artifact may be called: other signs become dashes."""
    return re.sub(r"[^A-Za-z0-9_.]|\.\.+", "-", text).strip(".-")
