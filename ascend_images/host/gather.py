"""Gathering HostFacts: of this machine, and of the machine of a remote engine by a container."""

import docker
import msgspec
from docker.errors import DockerException, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.types import Mount

from ascend_images.errors import MissingTool
from ascend_images.host.connect import said
from ascend_images.host.containers import packed
from ascend_images.host.facts import HostFacts
from ascend_images.inside import host_facts
from ascend_images.program import program_files

# Where the program and the host's directories lie in the container of `remote`.
_PROGRAM = "/opt/ascend-images-probe"
_HOST = "/host"
_DIRECTORIES = ("/dev", "/etc", "/usr")

_TIME_LIMIT = 60


def local(root: str = "/") -> HostFacts:
    """Return the facts of this machine, or of a host for which the directory `root` stands."""
    return msgspec.convert(host_facts.gather(root), HostFacts)


def remote(client: docker.DockerClient, image: str) -> HostFacts:
    """Return the facts of an engine's machine, seen from a container of `image`, which needs a python3.

    The container gets that machine's /dev, /etc and /usr read-only, the driver's directory too where it lies elsewhere,
    and no network; it is removed whatever happens. npu-smi is not asked: it needs the devices, which the container
    does not have. Raises MissingTool when the container cannot start or its Python prints no facts.
    """
    facts = _probe(client, image, _DIRECTORIES)
    home = facts.install.get("driver_install_path_param", "").rstrip("/")
    if home.startswith("/") and not home.startswith(tuple(f"{directory}/" for directory in _DIRECTORIES)):
        facts = _probe(client, image, (*_DIRECTORIES, home), otherwise=facts)
    return msgspec.structs.replace(facts, root="/")


def _probe(
    client: docker.DockerClient, image: str, directories: tuple[str, ...], otherwise: HostFacts | None = None
) -> HostFacts:
    """Run the probe once; `otherwise` is what counts where a directory of the list cannot be mounted."""
    container: Container | None = None
    try:
        container = client.containers.create(
            image,
            entrypoint=["python3", "-m", "inside.host_facts"],
            command=["--root", _HOST, "--no-npu-smi"],
            working_dir=_PROGRAM,
            user="0",
            network_mode="none",
            mounts=[Mount(f"{_HOST}{path}", path, type="bind", read_only=True) for path in directories],
        )
        container.put_archive("/", packed(_PROGRAM, program_files()))
        container.start()
        code = container.wait(timeout=_TIME_LIMIT)["StatusCode"]
        out, err = (container.logs(stdout=out, stderr=not out) for out in (True, False))
        return _read(out, err.decode(errors="replace"), code, image)
    except ImageNotFound:
        raise MissingTool(
            f"the engine has no image {image} to look at its machine from",
            wanted="an image with a python3 on that engine",
            do=f"docker pull {image}",
        ) from None
    except (DockerException, OSError) as error:
        if otherwise is not None:
            return otherwise
        raise MissingTool(
            f"the engine's machine cannot be looked at from a container of {image}: {said(error)}",
            wanted="a container that starts and runs python3",
            do=f"docker run --rm --entrypoint python3 {image} --version",
        ) from None
    finally:
        if container is not None:
            _remove(container)


def _read(out: bytes, err: str, code: int, image: str) -> HostFacts:
    try:
        return msgspec.json.decode(out, type=HostFacts)
    except (msgspec.DecodeError, UnicodeDecodeError):
        last = (err.strip() or "no output").splitlines()[-1]
        raise MissingTool(
            f"a container of {image} printed no facts of its host (exit code {code}): {last}",
            wanted="an image with a python3, 3.9 or newer",
            do=f"docker run --rm --entrypoint python3 {image} --version",
        ) from None


def _remove(container: Container) -> None:
    try:
        container.remove(force=True, v=True)
    except NotFound:
        return
    except (DockerException, OSError) as error:
        raise MissingTool(
            f"the container {container.short_id} could not be removed: {said(error)}",
            wanted="no container left behind",
            do=f"docker rm --force {container.short_id}",
        ) from None
