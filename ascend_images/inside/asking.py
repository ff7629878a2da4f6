"""Asking every check, and telling the answers: a report for programs, a table for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .answers import Answer, Given, Said, passed, whole
from .checks import CHECKS
from .lock import Lock
from .pep440 import Pep440
from .words import Facts, count, visible


def ask_all(facts: Facts, image: Mapping[str, Any], lock: Lock | None, pep: Pep440 | None) -> dict[str, list[Said]]:
    """Ask every check in order; a check that finds nothing says `pass`."""
    answers: dict[str, list[Said]] = {}
    given = Given(facts, image, lock, pep, answers)
    for one in CHECKS:
        answers[one.id] = one.ask(given) or [passed()]
    return answers


def report(image: Mapping[str, Any], facts: Facts, answers: Mapping[str, Sequence[Said]]) -> str:
    """Return the report as JSON: the same text for the same image, without times or names of hosts."""
    results = [
        {
            "check": name,
            "answer": said.answer.value,
            "subject": said.subject,
            "found": said.found,
            "wanted": said.wanted,
            "next": said.next,
        }
        for name, list_of in answers.items()
        for said in list_of
    ]
    document = {"schema": 1, "variant": image.get("variant", ""), "results": results, "facts": facts}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


#: Raised when whoever judges the facts elsewhere would misread them.
FACTS_SCHEMA = 1


def facts_document(facts: Facts, image: str, lock: str) -> str:
    """Return the facts as JSON, with the texts of image.json and lock.txt in the image; empty: it has none."""
    document = {"schema": FACTS_SCHEMA, "facts": facts, "image": image, "lock": lock}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def table(image: Mapping[str, Any], answers: Mapping[str, Sequence[Said]]) -> str:
    """Return the answers for people: failures first and whole, what is not known after them, passes as names.

    What is counted are checks, by what each says as a whole.
    """
    everything = [(name, said) for name, list_of in answers.items() for said in list_of]
    by_answer = {answer: [pair for pair in everything if pair[1].answer is answer] for answer in Answer}
    lines = []
    for name, said in by_answer[Answer.FAIL]:
        lines.append(f"FAIL     {name}{f': {said.subject}' if said.subject else ''}")
        lines += [f"         found:  {said.found}", f"         wanted: {said.wanted}", f"         next:   {said.next}"]
    for answer in (Answer.UNKNOWN, Answer.NOT_RUN):
        # Many checks may say the same: that there are no pins, that there is no driver.
        alike: dict[tuple[str, str], dict[str, list[str]]] = {}
        for name, said in by_answer[answer]:
            alike.setdefault((said.found, said.next), {}).setdefault(name, []).extend(filter(None, [said.subject]))
        for (found, then), names in alike.items():
            about = ", ".join(
                f"{name} ({', '.join(subjects)})" if subjects else name for name, subjects in names.items()
            )
            lines.append(f"{answer.value:<8} {about}: {found}{f' ({then})' if then else ''}")
    verdicts = {name: whole(said.answer for said in list_of) for name, list_of in answers.items()}
    good = [name for name, verdict in verdicts.items() if verdict is Answer.PASS]
    if good:
        lines.append(f"pass     {', '.join(good)}")
    counted = Counter(verdicts.values())
    counts = ", ".join(f"{counted[answer]} {answer.value}" for answer in Answer)
    title = image.get("variant") or "this image"
    return visible("\n".join([*lines, "", f"{title}: {count(len(verdicts), 'check')}: {counts}"])) + "\n"
