"""What tests of whole builds share: the command line as a user types it, and what becomes of it."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


def invoke(
    *words: str, folder: Path = ROOT, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Type `invoke WORDS` in a folder that holds a project; `environment` comes on top of the caller's own."""
    command = [sys.executable, "-m", "invoke", *words]
    own = {**os.environ, **(environment or {})}
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True)


def machine_ca() -> Path:
    """Return the certificates that this machine trusts, which may be more than a fresh system's."""
    return Path(os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt")


def docker(*words: str) -> str:
    """Run docker and return what it prints; a failure shows what it says."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"docker {' '.join(words)}: {done.stderr}"
    return done.stdout


def run_in(image: str, command: str, *options: str) -> str:
    """Run a shell command in a container without network or entry point; return what it prints."""
    words: Sequence[str] = ("run", "--rm", "--network=none", "--entrypoint=/bin/bash", *options, image, "-c", command)
    return docker(*words).strip()
