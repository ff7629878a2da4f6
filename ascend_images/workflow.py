"""What the workflows in .github ask: what is to be built, where which image is verified, which pins could move."""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_images.errors import BadInput, PublishRefused, one_line
from ascend_images.pins.lockfile import LockFile, file_name
from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import Unanswered
from ascend_images.pins.variant import Variant
from ascend_images.project_git import commit_of, committed
from ascend_images.publish import matrix as matrices
from ascend_images.publish import published
from ascend_images.publish.lock import PROPOSED, one_at_a_time
from ascend_images.publish.machines import Machines
from ascend_images.publish.manifest import load_joined
from ascend_images.publish.published import Publication, Published
from ascend_images.publishing import MANIFESTS, Say
from ascend_images.selection import select
from ascend_images.updating import Outdated
from ascend_images.verify.markdown import append_to_step_summary

#: How GitHub labels a self-hosted runner's architecture (docs.github.com, "Using self-hosted runners in a workflow").
ARCH_LABELS: Mapping[Arch, str] = {Arch.AMD64: "X64", Arch.ARM64: "ARM64"}
#: Where GitHub Actions reads a step's outputs (docs.github.com, "Workflow commands").
OUTPUTS = "GITHUB_OUTPUT"
#: The environments of `verify`: one may hold a login that pulls, and a machine with NPUs is given nothing by the other.
PULL, NPU = "pull", "npu"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run has to do: the variants it builds, those it leaves out with the reason, where each is verified.

    `doubtful` are those it builds because they were named, though what is committed of them could not be published.
    """

    variants: tuple[Variant, ...]
    machines: Machines
    left_out: Mapping[str, str]
    doubtful: Mapping[str, str]

    def outputs(self) -> dict[str, str]:
        """Return what the jobs of a workflow are told: matrices as JSON, `words` as `--variant` takes them."""
        return {
            "any": json.dumps(bool(self.variants)),
            "builds": json.dumps(matrices.matrix(self.variants, self.machines.builders)),
            "variants": json.dumps([one.name for one in self.variants]),
            "verifications": json.dumps({"include": list(self._verifications())}),
            "words": shlex.join(one.name for one in self.variants),
        }

    def warnings(self) -> dict[str, tuple[str, str]]:
        """Return what somebody should know of each variant: a title, and the reason."""
        return {
            **{name: ("left out", why) for name, why in self.left_out.items()},
            **{name: ("could not be published as committed", why) for name, why in self.doubtful.items()},
        }

    def _verifications(self) -> Iterator[dict[str, Any]]:
        """Yield one entry for each image: where no machine has its NPUs, one that builds does what it can."""
        for variant in self.variants:
            lacking = self.machines.lacking(variant)
            for entry in matrices.matrix([variant], self.machines.builders)["include"]:
                arch = Arch(entry["arch"])
                kept = {key: entry[key] for key in ("variant", "arch", "platform")}
                if arch in lacking:
                    yield {**kept, "runner": entry["runner"], "npu": "", "environment": PULL}
                else:
                    runner = [*entry["npu"], ARCH_LABELS[arch]]
                    yield {**kept, "runner": runner, "npu": "--require-npu", "environment": NPU}


def plan(root: Path, names: Sequence[str], machines: Machines, *, without_npu: str = "") -> Plan:
    """Return what is to be built: the variants that are named, else those whose published image is not the tree's.

    So what one run did not come to is taken up by the next. What could never be published is left out where it was not
    named: its lock is missing or incomplete, versions.lock does not answer its pins, or no machine has its NPUs and no
    reason (`without_npu`) is published for that. Raises PublishRefused where that last one leaves nothing to build, and
    for what is named.
    """
    selection = select(root, tuple(names), everything=not names, allow_broken=True)
    history = published.load(root / published.FILE)
    wanted = (
        selection.variants if names else [one for one in selection.variants if not _is_published(root, one, history)]
    )
    unanswered = selection.unanswered()
    unready = {one.name: reason for one in wanted if (reason := _unready(root, one, unanswered))}
    unseen = {} if without_npu else {one.name: _unseen(lacking) for one in wanted if (lacking := machines.lacking(one))}
    if names:
        _require_seen(unseen)
        return Plan(variants=selection.variants, machines=machines, left_out={}, doubtful=unready)
    left_out = {**unseen, **unready}
    ready = tuple(one for one in wanted if one.name not in left_out)
    if not ready:
        _require_seen({name: why for name, why in unseen.items() if name not in unready})
    return Plan(variants=ready, machines=machines, left_out=left_out, doubtful={})


def warn(warnings: Mapping[str, tuple[str, str]], environment: Mapping[str, str] = os.environ) -> str:
    """Return warnings for people, one a line; GitHub's runner shows them at the run as well, and in its summary.

    Raises BadInput where the summary cannot be written.
    """
    if not warnings:
        return ""
    lines = [one_line(f"{title}: {name}: {why}") for name, (title, why) in warnings.items()]
    append_to_step_summary("\n".join(["## Plan", "", "```", *lines, "```"]), environment)
    if environment.get("GITHUB_ACTIONS") == "true":
        # `%` would begin an escape (docs.github.com, "Workflow commands").
        lines = [f"::warning::{line.replace('%', '%25')}" for line in lines]
    return "\n".join(lines)


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
        if arch not in variant.platforms:
            declared = ", ".join(one.platform for one in variant.platforms)
            raise BadInput(f"variant {variant.name} is not built for {arch.platform}", wanted=f"one of {declared}")
        raise PublishRefused(
            f"{variant.name}: joined of {', '.join(joined.platforms)}",
            wanted=arch.platform,
            do=f"invoke build --variant {variant.name} --arch {arch.value} --push",
        )
    return f"{joined.repository}@{joined.platforms[arch.platform].manifest}"


def remember(root: Path, revision: str, file: Path | None, say: Say) -> list[Publication]:
    """Add to published.json what a revision or another such file holds, and return what was added, oldest first.

    A revision without such a file holds nothing, and so does the branch that is proposed while there is none, which is
    said. Raises BadInput for another revision or a file that is not there or cannot be read, and MissingTool where git
    cannot tell.
    """
    if bool(revision) == bool(file):
        raise BadInput("what is to be remembered?", wanted="either --from REVISION or --file PATH")
    more = _held_by_file(file) if file else _held_by(root, revision, say)
    with one_at_a_time(root, say):
        before = published.load(root / published.FILE)
        added = [one for one in more.publications if one not in before.publications]
        if added:
            published.write(root / published.FILE, before.joined_with(more))
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


def _held_by_file(file: Path) -> Published:
    # Elsewhere a file that is not there is one of nothing; here its name was mistyped, or an artifact got lost.
    if not file.exists():
        raise BadInput(f"{file}: no such file", wanted=f"a {published.FILE} from elsewhere")
    return published.load(file)


def _held_by(root: Path, revision: str, say: Say) -> Published:
    content = committed(root, revision, published.FILE)
    if content is not None:
        return published.parse(content, f"{revision}:{published.FILE}")
    if not commit_of(root, revision):
        if revision != PROPOSED:
            raise BadInput(f"--from {revision}: no such commit here", wanted="a commit, branch or tag", do="git fetch")
        say(f"{PROPOSED} is not here: nothing is proposed, as far as was fetched")
    return Published()


def _is_published(root: Path, variant: Variant, history: Published) -> bool:
    """Say whether the last image under a variant's tag was built from what the tree holds."""
    before = history.of_tag(variant.repository, variant.tag)
    if not before:
        return False
    try:
        return not matrices.changed_since(root, before[-1].commit, [variant])
    except BadInput:
        return False  # that commit is not here: building once too often is the smaller harm


def _unseen(lacking: Sequence[Arch]) -> str:
    """Return why nothing could verify a variant."""
    platforms = ", ".join(arch.platform for arch in lacking)
    return f"no machine has its NPUs for {platforms} (NPU_ARCH), and no reason is published for that (WITHOUT_NPU)"


def _require_seen(unseen: Mapping[str, str]) -> None:
    """Raise PublishRefused where there are variants that nothing could verify."""
    if unseen:
        raise PublishRefused(
            "\n".join(f"{name}: {why}" for name, why in unseen.items()),
            wanted="a machine with NPUs for each platform, or --without-npu with the reason why there is none",
            do="set the variables NPU_ARCH and WITHOUT_NPU of the repository as docs/publishing.md says",
        )


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
