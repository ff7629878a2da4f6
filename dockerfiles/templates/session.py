"""Writes the start-up files of shells, from the environment that image.json says the image has.

Arguments: the image's root, and the processor's name for {kernel_arch}.
"""

import json
import pathlib
import shlex
import sys

HEAD = "# Made with the image, from its ENV.\n"
PROFILE = """\
# Sets up a shell once; read by login shells and, through bash.bashrc or .bashrc, by interactive ones.
# A session that does not inherit the container's environment (sshd, su -) takes it from here.
[ -n "${{ASCEND_TOOLKIT_HOME-}}" ] || . /opt/ascend-images/env.sh
# /etc/profile of some systems sets PATH anew.
case ":$PATH:" in
  *:{python}:*) ;;
  *) PATH={path}; export PATH ;;
esac
# Model names and prompts may hold exclamation marks.
[ -z "${{BASH_VERSION-}}" ] || set +H
"""


def exports(environment: dict, kernel_arch: str) -> str:
    """Return the environment as lines for any POSIX shell."""
    lines = (
        f"export {name}={shlex.quote(value.replace('{kernel_arch}', kernel_arch))}\n"
        for name, value in environment.items()
    )
    return HEAD + "".join(lines)


def main(root: pathlib.Path, kernel_arch: str) -> None:
    """Write env.sh and the file in profile.d; make the folders that a setting names and nothing else brings."""
    image = json.loads((root / "opt/ascend-images/image.json").read_text(encoding="utf-8"))
    environment = image["env"]
    (root / "opt/ascend-images/env.sh").write_text(exports(environment, kernel_arch), encoding="utf-8")
    profile = root / "etc/profile.d"
    profile.mkdir(parents=True, exist_ok=True)
    path = shlex.quote(environment["PATH"].replace("{kernel_arch}", kernel_arch))
    text = PROFILE.format(python=f"{image['python_home']}/bin", path=path)
    (profile / "ascend-images.sh").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
