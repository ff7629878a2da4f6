#!/usr/bin/env bash
# Runs every test: sets up what they need, then calls nox with the words given.
set -Eeuo pipefail

# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

nox "$@"
