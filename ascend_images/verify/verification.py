"""One image verified: its container observed, every check asked, one report."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import docker

from ascend_images.inside.answers import Answer
from ascend_images.inside.lock import Lock, parse_lock
from ascend_images.inside.pep440 import pep440
from ascend_images.verify.container import Observed, inner_path, observe
from ascend_images.verify.outside import ask
from ascend_images.verify.report import Report, Result


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
    to a container (see `ascend_images.host`); `host` goes into the report and to the checks of the host, and `judge`
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
    require_npu: bool = False
    model: str = ""
    host: Mapping[str, Any] = field(default_factory=dict)
    judge: Callable[[str], Mapping[str, str]] | None = None
    import_limit: float = 300.0
    limit: float = 3600.0


def verify(client: docker.DockerClient, job: Job) -> Report:
    """Verify one image; raises BadInput or MissingTool where there is no container to look at."""
    began = time.monotonic()
    seen = observe(
        client,
        job.reference,
        platform=job.platform,
        arguments=job.arguments,
        words=_words(job),
        files=_files(job),
        limit=job.limit,
    )
    facts, image, lock = _given(job, seen)
    answers = ask(facts, image, lock, pep440())
    return Report(
        name=job.name,
        image=job.reference,
        digest=seen.digest,
        platform=seen.platform,
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


def verdict(results: tuple[Result, ...]) -> Answer:
    """Return what a check says as a whole: its worst answer, and `not run` only where nothing else is said."""
    said = {result.answer for result in results}
    for answer in (Answer.FAIL, Answer.UNKNOWN, Answer.PASS):
        if answer.value in said:
            return answer
    return Answer.NOT_RUN


def _words(job: Job) -> list[str]:
    """Return the words that check.py gets besides those of every verification."""
    words = ["--time-limit", str(job.import_limit)]
    if job.expectation is not None:
        words += ["--image-json", inner_path("pins/image.json"), "--lock", inner_path("pins/lock.txt")]
    if job.asked:
        words += ["--npu", "--devices", ",".join(str(number) for number in job.asked)]
    if job.require_npu:
        words += ["--require-npu"]
    if job.model:
        words += ["--model", job.model]
    return words


def _files(job: Job) -> dict[str, bytes]:
    if job.expectation is None:
        return {}
    return {"pins/image.json": job.expectation.image.encode(), "pins/lock.txt": job.expectation.lock.encode()}


def _given(job: Job, seen: Observed) -> tuple[dict[str, Any], dict[str, Any], Lock | None]:
    """Return the facts of inside and outside, and the image.json and lock that they are compared with."""
    document = dict(seen.document or {})
    own_image, own_lock = _json(str(document.get("image", ""))), _lock(str(document.get("lock", "")))
    facts: dict[str, Any] = dict(document.get("facts") or {})
    facts["container"] = {
        "reference": seen.reference,
        "answered": seen.document is not None,
        "exit": seen.exit,
        "killed": seen.killed,
        "timed_out": seen.timed_out,
        "output": seen.output,
        "env": list(seen.environment),
        "asked": list(job.asked),
        "npu_required": job.require_npu,
        "siblings": dict(job.siblings),
    }
    facts["host"] = dict(job.host)
    facts["own"] = {
        "image": own_image,
        "lock": own_lock.packages if own_lock else None,
        "compared": job.expectation is not None,
    }
    release = _release(_json(job.expectation.image) if job.expectation else own_image, facts)
    if release and job.judge is not None:
        facts["host"]["judgement"] = {"cann": release, **job.judge(release)}
    if "environment" in facts and seen.exec_environment is not None:
        environment = facts["environment"]
        environment["exec"] = dict(seen.exec_environment)
        environment["python3"]["exec"] = seen.exec_python
    if job.expectation is None:
        return facts, own_image, own_lock
    return facts, _json(job.expectation.image), _lock(job.expectation.lock)


def _release(image: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return the CANN release of an image: by its pins, else by its own files; empty where neither tells it."""
    seen = [fact["version"] for fact in facts.get("cann", {}).get("toolkit", []) if fact["version"]]
    return str(image.get("cann") or (seen[0] if seen else ""))


def _json(text: str) -> dict[str, Any]:
    """Read an object; an image may hold anything under the name of image.json."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) and value.get("schema") == 1 else {}


def _lock(text: str) -> Lock | None:
    try:
        return parse_lock(text) if text else None
    except ValueError:
        return None
