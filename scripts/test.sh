#!/usr/bin/env bash
# Runs every test: sets up what they need, then calls nox with the words given.
set -Eeuo pipefail

usage() {
    cat <<'TEXT'
usage: scripts/test.sh [--help | OPTION-OF-NOX...]

Sets up what the tests need as scripts/quickstart.sh does, then calls nox with the words given; with none it runs lint,
unit tests and end-to-end tests. `scripts/test.sh --list` lists the sessions, `scripts/test.sh -s tests` runs one.

The unit tests take some minutes, the end-to-end tests, which build images, half an hour and more at first.
Exit codes: those of nox (1 when anything fails); 2 usage, 3 something is missing on this machine.
TEXT
}

case ${1-} in
-h | --help)
    usage
    exit
    ;;
'' | -*) ;;
*)
    usage >&2
    exit 2
    ;;
esac

# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

nox "$@"
