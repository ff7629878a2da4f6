#!/usr/bin/env bash
# Lets this machine run programs of the other architecture, in containers as well, by an emulator (QEMU).
set -Eeuo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/emulation.sh [--help | arm64 | amd64]

Lets this machine, and so the Docker Engine on it, run programs of the architecture named: for building and trying
images for it where there is no such machine, many times slower.

Where the kernel knows an emulator for it, nothing is touched. Else, on Debian or Ubuntu as root, qemu-user-static and
binfmt-support are installed, and its emulator is registered (where packages start their services, theirs registers
those of all architectures). The engine needs no restart. After a restart of a machine whose services do not register
it anew, call this again. To undo it: apt-get remove qemu-user-static.

Exit codes: 0 done, 2 usage, 3 something is missing on this machine.
TEXT
}

readonly BINFMT=/proc/sys/fs/binfmt_misc

say() { printf 'emulation: %s\n' "$*"; }

# missing LINE... : says what is missing and what to type next, and ends with the exit code for it.
missing() {
  printf 'emulation: %s\n' "$@" >&2
  exit 3
}

# registered: whether the kernel hands programs to an emulator that containers find too (flag F: it is held open).
registered() {
  [[ -r $BINFMT/$NAME ]] && grep --quiet --line-regexp enabled "$BINFMT/$NAME" && grep --quiet '^flags:.*F' "$BINFMT/$NAME"
}

by_hand() { # by_hand REASON: what to do where this script cannot
  missing "no emulator of $ARCH is registered ($BINFMT/$NAME, enabled, with flag F), and $1." \
    "Install QEMU's user emulation with this machine's package manager; on Debian or Ubuntu, type: sudo scripts/emulation.sh $ARCH"
}

install_packages() {
  local log
  log=$(mktemp)
  say "installing qemu-user-static and binfmt-support"
  # A third-party source that cannot be read fails the whole update while all others were read.
  DEBIAN_FRONTEND=noninteractive apt-get update -o Acquire::Retries=2 </dev/null >"$log" 2>&1 || true
  if ! DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends --no-remove \
    -o DPkg::Lock::Timeout=300 qemu-user-static binfmt-support </dev/null >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    missing "the packages could not be installed: qemu-user-static binfmt-support" "See why above, then run this again."
  fi
  rm -f "$log"
}

# The packages register emulators by a service, which a machine without systemd does not start.
register() {
  if [[ ! -e $BINFMT/register ]]; then
    mount -t binfmt_misc binfmt_misc "$BINFMT" 2>/dev/null ||
      missing "$BINFMT cannot be mounted: the kernel lacks binfmt_misc, or this is a container without the right to." \
        "Run this on the machine itself, outside of containers."
  fi
  update-binfmts --enable "$NAME" >/dev/null 2>&1 || true
  registered || missing "$BINFMT/$NAME is not there, enabled and with flag F, after installing." "Look at: update-binfmts --display $NAME"
}

case ${1-} in
  arm64) NAME=qemu-aarch64 NATIVE='aarch64 arm64' ;;
  amd64) NAME=qemu-x86_64 NATIVE=x86_64 ;;
  -h | --help)
    usage
    exit
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac
readonly ARCH=$1 NAME NATIVE
if [[ " $NATIVE " == *" $(uname -m) "* ]]; then
  say "this machine is $ARCH itself"
elif registered; then
  say "an emulator of $ARCH is registered already, and left alone"
else
  export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" # update-binfmts lies there, which a user's PATH may lack
  [[ $(id -u) == 0 ]] || by_hand "this user is not root"
  if ! command -v update-binfmts >/dev/null || ! compgen -G '/usr/bin/qemu-*-static' >/dev/null; then
    command -v apt-get >/dev/null || by_hand "this machine has no apt"
    install_packages
  fi
  register
  say "programs of $ARCH run here now"
fi
