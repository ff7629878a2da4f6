# Puts the compiler of ascendnpu-ir on PATH. Stand-in.
# shellcheck shell=bash
PATH="$(dirname "$(readlink -f "${BASH_SOURCE[0]:-$0}")"):$PATH"
export PATH
