"""Checks: symbol versions of the operating system's libraries."""

from __future__ import annotations

from ..answers import Given, Said, check, failed, not_run
from ..words import few, numbers_of


@check(
    "elf-needs",
    "Does the operating system have every symbol version that the packages' libraries ask for?",
    "Take a version of the package that was built for an older system, or a newer operating system for the image.",
)
def check_elf_needs(given: Given) -> list[Said]:
    """A library that was built on a newer system asks for a GLIBCXX that this one lacks (FlagTree#376).

    Told from ELF headers, nothing is imported.
    """
    if not any(given.facts["elf"]["needs"].values()):
        return [not_run("", "no library of a package asks for any")]
    answers = []
    for library, needs in sorted(given.facts["elf"]["needs"].items()):
        offer = given.facts["elf"]["offers"][library]
        if offer is None:
            if needs:
                example = next(iter(sorted(needs.items())))[1]
                answers.append(
                    failed(
                        library,
                        f"{library} is not in the image; {few(example['files'])} need it",
                        library,
                        "install it with the operating system's packages",
                    )
                )
            continue
        lacking = {
            version: asked
            for version, asked in needs.items()
            if version not in offer and not version.endswith("_PRIVATE")
        }
        files: dict[str, list[str]] = {}
        for version, asked in lacking.items():
            for file in asked["files"]:
                files.setdefault(file, []).append(version)
        for file, versions in sorted(files.items()):
            prefix = versions[0].rsplit("_", 1)[0]
            highest = max(
                (version for version in offer if version.startswith(f"{prefix}_")), key=numbers_of, default="none"
            )
            answers.append(
                failed(
                    file,
                    f"asks for {', '.join(sorted(versions, key=numbers_of))} of {library}",
                    f"at most {highest}",
                    "take a version of the package that was built for an older system, or a newer operating system",
                )
            )
    return answers
