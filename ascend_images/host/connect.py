"""A Docker Engine by way of the SDK: found as the docker client finds it, or named; its errors in plain words."""

import contextlib
import os
from collections.abc import Iterator

import docker
from docker.errors import APIError, DockerException

from ascend_images.errors import MissingTool
from ascend_images.inside.words import last_line

#: An engine on this machine answers in well under a second; one behind ssh may need to log in first.
_TIMEOUT_SECONDS = 120


def connect(host: str = "") -> docker.DockerClient:
    """Return a client of the engine at `host` (ssh://user@machine, unix:///…, tcp://…); of docker's own where empty.

    As for the docker command, DOCKER_HOST names the engine, else the current context does. ssh goes through the
    machine's ssh client with its configuration and keys. Raises MissingTool when no engine answers.
    """
    name = host or os.environ.get("DOCKER_HOST", "")
    with plainly(name):
        if host:
            client = docker.DockerClient(base_url=host, timeout=_TIMEOUT_SECONDS, use_ssh_client=True)
        else:
            client = docker.from_env(timeout=_TIMEOUT_SECONDS, use_ssh_client=True)
        client.ping()
        return client


def is_local(client: docker.DockerClient) -> bool:
    """Return whether an engine is reached through a socket of this machine, so that this machine is its host."""
    return str(client.api.base_url) == "http+docker://localhost"  # what the SDK makes of unix://


@contextlib.contextmanager
def plainly(host: str = "") -> Iterator[None]:
    """Turn an engine that does not answer into MissingTool; what it answers to a question stays as it is."""
    try:
        yield
    except APIError:
        raise
    except (DockerException, OSError) as error:
        at = f" at {host}" if host else ""
        raise MissingTool(
            f"no Docker Engine answers{at}: {said(error)}",
            wanted="a Docker Engine that this user may talk to",
            do="docker version, or name another engine: --host ssh://user@machine",
        ) from None


def said(error: Exception) -> str:
    """Return what an engine, or the way to it, said last; the name of the error where it said nothing."""
    text = (error.explanation if isinstance(error, APIError) else "") or str(error)
    return last_line(text) or type(error).__name__
