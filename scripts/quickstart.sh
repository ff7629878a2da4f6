#!/usr/bin/env bash
# Builds variant a2 with stand-ins for CANN and for every package on a real Docker Engine, after setting up what that needs.
set -Eeuo pipefail

usage() {
    cat <<'TEXT'
usage: scripts/quickstart.sh [--help]

Sets up a Python environment in .venv and a Docker Engine where none answers, checks that the rendered files are
current, and builds and checks variant a2 with stand-ins for CANN, packages and sources.

The first run takes some minutes, most of them for downloading; a second one takes less than one.
Exit codes: those of invoke (README.md); 2 usage, 3 something is missing on this machine.
TEXT
}

case ${1-} in
'') ;;
-h | --help)
    usage
    exit
    ;;
*)
    usage >&2
    exit 2
    ;;
esac

# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

invoke render --check
invoke build --variant a2 --sandbox
echo 'To go on in this shell, type: . .venv/bin/activate'
