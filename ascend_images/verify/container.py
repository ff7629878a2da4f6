"""One container of an image: started with check.py in it, watched to its end, removed whatever happens."""

import contextlib
import io
import json
import os
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound, NotFound
from docker.models.containers import Container
from requests.exceptions import ConnectionError as RequestConnectionError
from requests.exceptions import ReadTimeout

from ascend_images.errors import BadInput
from ascend_images.host.connect import plainly
from ascend_images.inside.facts.environment import shown
from ascend_images.program import program_files

#: Where check.py is put in a container; an image's own copy may be of another version.
_FOLDER = "opt/ascend-images-verify"
_FACTS = f"/{_FOLDER}/facts/facts.json"
#: A label by which a container that outlived its verification is found: docker ps -a --filter label=…; its value is the
#: process that verified.
LABEL = "io.ascend-images.verify"
# Facts besides imports take seconds; an image may unpack slowly on its first start.
_FACTS_SECONDS = 600.0
_LOG_LINES = 40

_ENVIRONMENT_PROBE = r"command -v python3 || true; printf '\0'; env -0"


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What one container showed.

    `reference` is the image as it was named, `digest` what the engine calls it, `platform` as Docker writes it.
    `config` is the image's configuration. `document` is what check.py wrote, None where it did not get that far; then
    `exit`, `killed` (by the kernel, for want of memory), `timed_out` and the end of `output` say how it ended.
    """

    reference: str
    digest: str
    platform: str
    config: Mapping[str, Any]
    document: Mapping[str, Any] | None
    exit: int | None
    killed: bool
    timed_out: bool
    output: str
    exec_environment: Mapping[str, str] | None = None
    exec_python: str = ""
    environment: Sequence[str] = field(default_factory=tuple)


def observe(
    client: docker.DockerClient,
    reference: str,
    *,
    platform: str = "",
    arguments: Mapping[str, Any] | None = None,
    words: Sequence[str] = (),
    files: Mapping[str, bytes] | None = None,
    limit: float = _FACTS_SECONDS,
) -> Observed:
    """Start one container of an image, let check.py gather its facts there, and remove it.

    `arguments` are those of the SDK's `containers.create` that give it NPUs, `words` further words for check.py,
    `files` what is put beside check.py (see `inner_path`), `limit` the time in seconds after which it is ended. The
    image's own ENTRYPOINT stays, so that the facts are those of `docker run IMAGE`. Raises BadInput for an image that
    cannot be had, MissingTool for an engine that does not answer.
    """
    with plainly():
        image = _image(client, reference, platform)
        attributes = image.attrs
        found = f"{attributes['Os']}/{attributes['Architecture']}"
        command = ["python3", "-B", f"/{_FOLDER}/check.py", "--facts", _FACTS, *words]
        archive = _archive({**program_files(), **(files or {})})
        made = {**(arguments or {}), "platform": found}
        with _container(client, image.id or reference, command, archive, made) as container:
            ended = _run(container, limit)
            state = container.attrs["State"]
            config = container.attrs["Config"]
            return Observed(
                reference=reference,
                digest=image.id or "",
                platform=found,
                config=attributes.get("Config") or {},
                document=_document(container),
                exit=state.get("ExitCode") if state.get("Status") == "exited" else None,
                killed=bool(state.get("OOMKilled")),
                timed_out=ended.timed_out,
                output=ended.failure or _log(container),
                exec_environment=ended.environment,
                exec_python=ended.python,
                environment=tuple(config.get("Env") or ()),
            )


def _image(client: docker.DockerClient, reference: str, platform: str) -> Any:
    """Return an image of the engine's, fetched where it has none; raises BadInput."""
    try:
        image = client.images.get(reference)
    except (ImageNotFound, APIError):
        image = None
    if image is not None and (not platform or platform == f"{image.attrs['Os']}/{image.attrs['Architecture']}"):
        return image
    try:
        return client.images.pull(reference, platform=platform or None)
    except APIError as error:
        raise BadInput(
            f"{reference}{f' for {platform}' if platform else ''}: neither on the engine nor to be fetched: "
            f"{error.explanation or error}",
            wanted="an image of this engine, or one that a registry has",
            do="docker image ls, or build it: invoke build --variant NAME",
        ) from None


@contextlib.contextmanager
def _container(
    client: docker.DockerClient, image: str, command: Sequence[str], archive: bytes, arguments: Mapping[str, Any]
) -> Iterator[Container]:
    """Create a container with check.py in it; it is removed in the end, running or not."""
    labels = {**arguments.get("labels", {}), LABEL: str(os.getpid())}
    try:
        container = client.containers.create(image, list(command), **{**arguments, "labels": labels})
    except APIError as error:
        raise BadInput(
            f"the engine cannot make a container of this image: {error.explanation or error}",
            wanted="an image of this engine and devices of its host",
            do="docker create with the same words says more: invoke run --print",
        ) from None
    try:
        container.put_archive("/", archive)
        yield container
    finally:
        with contextlib.suppress(NotFound):
            container.remove(force=True, v=True)


def inner_path(name: str) -> str:
    """Return where a file that is put beside check.py lies in the container."""
    return f"/{_FOLDER}/{name}"


def _archive(files: Mapping[str, bytes]) -> bytes:
    """Return check.py and what goes beside it as a tar file, with a folder in which any user may write facts."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        folder = tarfile.TarInfo(f"{_FOLDER}/facts")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o777
        tar.addfile(folder)
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{_FOLDER}/{name}")
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@dataclass(frozen=True)
class _Ended:
    timed_out: bool = False
    failure: str = ""
    python: str = ""
    environment: Mapping[str, str] | None = None


def _run(container: Container, limit: float) -> _Ended:
    """Start the container, ask `docker exec` for its environment, and wait for the end; one that hangs is killed."""
    try:
        container.start()
    except APIError as error:
        container.reload()
        return _Ended(failure=str(error.explanation or error))
    started = time.monotonic()
    python, environment = _exec_environment(container)
    timed_out = False
    try:
        container.wait(timeout=max(1.0, limit - (time.monotonic() - started)))
    except (ReadTimeout, RequestConnectionError):
        timed_out = True
        with contextlib.suppress(APIError):
            container.kill()
    container.reload()
    return _Ended(timed_out, "", python, environment)


def _exec_environment(container: Container) -> tuple[str, Mapping[str, str] | None]:
    """Return `python3` and the environment that `docker exec` gives; None where the container had ended before."""
    try:
        code, output = container.exec_run(["sh", "-c", _ENVIRONMENT_PROBE], demux=True)
    except APIError:
        return "", None
    python, mark, variables = ((output or (b"",))[0] or b"").decode(errors="replace").partition("\0")
    if code != 0 or not mark:
        return "", None
    return python.strip(), shown(dict(line.split("=", 1) for line in variables.split("\0") if "=" in line))


def _document(container: Container) -> Mapping[str, Any] | None:
    """Return what check.py wrote; None where there is nothing, or nothing whole."""
    try:
        stream, _ = container.get_archive(_FACTS)
    except (NotFound, APIError):
        return None
    try:
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
            file = tar.extractfile(tar.getmembers()[0])
            document = json.loads(file.read()) if file is not None else None
    except (tarfile.TarError, ValueError, IndexError):
        return None
    return document if isinstance(document, dict) else None


def _log(container: Container) -> str:
    """Return the last lines that the container wrote."""
    try:
        return str(container.logs(tail=_LOG_LINES).decode(errors="replace")).strip()
    except APIError:
        return ""
