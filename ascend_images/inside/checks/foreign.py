"""Checks: what Python or the loader would take though nothing that is pinned brought it."""

from __future__ import annotations

from ..answers import NO_PINS, NOT_LIVE, NOTHING_INSTALLED, Answer, Given, Said, check, failed, passed, unknown
from ..words import INSTALL_ROOT, SYSTEM_PATH, canonical, comes_from_host, entries, few, release_key, releases_named
from .environment import blamed_variables, dead_entries, in_order
from .ours import ours
from .releases import releases_of


@check(
    "unowned-files",
    "Does everything that Python would load belong to a distribution or to a pinned source?",
    "Find the step that wrote the file: what an image needs is installed as a package, so that its RECORD has it.",
)
def check_unowned_files(given: Given) -> list[Said]:
    """No list of packages shows what was copied into site-packages by hand, or installed for a user.

    A sitecustomize.py or a .pth file runs in every Python, and a folder of root's (`pip install --user`) comes before
    site-packages. In an image without pins that is told and not judged.
    """
    facts, answers = given.facts["unowned"], []
    pinned = bool(given.image or given.lock)
    then = "see which step wrote it; install it as a package instead, or leave it out"
    if facts["user_site"] and not _blamed_there(given):
        found = f"a user's own packages come before site-packages: {few(facts['user_site'])}"
        answers.append(failed(facts["user_site"][0].rpartition("/")[0], found, "packages in site-packages only", then))
    for path in facts["start"]:
        found = f"{path}: every Python runs it at its start, and no distribution has it"
        answers.append(failed(path.rpartition("/")[2], found, "what the RECORD of a distribution has", then))
    for path in facts["shadows"]:
        found = f"{path}: no distribution has it, and it may be imported in place of one's module of that name"
        answers.append(failed(path.rpartition("/")[2], found, "what the RECORD of a distribution has", then))
    known, blamed = ours(given), given.blamed("duplicate-packages", "damaged-packages", "shared-files")
    for extra in facts["files"]:
        found = f"{extra['count']} modules of {extra['owner']} are in no RECORD: {few(extra['files'])}"
        if extra["owner"] in known:
            if extra["owner"] not in blamed:
                answers.append(failed(extra["owner"], found, "what the RECORD of a distribution has", then))
        else:
            answers.append(unknown(extra["owner"], f"{found}; it is the base image's own"))
    if not pinned:
        answers = [unknown(said.subject, said.found) if said.answer is Answer.FAIL else said for said in answers]
    return answers or ([passed()] if given.facts["distributions"] else [NOTHING_INSTALLED])


def _blamed_there(given: Given) -> bool:
    """Tell whether what lies in a user's own folder is behind a finding of the packages' versions already."""
    blamed = given.blamed("duplicate-packages", "torch-family", "pinned-packages", "locked-packages", "extra-packages")
    names = {
        canonical(facts["name"]) for facts in given.facts["distributions"] if "/.local/lib/" in f"{facts['location']}/"
    }
    return bool(names & blamed)


#: Variables by which Python or the loader takes other files than the image's, or runs something before a program does.
_TAKE_OTHERS = tuple(
    """
    LD_PRELOAD LD_AUDIT LD_PROFILE LD_DEBUG LD_ORIGIN_PATH GLIBC_TUNABLES GCONV_PATH BASH_ENV PYTHONSTARTUP PYTHONHOME
    PYTHONUSERBASE PYTHONNOUSERSITE PYTHONPLATLIBDIR PYTHONEXECUTABLE PYTHONCASEOK PYTHONSAFEPATH PYTHONINSPECT
    PYTHONBREAKPOINT PYTHONOPTIMIZE PYTHONPYCACHEPREFIX
    """.split()
)
#: Lists in which an entry of somebody else's comes before what is installed, wherever in the list it stands.
_BEFORE_ALL = ("PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD")
#: The processes that are looked at, with what stands behind a variable's name.
_PROCESSES = {"process": "", "login": " of a login shell", "exec": " of docker exec"}


@check(
    "foreign-environment",
    "Is nothing in the environment that makes Python or the loader take other files than the pinned ones?",
    "Take the entry or the variable out of ENV and out of what a shell reads at its start, or pin it in versions.toml.",
)
def check_foreign_environment(given: Given) -> list[Said]:
    """A folder in PYTHONPATH comes before site-packages, one in LD_LIBRARY_PATH before every system library.

    What the pins, CANN's scripts and the host's driver put there is expected.
    """
    if not given.facts["live"]:
        return [NOT_LIVE]
    if not given.image:
        return [NO_PINS]
    answers, seen = [], set[tuple[str, str]]()
    for label, where in _PROCESSES.items():
        for name, value in sorted((given.facts["environment"].get(label) or {}).items()):
            # Where what is pinned is lacking, that is the finding of `shells`.
            pinned = [entry for entry in _pinned_entries(given, name) if entry]
            whole = label == "process" or not in_order(given, pinned, entries(value))[0]
            for entry in foreign_entries(given, name, value) if whole else []:
                if (name, entry) not in seen:
                    seen.add((name, entry))
                    found = f"{name} has {entry}, which comes before what is installed"
                    then = f"take {entry} out of {name}, or pin it in versions.toml"
                    answers.append(failed(f"{name}{where}", found, "what the pins and CANN's scripts put there", then))
            if is_foreign(given, name, value) and (name, "") not in seen:
                seen.add((name, ""))
                found = f"{name}={value}: it changes what Python or the loader takes"
                then = f"take {name} out of ENV and of the shells' start-up files, or pin it in versions.toml"
                answers.append(failed(f"{name}{where}", found, "not set: the pins do not name it", then))
    for library in given.facts["preload"]:
        found = f"it loads {library} into every program"
        answers.append(failed("/etc/ld.so.preload", found, "no such file", "remove it"))
    return answers


def pinned_environment(given: Given) -> dict[str, str]:
    """Return the variables of the pins."""
    variables: dict[str, str] = given.image.get("env", {})
    return variables


def is_foreign(given: Given, name: str, value: str) -> bool:
    """Tell whether a variable changes what is loaded, is set, and neither pins nor CANN's scripts set it."""
    set_env = given.facts["environment"]["set_env"] or {"lists": {}, "values": {}}
    ours_too = name in pinned_environment(given) or name in set_env["values"] or name in set_env["lists"]
    return name in _TAKE_OTHERS and bool(value) and not ours_too


def foreign_entries(given: Given, name: str, value: str) -> list[str]:
    """Return the entries of a list that nothing pinned put there, where they come before what is pinned.

    What does not exist, what leads to another CANN release and what a source is imported from have other findings.
    """
    if name not in (*_BEFORE_ALL, "PATH") or (name == "LD_PRELOAD" and name not in pinned_environment(given)):
        return []
    found = [entry for entry in entries(value) if entry]
    expected = {given.real(entry) for entry in _expected(given, name)}
    if name == "PATH":
        last = max((index for index, entry in enumerate(found) if given.real(entry) in expected), default=-1)
        found = found[:last]
        expected |= {given.real(entry) for entry in SYSTEM_PATH.split(":")}
    dead = {entry for named in dead_entries(given).values() for _, entry in named}
    elsewhere = [said.found for _, said in given.failures("source-origin")]
    return [
        entry
        for entry in dict.fromkeys(found)
        if given.real(entry) not in expected
        and not comes_from_host(entry)
        and entry not in dead
        and name not in blamed_variables(given)
        and not releases_of(given, [entry])
        and not _of_release(given, entry)
        and not any(f"{entry.rstrip('/')}/" in text for text in elsewhere)
    ]


def _expected(given: Given, name: str) -> list[str]:
    """Return the entries that the pins, the set_env scripts, the image's Python and its sources put into a list."""
    home = given.image.get("python_home", "")
    set_env = given.facts["environment"]["set_env"] or {"lists": {}}
    own = {"PATH": [f"{home}/bin"], "LD_LIBRARY_PATH": [f"{home}/lib"]}.get(name, []) if home else []
    paths = [source["path"] for source in given.sources if source.get("path") and source.get("install") != "none"]
    return [
        *_pinned_entries(given, name),
        *set_env["lists"].get(name, []),
        *own,
        *(paths if name == "PYTHONPATH" else []),
    ]


def _pinned_entries(given: Given, name: str) -> list[str]:
    """Return the entries that the pins put into a list."""
    return entries(str(pinned_environment(given).get(name, "")).replace("{kernel_arch}", given.facts["machine"]))


def _of_release(given: Given, entry: str) -> bool:
    """Tell whether a path lies in the pinned CANN release."""
    named = releases_named(given.real(entry)) if entry.startswith(f"{INSTALL_ROOT}/") else []
    return bool(named) and all(release_key(name) == release_key(given.image.get("cann", "")) for name in named)
