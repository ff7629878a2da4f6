"""A built image read back from the engine or the registry: its manifest and configuration, held against image.json."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ascend_images.errors import BuildFailed
from ascend_images.images.builder import Builder
from ascend_images.images.engine import CONTENT, Engine, Run, data_folders, run_command
from ascend_images.images.plan import BuildPlan
from ascend_images.images.system import packages_in_engine
from ascend_images.images.view import labels
from ascend_images.pins.tls import environment_faults

#: What every rendered file ends with: the base images' own, which strict steps in between replaced for themselves.
CMD = ("/bin/bash",)
SHELL = ("/bin/bash", "-c")

_PROXIES = frozenset(("http_proxy", "https_proxy", "ftp_proxy", "all_proxy"))
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_COMPRESSIONS = ("gzip", "zstd", "uncompressed")
# Where a containerd keeps what it holds by digest, seen from an engine's own data folder and from one beside it.
_STORES = ("containerd/daemon", "")


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer as the manifest has it; `bytes` as it is stored and sent, so compressed."""

    digest: str
    media_type: str
    compression: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Config:
    """The part of an image's configuration that nothing inside the image can see as it is written there.

    `shell` is None where it cannot be read: buildx leaves it out of what it tells of an image in a registry.
    """

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    shell: tuple[str, ...] | None = ()
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a build made.

    `digest` is what the name stands for (an index where provenance comes along), `manifest` the image's own manifest,
    which is the same for the same build, `config_digest` that of its configuration. `bytes` is the size as it is sent;
    `layers` is None where only the engine has the image and its store cannot be read, `system` (the operating system's
    packages) where only a registry has it, or the image has neither dpkg nor rpm.
    """

    digest: str
    manifest: str
    config_digest: str
    config: Config
    bytes: int | None
    layers: tuple[Layer, ...] | None
    system: dict[str, str] | None = None


def read_metadata(path: Path, target: str) -> dict[str, Any]:
    """Return what buildx wrote of `target`; raises BuildFailed when there is nothing, or no digest in it."""
    try:
        said = json.loads(path.read_bytes())[target]
        if not str(said["containerimage.digest"]).startswith("sha256:"):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise BuildFailed(
            "the build ended well, but buildx did not say what it made", wanted="the digest in its metadata file"
        ) from None
    return dict(said)


def read_back(
    plan: BuildPlan, metadata: Mapping[str, Any], *, engine: Engine, builder: Builder, run: Run = run_command
) -> Made:
    """Return what was made, by its digest; raises BuildFailed when engine or registry do not have it.

    A builder other than the engine's that pushes leaves nothing here: then the registry is asked, else the engine.
    """
    digest = str(metadata["containerimage.digest"])
    remote = plan.choices.push
    document = _manifest(plan, digest, engine, remote, run)
    manifest = digest
    if document.get("mediaType") in _INDEXES:
        manifest = _image_in(document, plan, digest)
        document = _manifest(plan, manifest, engine, remote, run)
    config, size = _from_registry(plan, manifest, run) if remote else _from_engine(plan, manifest, builder, run)
    if remote and builder.is_own:
        config = replace(config, shell=_shell_in_engine(plan, digest, builder, run))
    layers = _layers(document)
    return Made(
        digest=digest,
        manifest=manifest,
        config_digest=str(document.get("config", {}).get("digest") or metadata.get("containerimage.config.digest", "")),
        config=config,
        bytes=_size(document) if layers is not None else size,
        layers=layers,
        system=packages_in_engine(digest if builder.is_own else plan.image, run)
        if builder.is_own or not remote
        else None,
    )


def give_local_name(plan: BuildPlan, digest: str, *, builder: Builder, run: Run = run_command) -> None:
    """Have the engine that pushed an image call it by its local name too, as it calls one that was not pushed.

    Another builder leaves nothing here; and where somebody has removed the image meanwhile there is nothing to name.
    """
    if plan.choices.push and builder.is_own:
        run(["docker", "image", "tag", digest, plan.local_image])


def differences(plan: BuildPlan, config: Config) -> list[str]:
    """Return each way in which an image's configuration is not what image.json, its variant and the plan say.

    check.py sees the image from inside, with the environment that a build step has; what a container will be started
    with is written in the configuration alone.
    """
    image = plan.rendered.image
    found = []
    entrypoint = tuple(image["entrypoint"])
    if config.entrypoint != entrypoint:
        found.append(f"ENTRYPOINT is {_shown(config.entrypoint)}, not {_shown(entrypoint)}")
    if config.cmd != CMD:
        found.append(f"CMD is {_shown(config.cmd)}, not {_shown(CMD)}")
    if config.shell is not None and config.shell != SHELL:
        found.append(f"SHELL is {_shown(config.shell)}, not {_shown(SHELL)}: it is inherited by whoever builds on this")
    if config.workdir != (image["workdir"] or config.workdir):
        found.append(f"WORKDIR is {config.workdir or '/'}, not {image['workdir']}")
    env = {name: value.replace("{kernel_arch}", plan.arch.kernel) for name, value in image["env"].items()}
    found += _unequal("ENV", env, config.env)
    found += _unequal("LABEL", {**labels(plan.variant), **plan.labels}, config.labels)
    return [*found, *_left_behind(env, config.env)]


def _left_behind(wanted: Mapping[str, str], there: Mapping[str, str]) -> Iterator[str]:
    """Yield what served a build and must not reach users: proxies (check.py cannot tell the engine's from these)."""
    for name, value in there.items():
        if name in wanted:
            continue
        if name.lower() in _PROXIES:
            yield f"ENV holds {name}: a proxy of the place where it, or its base, was built"
        elif any(environment_faults("", {name: value})):
            yield f"ENV holds {name}: it switches TLS off"


def _unequal(what: str, wanted: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    return [
        f"{what} {name} is {repr(there[name]) if name in there else 'not there'}, not {value!r}"
        for name, value in wanted.items()
        if there.get(name) != value
    ]


def _shown(words: tuple[str, ...]) -> str:
    return json.dumps(words, ensure_ascii=False)


def _manifest(plan: BuildPlan, digest: str, engine: Engine, remote: bool, run: Run) -> dict[str, Any]:
    """Return a manifest or index; empty where the engine alone has it and does not let it be read.

    The engine's own interface gives no manifests (Docker 26), so its content store is read if this user may.
    """
    if remote:
        answer = run(["docker", "buildx", "imagetools", "inspect", "--raw", f"{_repository(plan)}@{digest}"])
        if answer.code != 0:
            raise _not_there(plan, digest, answer.err)
        return _object(answer.out)
    for folder in data_folders(engine.root) if engine.is_local else ():
        for store in _STORES:
            blob = folder / store / CONTENT / "blobs" / "sha256" / digest.removeprefix("sha256:")
            try:
                return _object(blob.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError):
                continue
    return {}


def _image_in(index: Mapping[str, Any], plan: BuildPlan, digest: str) -> str:
    """Return the digest of the one image in an index; attestations stand there as well, for an unknown platform."""
    images = [
        str(entry["digest"])
        for entry in index.get("manifests", ())
        if (entry.get("platform", {}).get("os"), entry.get("platform", {}).get("architecture"))
        == ("linux", plan.arch.value)
    ]
    if len(images) != 1:
        raise BuildFailed(f"{digest} holds {len(images)} images for {plan.arch.platform}", wanted="exactly one")
    return images[0]


def _from_engine(plan: BuildPlan, digest: str, builder: Builder, run: Run) -> tuple[Config, int | None]:
    # The engine calls images of its own builder by their digest; what another builder hands over gets another one.
    name = digest if builder.is_own else plan.image
    answer = run(["docker", "image", "inspect", "--format", "{{json .}}", name])
    image = _object(answer.out) if answer.code == 0 else {}
    if not image:
        raise _not_there(plan, name, answer.err)
    size = image.get("Size")
    return _config(image.get("Config") or {}), int(size) if size is not None else None


def _shell_in_engine(plan: BuildPlan, digest: str, builder: Builder, run: Run) -> tuple[str, ...] | None:
    """Return the SHELL of a pushed image: what its own builder pushes the engine has as well, and of that it tells all.

    None where somebody has removed it there in the meantime.
    """
    try:
        return _from_engine(plan, digest, builder, run)[0].shell
    except BuildFailed:
        return None


def _from_registry(plan: BuildPlan, digest: str, run: Run) -> tuple[Config, int | None]:
    name = f"{_repository(plan)}@{digest}"
    answer = run(["docker", "buildx", "imagetools", "inspect", "--format", "{{json .Image}}", name])
    image = _object(answer.out) if answer.code == 0 else {}
    if not image:
        raise _not_there(plan, digest, answer.err)
    return replace(_config(image.get("config") or {}), shell=None), None


def _config(config: Mapping[str, Any]) -> Config:
    return Config(
        entrypoint=tuple(config.get("Entrypoint") or ()),
        cmd=tuple(config.get("Cmd") or ()),
        shell=tuple(config.get("Shell") or ()),
        env=dict(entry.partition("=")[::2] for entry in config.get("Env") or ()),
        labels=dict(config.get("Labels") or {}),
        workdir=str(config.get("WorkingDir") or ""),
    )


def _layers(manifest: Mapping[str, Any]) -> tuple[Layer, ...] | None:
    if "layers" not in manifest:
        return None
    return tuple(
        Layer(
            digest=str(layer["digest"]),
            media_type=str(layer["mediaType"]),
            compression=_compression(str(layer["mediaType"])),
            bytes=int(layer["size"]),
        )
        for layer in manifest["layers"]
    )


def _compression(media_type: str) -> str:
    """Return what a layer's media type says of it: `…tar+gzip`, `…tar.gzip` (Docker's), `…tar+zstd`, or `…tar`."""
    return next((name for name in _COMPRESSIONS[:2] if media_type.endswith(name)), _COMPRESSIONS[2])


def _size(manifest: Mapping[str, Any]) -> int:
    return sum(int(part["size"]) for part in (manifest["config"], *manifest["layers"]))


def _repository(plan: BuildPlan) -> str:
    return plan.variant.repository


def _not_there(plan: BuildPlan, digest: str, said: str) -> BuildFailed:
    last = (said.strip().splitlines() or ["not found"])[-1]
    return BuildFailed(f"{plan.image} was built as {digest} and cannot be read back: {last}", wanted="the image")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
