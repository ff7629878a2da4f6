"""One container of an image: started with check.py in it, watched to its end, removed whatever happens."""

import contextlib
import os
import platform as machine
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import docker
from docker.errors import APIError, ImageNotFound, InvalidRepository, NotFound
from docker.models.containers import Container
from requests.exceptions import ConnectionError as RequestConnectionError
from requests.exceptions import ReadTimeout

from ascend_images.errors import AscendImagesError, BadInput, LookupIncomplete, MissingTool
from ascend_images.host.connect import plainly
from ascend_images.host.containers import file_in, packed
from ascend_images.inside.facts.environment import shown
from ascend_images.pins.variant import IMAGE_FOLDER
from ascend_images.program import program_files

#: A label by which a container that outlived its verification is found: docker ps -a --filter label=…; its value is the
#: machine and the process that verified.
LABEL = "io.ascend-images.verify"
OWN_IMAGE = f"{IMAGE_FOLDER}/image.json"
OWN_LOCK = f"{IMAGE_FOLDER}/lock.txt"

_LOG_LINES = 40
# Facts of an image of some hundred packages are a few MB.
_LARGEST = 64 << 20
_EXEC_SECONDS = 15.0
_EXEC_BYTES = 1 << 20
_CHUNK_END = b"\0\0"
# What an engine says, in lower case, when a registry answered that there is no such image for this user or platform;
# all else may be a fault of the way to it.
_ANSWER = re.compile(
    r"not found|manifest unknown|name unknown|does not exist|denied|unauthorized|authorization failed|403 forbidden"
    r"|no match|cannot be used on this platform|does not match|unsupported m|invalid reference"
)

_ENVIRONMENT_PROBE = r"command -v python3 || true; printf '\0'; env -0 && printf '\0'"


class Own(NamedTuple):
    """What an image says of itself: the texts of its image.json and lock.txt, empty where it has none."""

    image: str
    lock: str


class Inner(NamedTuple):
    """Where this run's files lie in the container: a folder of a name that no image can know."""

    folder: str

    def path(self, name: str) -> str:
        """Return the path of a file that is put beside check.py."""
        return f"/{self.folder}/{name}"

    @property
    def facts(self) -> str:
        """Return where check.py writes its facts."""
        return self.path("facts/facts.json")


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What one container showed.

    `digest` is what the engine calls the image, `platform` as Docker writes it, `config` its configuration, `own` what
    it says of itself.
    `document` is the text that check.py wrote, empty where it did not come to a good end; then `exit`, `killed` (by the
    kernel, for want of memory), `timed_out` and the end of `output` say how it ended. `exec_environment` is what
    `docker exec` gives, with its `python3`; `environment` the entries of the container's Env in order, secrets hidden.
    """

    digest: str
    platform: str
    config: Mapping[str, Any]
    own: Own
    document: str
    exit: int | None
    killed: bool
    timed_out: bool
    output: str
    exec_environment: Mapping[str, str] | None
    exec_python: str
    environment: Sequence[str]


class Files(NamedTuple):
    """What goes into a container: words for check.py, and files beside it, given what the image says of itself."""

    words: Callable[[Inner], Sequence[str]]
    beside: Callable[[Own], Mapping[str, bytes]]


def observe(
    client: docker.DockerClient,
    reference: str,
    files: Files,
    *,
    platform: str = "",
    arguments: Mapping[str, Any] | None = None,
    limit: float,
    build: str = "",
) -> Observed:
    """Start one container of an image, let check.py gather its facts there, and remove it.

    `arguments` are those of the SDK's `containers.create` that give it NPUs; `limit` is the time in seconds after which
    it is ended, `build` what to type where the engine has no such image. The image's own ENTRYPOINT stays: the facts
    are those of `docker run IMAGE`. Raises BadInput for an image that nobody has or that no container can be made of,
    LookupIncomplete for one whose registry gives no answer, MissingTool for an engine that does not answer or has no
    room.
    """
    with plainly():
        _remove_left(client)
        image = _image(client, reference, platform, build)
        found = f"{image.attrs['Os']}/{image.attrs['Architecture']}"
        inner = Inner(f"ascend-images-verify-{secrets.token_hex(8)}")
        command = ["python3", "-B", inner.path("check.py"), "--facts", inner.facts, *files.words(inner)]
        made = {**(arguments or {}), "platform": found}
        with _container(client, image.id or reference, command, made) as container:
            own = Own(_text_of(container, OWN_IMAGE), _text_of(container, OWN_LOCK))
            _put(container, packed(inner.folder, {**program_files(), **files.beside(own)}, writable=["facts"]))
            ended = _run(container, limit)
            state = container.attrs["State"]
            code = state.get("ExitCode") if state.get("Status") == "exited" else None
            good = code == 0 and not ended.timed_out and not ended.failure
            return Observed(
                digest=image.id or "",
                platform=found,
                config=image.attrs.get("Config") or {},
                own=own,
                document=_text_of(container, inner.facts) if good else "",
                exit=code,
                killed=bool(state.get("OOMKilled")),
                timed_out=ended.timed_out,
                output=ended.failure or _log(container),
                exec_environment=ended.environment,
                exec_python=ended.python,
                environment=[_shown_entry(entry) for entry in container.attrs["Config"].get("Env") or ()],
            )


def _image(client: docker.DockerClient, reference: str, platform: str, build: str) -> Any:
    """Return an image of the engine's, fetched where it has none; raises what `_not_fetched` gives."""
    try:
        image = client.images.get(reference)
    except (ImageNotFound, APIError):
        image = None
    if image is not None and (not platform or platform == f"{image.attrs['Os']}/{image.attrs['Architecture']}"):
        return image
    try:
        image = _pulled(client, reference, platform)
    except (APIError, InvalidRepository) as error:
        raise _not_fetched(f"{reference}{f' for {platform}' if platform else ''}", build, error) from None
    found = f"{image.attrs['Os']}/{image.attrs['Architecture']}"
    if platform and found != platform:
        # An engine that has several images of an index shows its own platform's, whichever was fetched last.
        raise BadInput(
            f"{reference}: the engine has several images under this name, and gives that of {found}",
            wanted=f"the image of {platform}, by its own digest",
            do=f"docker buildx imagetools inspect {reference}, then --image REPOSITORY@DIGEST --platform {platform}",
        )
    return image


def _pulled(client: docker.DockerClient, reference: str, platform: str) -> Any:
    """Fetch an image and return it; raises APIError, InvalidRepository for what no image can be called.

    What goes wrong once the engine has begun to tell of it is only told there, and the SDK's own `pull` passes over it.
    """
    for line in client.api.pull(reference, stream=True, decode=True, platform=platform or None):
        if "error" in line:
            raise APIError(str(line["error"]))
    return client.images.get(reference)


def _not_fetched(what: str, build: str, error: Exception) -> AscendImagesError:
    """Return what it means that an image was not fetched: nobody has it, its registry is out of reach, no room."""
    status = error.status_code if isinstance(error, APIError) else None
    said = str(getattr(error, "explanation", None) or error)
    found = f"{what}: neither on the engine nor to be fetched: {said}"
    if "no space left" in said.lower():
        return MissingTool(found, wanted="room on the engine's disk", do="docker system df")
    answered = isinstance(error, InvalidRepository) or (status is not None and 400 <= status < 500)
    if answered or _ANSWER.search(said.lower()):
        wanted = "an image of this engine, or one that a registry has"
        return BadInput(found, wanted=wanted, do=build or "docker image ls")
    wanted = "an image of this engine, or a registry that answers it"
    return LookupIncomplete(found, wanted=wanted, do=build or "the same again when it answers")


def _whose() -> str:
    return f"{machine.node()}:{os.getpid()}"


def _remove_left(client: docker.DockerClient) -> None:
    """Remove the containers of verifications on this machine that were killed before they could do it themselves."""
    for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        node, _, process = container.labels.get(LABEL, "").rpartition(":")
        if node == machine.node() and process.isdecimal() and not os.path.exists(f"/proc/{process}"):  # noqa: PTH110
            _remove(container)


@contextlib.contextmanager
def _container(
    client: docker.DockerClient, image: str, command: Sequence[str], arguments: Mapping[str, Any]
) -> Iterator[Container]:
    """Create a container; it is removed in the end, running or not."""
    labels = {**arguments.get("labels", {}), LABEL: _whose()}
    try:
        container = client.containers.create(image, list(command), **{**arguments, "labels": labels})
    except APIError as error:
        raise BadInput(
            f"the engine cannot make a container of this image: {error.explanation or error}",
            wanted="an image of this engine, and devices and folders of its host",
            do="docker info",
        ) from None
    try:
        yield container
    finally:
        _remove(container)


def _remove(container: Container) -> None:
    with contextlib.suppress(NotFound, APIError):
        container.remove(force=True, v=True)


def _put(container: Container, archive: bytes) -> None:
    try:
        container.put_archive("/", archive)
    except APIError as error:
        raise BadInput(
            f"check.py cannot be put into a container of this image: {error.explanation or error}",
            wanted="an image whose root directory can be written to",
        ) from None


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
    end = time.monotonic() + limit
    python, environment = _exec_environment(container, min(_EXEC_SECONDS, limit))
    timed_out = False
    try:
        container.wait(timeout=max(1.0, end - time.monotonic()))
    except (ReadTimeout, RequestConnectionError):
        timed_out = True
        with contextlib.suppress(APIError):
            container.kill()
    container.reload()
    return _Ended(timed_out, "", python, environment)


def _exec_environment(container: Container, limit: float) -> tuple[str, Mapping[str, str] | None]:
    """Return `python3` and the environment that `docker exec` gives; None where it did not say in time.

    The container may have ended before. What it runs is the image's: it may hang, or never stop writing.
    """
    said = bytearray()

    def read() -> None:
        with contextlib.suppress(APIError, OSError, ValueError, RequestConnectionError):
            for chunk in container.exec_run(["sh", "-c", _ENVIRONMENT_PROBE], stream=True, stderr=False).output:
                said.extend(chunk)
                if len(said) > _EXEC_BYTES:
                    return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(limit)
    python, mark, variables = bytes(said).decode(errors="replace").partition("\0")
    if not mark or not said.endswith(_CHUNK_END):
        return "", None
    return python.strip(), shown(dict(line.split("=", 1) for line in variables.split("\0") if "=" in line))


def _shown_entry(entry: str) -> str:
    """Return an entry of Env fit for a report: what may be a secret is hidden."""
    name, equals, value = entry.partition("=")
    return f"{name}={shown({name: value}).get(name, '(hidden)')}" if equals else entry


def _text_of(container: Container, path: str) -> str:
    """Return the text of a file in a container; empty where it is no file, or larger than any of ours."""
    try:
        content = file_in(container, path, most=_LARGEST)
    except APIError:  # NotFound is one
        return ""
    return (content or b"").decode(errors="replace")


def _log(container: Container) -> str:
    """Return the last lines that the container wrote."""
    try:
        return str(container.logs(tail=_LOG_LINES).decode(errors="replace")).strip()
    except APIError:
        return ""
