"""Signatures of images by their digests, with sigstore's `cosign` and a key; no transparency log is written or asked.

Tried with cosign 2.5. Its signatures lie under tags beside the image, `sha256-<hex>.sig` (its SIGNATURE_SPEC.md).
"""

import base64
import binascii
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ascend_images.digest import digest_of
from ascend_images.errors import AscendImagesError, BadInput, LookupIncomplete, MissingTool, PublishRefused, said
from ascend_images.images.engine import Answer, Run
from ascend_images.images.publish import is_loopback
from ascend_images.scratch import private_folder

_PROGRAM = "cosign"
_WANTED = "sigstore's cosign 2, which makes and reads signatures"
_INSTALL = "install it: apt-get install cosign (Debian 13 and newer), or from github.com/sigstore/cosign"
# A key service or a registry may be slow; cosign itself gives up after three minutes.
_SECONDS = 300
# What cosign ends with where it found no signature, or none by the key (its exit_codes.go).
_NO_SIGNATURE, _OTHER_KEY = 10, 12
_ERROR = re.compile(r"^Error: (.*)$", re.MULTILINE)
_NETWORK = re.compile(
    r"dial tcp|connection re(?:fused|set)|no such host|i/o timeout|TLS handshake|context deadline exceeded"
    r"|unexpected EOF|TOOMANYREQUESTS|\b(?:429|50[0234])\b"
)
_PASSWORD = re.compile(r"Enter password for private key|decryption failed|inappropriate ioctl")
# Keys that are no files: of key services, of Kubernetes, in the environment (`cosign sign --help`).
_ELSEWHERE = re.compile(r"[a-z0-9]+://.|pkcs11:.")


def run_cosign(command: Sequence[str]) -> Answer:
    """Run cosign and return what it gave; it gets this process's environment and asks nothing.

    Raises MissingTool where it does not start, LookupIncomplete where it does not come back.
    """
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except OSError as error:
        raise MissingTool(f"{command[0]} does not start: {error.strerror}", wanted=_WANTED, do=_INSTALL) from None
    except subprocess.TimeoutExpired:
        raise LookupIncomplete(
            f"`{_PROGRAM} {command[1]}` did not come back within {_SECONDS} s", wanted="a registry that answers"
        ) from None
    return Answer(done.returncode, done.stdout, done.stderr)


def require_key(key: str) -> str:
    """Return a key as cosign takes it: a file's path, or the address of one that lies elsewhere; raises BadInput."""
    if _ELSEWHERE.match(key):
        return key
    path = Path(key)
    if not path.is_file():
        raise BadInput(
            f"{key}: no such file" if key else "no key is named",
            wanted="a key of cosign's: a file, or an address such as env://NAME or awskms://…",
            do="cosign generate-key-pair",
        )
    return str(path)


class Cosign:
    """The cosign program.

    Everything raises BadInput for a key that cannot be used, LookupIncomplete where a registry or key service does not
    answer, PublishRefused for whatever else fails.
    """

    def __init__(self, program: str = "", run: Run = run_cosign) -> None:
        """Find the program on PATH, unless it is given; raises MissingTool where it is not there."""
        found = program or shutil.which(_PROGRAM)
        if not found:
            raise MissingTool(f"no {_PROGRAM} command on PATH", wanted=_WANTED, do=_INSTALL)
        self._program = found
        self._run = run

    def public_key(self, key: str) -> str:
        """Return the public part of a key, PEM."""
        answer = self._run([self._program, "public-key", f"--key={key}"])
        if answer.code != 0:
            raise self._failure(answer, "the key cannot be read", BadInput)
        return answer.out

    def sign(self, reference: str, key: str) -> None:
        """Sign an image by its digest; cosign adds no second signature by the same key."""
        self._write(["sign", "--yes", "--tlog-upload=false", f"--key={key}"], reference)

    def attest(self, reference: str, key: str, predicate: Path, kind: str) -> None:
        """Put a file beside an image as a signed in-toto statement, in place of an earlier one of its kind."""
        about = ["--replace", f"--type={kind}", f"--predicate={predicate}"]
        self._write(["attest", "--yes", "--tlog-upload=false", *about, f"--key={key}"], reference)

    def why_not(self, reference: str, public: Path | str) -> str:
        """Return why an image does not count as signed by a public key; empty where it is signed."""
        command = ["verify", "--insecure-ignore-tlog=true", f"--key={public}"]
        answer = self._run([self._program, *command, *_options(reference), reference])
        known = {0: "", _NO_SIGNATURE: "no signature", _OTHER_KEY: "no signature by this key"}
        if answer.code not in known:
            raise self._failure(answer, f"{reference} cannot be verified", PublishRefused)
        return known[answer.code]

    def _write(self, command: Sequence[str], reference: str) -> None:
        _require_digest(reference)
        answer = self._run([self._program, *command, *_options(reference), reference])
        if answer.code != 0:
            raise self._failure(answer, f"{reference} cannot be signed", PublishRefused)

    @staticmethod
    def _failure(answer: Answer, what: str, kind: type[AscendImagesError]) -> AscendImagesError:
        told = _ERROR.search(answer.err)
        text = f"{what}: {said(told[1]) if told else f'{_PROGRAM} ended with {answer.code}'}"
        if _PASSWORD.search(answer.err):
            return BadInput(text, wanted="the key's password in the environment", do="set COSIGN_PASSWORD")
        if _NETWORK.search(answer.err):
            return LookupIncomplete(text, wanted="an answer", do="the same command again, later")
        if "public key" in text or "reading key" in text:
            return BadInput(text, wanted="a key that cosign can read")
        return kind(text, wanted="a login that may write there" if kind is PublishRefused else "a key of cosign's")


def sign_all(cosign: Cosign, references: Sequence[str], key: str) -> str:
    """Sign what is not signed by a key yet, and verify all; return the key's fingerprint.

    Raises PublishRefused for a signature that does not verify after it was made.
    """
    text = cosign.public_key(key)
    with private_folder() as folder:
        public = folder / "cosign.pub"
        public.write_text(text, encoding="utf-8")
        for reference in references:
            if cosign.why_not(reference, public):
                cosign.sign(reference, key)
        require_signed(cosign, references, str(public))
    return fingerprint(text)


def require_signed(cosign: Cosign, references: Sequence[str], public: str) -> None:
    """Raise PublishRefused, naming each, for images that are not signed by a public key."""
    reasons = {reference: cosign.why_not(reference, public) for reference in references}
    missing = [f"{reference}: {why}" for reference, why in reasons.items() if why]
    if missing:
        raise PublishRefused("\n".join(missing), wanted="a signature by that key on every digest")


def fingerprint(pem: str) -> str:
    """Return `sha256:…` over a public key (its DER form), by which it is known; raises BadInput for what is no key."""
    body = "".join(line for line in pem.split("\n") if not line.startswith("-----"))
    try:
        der = base64.b64decode(body.strip(), validate=True)
    except binascii.Error:
        der = b""
    if not der:
        raise BadInput("what cosign gave is no public key", wanted="PEM")
    return digest_of(der)


def _options(reference: str) -> list[str]:
    """Return what cosign needs to be told of a registry: plain http on loopback, as for Docker, and nowhere else."""
    return ["--allow-http-registry=true", "--allow-insecure-registry=true"] if is_loopback(reference) else []


def _require_digest(reference: str) -> None:
    if "@sha256:" not in reference:
        raise BadInput(f"{reference} names an image by a tag, which may move", wanted="NAME@sha256:…")
