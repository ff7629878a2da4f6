#!/usr/bin/env bash
# Sets up what the other scripts need: this project's Python environment in .venv, and a Docker Engine where none answers.
# To be sourced: it leaves the environment active.
set -Eeuo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "error: no Python 3.11 or later was found" >&2
    echo "  next:   install one, or name it: PYTHON=/path/to/python3 $0" >&2
    exit 3
}

make_environment() {
    local python=$1
    if "$python" -m venv .venv 2>/dev/null; then
        return
    fi
    rm -rf .venv
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Installing python3-venv ..."
        apt-get update -q >/dev/null || true
        DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends python3-venv >/dev/null
        "$python" -m venv .venv
    else
        echo "error: $python cannot make a virtual environment" >&2
        echo "  next:   install its venv module (Debian and Ubuntu: apt-get install python3-venv)" >&2
        exit 3
    fi
}

python=$(find_python)
if [ ! -x .venv/bin/python ]; then
    echo "Making a Python environment in .venv ..."
    make_environment "$python"
fi
if ! cmp -s pyproject.toml .venv/installed-from; then
    echo "Installing this project and its tools into it ..."
    .venv/bin/python -m pip install -q --disable-pip-version-check -e '.[dev]'
    cp pyproject.toml .venv/installed-from
fi
# shellcheck disable=SC1091
source .venv/bin/activate

scripts/engine.sh start
