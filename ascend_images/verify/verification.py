"""One image verified: its container observed, every check asked, one report."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import docker

from ascend_images.errors import AscendImagesError, BadInput, LookupIncomplete
from ascend_images.inside.answers import Said
from ascend_images.inside.image import read_image
from ascend_images.inside.lock import Lock, parse_lock
from ascend_images.inside.pep440 import pep440
from ascend_images.verify.container import Files, Inner, Observed, Own, observe
from ascend_images.verify.outside import ask
from ascend_images.verify.report import Report, Result

#: Where the pins lie beside check.py.
_PINS, _LOCK = "pins/image.json", "pins/lock.txt"


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What an image is compared with: image.json and lock.txt as texts, and the digest of the pins behind them."""

    image: str
    lock: str
    pins: str


@dataclass(frozen=True, kw_only=True)
class Job:
    """One image to verify.

    `name` is the variant's, or the reference where there is none; `siblings` are the images of the same stack for other
    chips, by chip as CANN's tags write it; without an `expectation` the image is compared with
    what it says of itself. `asked` are the davinci numbers of the NPUs that it is given and `arguments` what gives them
    to a container (see `ascend_images.host`); `refused` says why it is given none that were
    asked for, `build` what to type for an image that nobody has. `host` goes into the report, and `judge`
    tells them whether its driver goes with a CANN release. `import_limit` is the time in seconds that one import may
    take, `limit` that of everything.
    """

    name: str
    reference: str
    platform: str = ""
    expectation: Expectation | None = None
    asked: tuple[int, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    siblings: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] | None = None
    require_npu: bool = False
    model: str = ""
    build: str = ""
    host: Mapping[str, Any] = field(default_factory=dict)
    judge: Callable[[str], Mapping[str, str]] | None = None
    import_limit: float = 300.0
    limit: float = 3600.0


def verify(client: docker.DockerClient, job: Job) -> Report:
    """Verify one image; raises MissingTool where the engine does not answer."""
    began = time.monotonic()
    seen, failure = _look(client, job)
    facts, answers = _asked(job, seen, failure)
    return Report(
        name=job.name,
        image=job.reference,
        digest=seen.digest if seen else "",
        platform=seen.platform if seen else job.platform,
        pins=job.expectation.pins if job.expectation else "",
        when=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=round(time.monotonic() - began, 2),
        host=dict(job.host),
        results=tuple(
            Result(name, said.answer.value, said.subject, said.found, said.wanted, said.next)
            for name, list_of in answers.items()
            for said in list_of
        ),
        facts=facts,
    )


def _asked(
    job: Job, seen: Observed | None, failure: AscendImagesError | None
) -> tuple[dict[str, Any], dict[str, list[Said]]]:
    """Return the facts and what every check says of them.

    The program that wrote the facts ran in the image, whose Python may have made anything of them.
    """
    try:
        facts, image, lock = _given(job, seen, failure, document_of(seen.document if seen else ""))
        return facts, ask(facts, image, lock, pep440())
    except Exception as error:
        odd = BadInput(
            f"what its check.py wrote are no facts: {type(error).__name__}: {error}",
            wanted="a python3 that runs the program it is given",
            do=f"docker run --rm {job.reference} python3 --version",
        )
        facts, image, lock = _given(job, None, failure or odd, {})
        return facts, ask(facts, image, lock, pep440())


def _look(client: docker.DockerClient, job: Job) -> tuple[Observed | None, AscendImagesError | None]:
    """Return what a container of the image showed, or why there was none."""
    try:
        seen = observe(
            client,
            job.reference,
            Files(words=lambda inner: _words(job, inner), beside=lambda own: _files(job, own)),
            platform=job.platform,
            arguments=job.arguments,
            limit=job.limit,
            build=job.build,
        )
    except (BadInput, LookupIncomplete) as error:
        return None, error
    return seen, None


def _words(job: Job, inner: Inner) -> list[str]:
    """Return the words that check.py gets besides those of every verification."""
    words = ["--time-limit", str(job.import_limit)]
    if job.expectation is not None:
        words += ["--image-json", inner.path(_PINS), "--lock", inner.path(_LOCK)]
    if job.asked:
        words += ["--npu", "--devices", ",".join(str(number) for number in job.asked)]
    if job.require_npu:
        words += ["--require-npu"]
    if job.model:
        words += ["--model", job.model]
    return words


def _files(job: Job, own: Own) -> dict[str, bytes]:
    """Return the pins that check.py looks for: the image's own, where it has some that can be read."""
    if job.expectation is None:
        return {}
    pins = _pins(job, own)
    return {_PINS: pins.image.encode(), _LOCK: pins.lock.encode()}


def _pins(job: Job, own: Own) -> Own:
    """Return the pins that an image is compared with: its own, where it has some that can be read."""
    if job.expectation is None:
        return own
    return Own(
        own.image if _json(own.image) else job.expectation.image, own.lock if _lock(own.lock) else job.expectation.lock
    )


def _given(
    job: Job, seen: Observed | None, failure: AscendImagesError | None, document: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], Lock | None]:
    """Return the facts of inside and outside, and the image.json and lock that they are compared with.

    An image that has pins of its own is compared with those; that they are not the ones of versions.toml is one finding
    of its own, and not one for each pin.
    """
    own = seen.own if seen else Own("", "")
    own_image, own_lock = _json(own.image), _lock(own.lock)
    wanted = job.expectation
    pins = _pins(job, own)
    image, lock = _json(pins.image), _lock(pins.lock)
    facts: dict[str, Any] = dict(document.get("facts") or {})
    facts["container"] = _container_facts(job, seen, failure, answered="distributions" in facts)
    facts["host"] = {"devices": list(job.host.get("devices", ())), "refused": job.refused, "judgement": None}
    facts["own"] = {
        "image": own_image,
        "lock": own_lock.packages if own_lock else None,
        "wanted_image": _json(wanted.image) if wanted else None,
        "wanted_lock": wanted_lock.packages if wanted and (wanted_lock := _lock(wanted.lock)) else None,
    }
    release = _release(image, facts)
    if release and job.judge is not None:
        facts["host"]["judgement"] = {"cann": release, **job.judge(release)}
    if seen and "environment" in facts and seen.exec_environment is not None:
        facts["environment"]["exec"] = dict(seen.exec_environment)
        facts["environment"]["python3"]["exec"] = seen.exec_python
    return facts, image, lock


def _container_facts(
    job: Job, seen: Observed | None, failure: AscendImagesError | None, *, answered: bool
) -> dict[str, Any]:
    """Return what was seen of the container from outside; `failure` says why there was none."""
    facts: dict[str, Any] = {
        "reference": job.reference,
        "answered": answered,
        "failure": {"found": failure.found, "wanted": failure.wanted, "next": failure.do} if failure else None,
        "asked": list(job.asked),
        "npu_required": job.require_npu,
        "siblings": dict(job.siblings),
    }
    if seen is not None:
        facts |= {
            "exit": seen.exit,
            "killed": seen.killed,
            "timed_out": seen.timed_out,
            "output": seen.output,
            "env": list(seen.environment),
        }
    return facts


def _release(image: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return the CANN release of an image: by its pins, else by its own files; empty where neither tells it."""
    seen = [fact["version"] for fact in facts.get("cann", {}).get("toolkit", []) if fact["version"]]
    return str(image.get("cann") or (seen[0] if seen else ""))


def document_of(text: str) -> dict[str, Any]:
    """Read what check.py wrote, or whatever pretends to be that; an empty object where it cannot be used."""
    try:
        value = json.loads(text or "{}")
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate fits into no report
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _json(text: str) -> dict[str, Any]:
    """Read an object; an image may hold anything under the name of image.json."""
    try:
        return read_image(text)
    except ValueError:
        return {}


def _lock(text: str) -> Lock | None:
    try:
        return parse_lock(text) if text else None
    except (ValueError, RecursionError):
        return None
