#!/usr/bin/env bash
# Renders variant a2, builds it with stand-ins for CANN and for every package on a real Docker Engine, and shows what was built.
set -Eeuo pipefail

# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

invoke render --check
invoke build --variant a2 --sandbox
