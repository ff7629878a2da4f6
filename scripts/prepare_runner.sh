#!/usr/bin/env bash
# Makes a GitHub-hosted runner fit for building CANN images: room on its disk, and the image store that builds need.
set -Eeuo pipefail

usage() {
    cat <<'TEXT'
usage: scripts/prepare_runner.sh [--help]

On a GitHub-hosted runner, and nowhere else:
- removes what GitHub preinstalls and this project never uses (Android, .NET, Haskell, Swift, CodeQL), about 25 GB,
- has its Docker Engine keep images in containerd, without which it cannot push attestations.

Elsewhere it says so and changes nothing. Exit codes: 0 done, 2 usage, 3 the engine did not come back.
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

# The runner itself says so: docs.github.com, "Default environment variables".
if [[ ${GITHUB_ACTIONS-} != true || ${RUNNER_ENVIRONMENT-} != github-hosted ]]; then
    echo "prepare_runner: not a GitHub-hosted runner; nothing was changed"
    exit
fi

# What is not there on an image is no error.
readonly UNUSED=(
    /usr/local/lib/android
    /usr/share/dotnet
    /opt/ghc
    /usr/local/.ghcup
    /usr/share/swift
    /opt/hostedtoolcache/CodeQL
)

free_space() { df --human-readable --output=avail / | tail -n 1 | tr -d ' '; }

echo "prepare_runner: $(free_space) free"
sudo rm -rf -- "${UNUSED[@]}"
echo "prepare_runner: $(free_space) free, after removing ${UNUSED[*]}"

in_containerd() { docker info --format '{{json .DriverStatus}}' 2>/dev/null | grep -q io.containerd.snapshotter; }

if ! in_containerd; then
    settings=$(cat /etc/docker/daemon.json 2>/dev/null || echo '{}') # GitHub's own settings stay
    jq '.features["containerd-snapshotter"] = true' <<<"$settings" | sudo tee /etc/docker/daemon.json >/dev/null
    sudo systemctl restart docker
    for _ in {1..60}; do
        ! in_containerd || break
        sleep 1
    done
    in_containerd || {
        echo "prepare_runner: the engine does not keep images in containerd; see: docker info" >&2
        exit 3
    }
fi
echo "prepare_runner: the engine keeps images in containerd"
