"""Facts: where modules come from and what imports, each in a process of its own."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..process import Ran, run
from ..words import MARK, Facts, canonical, entries, json_object, last_line, marked, without_secrets

_ORIGIN_PROBE = """
import importlib.util, json, sys
answers = {}
for name in sys.argv[2:]:
    try:
        spec = importlib.util.find_spec(name)
        answers[name] = {
            "origin": (spec.origin or "") if spec else "",
            "namespace": sorted(spec.submodule_search_locations) if spec and spec.origin is None else [],
            "error": "" if spec else "no module of this name",
        }
    except BaseException as error:
        answers[name] = {"origin": "", "namespace": [], "error": "{}: {}".format(type(error).__name__, error)}
print("\\n" + sys.argv[1] + json.dumps(answers))
"""

# Where a package has no bytecode, as in images that are built without, each process would compile all of it again: what
# one compiles is kept for the others outside of the image. Where it has, it is read as everybody reads it.
_BYTECODE = """
import importlib, os, sys
name = sys.argv[1]
parts = name.split(".")
if not any(os.path.isdir(os.path.join(place, parts[0], "__pycache__")) for place in sys.path):
    sys.pycache_prefix, sys.dont_write_bytecode = sys.argv[2], False
"""
_IMPORT = """
for length in range(len(parts), 0, -1):
    module = ".".join(parts[:length])
    try:
        found = importlib.import_module(module)
        break
    except ModuleNotFoundError as error:
        # The last part may be a name in the module before it; any other module that is missing is a failure.
        if error.name != module or length == 1:
            raise
for part in parts[length:]:
    found = getattr(found, part)
"""

# Between those two: what it asks of the rest of the image. Python tells of files that are opened, directories
# that are listed, libraries that are loaded and programs that are started; asking whether something is there is told by
# what stands in for os.stat and its like, and an importer in front of all others is asked for each module. What was
# imported when Python started counts as asked for. Nobody tells of what a library opens by itself.
_RECORD = """
import atexit, json, os, sys
imported, mark = [], sys.argv[3]
record = {"modules": {name.partition(".")[0] for name in sys.modules}, "opened": set(), "programs": set()}
def opened(path):
    try:
        record["opened"].add("/" + os.path.abspath(os.fsdecode(path)).lstrip("/"))
    except (TypeError, ValueError, OSError):
        pass
class Recorder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        record["modules"].add(name.partition(".")[0])
class Asking:
    # Not a function: what takes it over as a method of a class must not get an object before the path.
    def __init__(self, ask):
        self.ask = ask
    def __call__(self, path, *words, **named):
        opened(path)
        return self.ask(path, *words, **named)
def hook(event, words):
    if event in ("open", "os.listdir", "os.scandir", "ctypes.dlopen"):
        if words and isinstance(words[0], (str, bytes)):
            opened(words[0])
    elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
        record["programs"].add(repr(words[:3]))
    elif event in ("os.fork", "os.forkpty"):
        record["programs"].add("another python")
def tell():
    told = {key: sorted(values.copy()) for key, values in record.items()}
    # By a link as well as by its own name.
    paths = {os.path.realpath(path) for path in told["opened"] if not path.startswith(sys.prefix + "/")}
    told["opened"] = sorted(paths.union(told["opened"]))
    print("\\n" + mark + json.dumps({"imported": bool(imported), **told}))
atexit.register(tell)
sys.meta_path.insert(0, Recorder)
sys.addaudithook(hook)
for name in ("stat", "lstat", "access"):
    ask = getattr(os, name)
    asking = Asking(ask)
    for able in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
        if ask in able:
            able.add(asking)
    setattr(os, name, asking)
"""
_RECORD_END = "imported.append(found)"

#: How an import ends that ends well.
IMPORTED: Facts = {"exit": 0, "signal": "", "timed_out": False, "stderr": ""}


def quiet_environment() -> dict[str, str]:
    """Return this process's environment for an import: it shall not write bytecode into the image."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def module_origins(python: str, modules: Sequence[str], place: str, limit: float) -> Facts:
    """Ask where modules would come from when Python is started in a directory.

    They are not imported; packages around them are.
    """
    if not modules:
        return {}
    ran = run([python, "-c", _ORIGIN_PROBE, MARK, *modules], cwd=place, env=quiet_environment(), limit=limit)
    answers = json_object(marked(ran.stdout)) if ran.ok else {}
    if answers:
        return answers
    if len(modules) > 1:  # one that crashes must not take the others' answers with it
        return {module: module_origins(python, [module], place, limit)[module] for module in modules}
    error = last_line(ran.stderr) or ran.signal or ("no answer in time" if ran.timed_out else "no answer")
    return {modules[0]: {"origin": "", "namespace": [], "error": error}}


def entry_points(image: Mapping[str, Any], found: Sequence[Facts]) -> list[str]:
    """Return what must import: torch and torch_npu where installed, then every module and check of the pins."""
    installed = {canonical(facts["name"]) for facts in found}
    names = [module for module in ("torch", "torch_npu") if canonical(module) in installed]
    if not image:
        names += [module for module in ("vllm", "vllm_ascend") if canonical(module) in installed]
    for source in image.get("sources", []):
        names += [source["module"]] if source.get("module") and source.get("install") != "none" else []
        names += source.get("checks", [])
    return list(dict.fromkeys([*names, *image.get("checks", [])]))


def import_environment(stubs: Sequence[str]) -> dict[str, str]:
    """Return the environment of an import; `stubs` are folders of CANN's link stubs, where there is no driver."""
    env = quiet_environment()
    if stubs:
        env["LD_LIBRARY_PATH"] = ":".join([*filter(None, entries(env.get("LD_LIBRARY_PATH", ""))), *stubs])
    return env


def _ran_each(
    program: str, words: Sequence[str], python: str, names: Sequence[str], place: str, stubs: Sequence[str],
    limit: float, jobs: int,
) -> Iterator[tuple[str, Ran]]:  # fmt: skip
    """Yield each name with how a program of ours ended that imports it, in a process of its own, `jobs` at a time."""
    env = import_environment(stubs)

    def one(name: str) -> Ran:
        return run([python, "-c", program, name, *words], cwd=place, env=env, limit=limit)

    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        yield from zip(names, pool.map(one, names))


def imports(
    python: str, names: Sequence[str], place: str, bytecode: str, stubs: Sequence[str], limit: float, jobs: int
) -> Facts:
    """Import each name in a process of its own, `jobs` at a time. What a failed one wrote last is kept.

    `bytecode` is a folder outside of the image for what is compiled.
    """

    def end(ran: Ran) -> Facts:
        stderr = "" if ran.ok else without_secrets(ran.stderr[-6000:]).replace(place, "(an empty directory)")
        return {"exit": ran.exit, "signal": ran.signal, "timed_out": ran.timed_out, "stderr": stderr}

    each = _ran_each(_BYTECODE + _IMPORT, [bytecode], python, names, place, stubs, limit, jobs)
    return {name: end(ran) for name, ran in each}


def recorded_imports(
    python: str, names: Sequence[str], place: str, bytecode: str, stubs: Sequence[str], limit: float, jobs: int
) -> Facts:
    """Import as `imports` does; return what each name has asked for, without those that ended too early to tell.

    `imported` says whether it imported. `modules` are the first parts of the names of all modules that were looked up,
    found or not; `opened` the files that were opened or asked for and the directories that were listed; `programs` the
    words of what was started.
    """
    program = _BYTECODE + _RECORD + _IMPORT + _RECORD_END
    records: Facts = {}
    for name, ran in _ran_each(program, [bytecode, MARK], python, names, place, stubs, limit, jobs):
        record = json_object(marked(ran.stdout))
        if record:
            records[name] = {**record, "imported": record["imported"] and ran.ok}
    return records
