#!/usr/bin/env bash
# A Docker Engine for building on a machine that has none: engine.sh {start|stop|status}
#
#   start   if an engine answers, says so and leaves it alone. Otherwise, on Debian or Ubuntu as root, installs what is
#           missing and starts a dockerd of its own, on the default socket, with the containerd image store.
#   stop    ends what `start` started, and nothing else.
#   status  says what runs, in which versions, and whose it is.
#
# Everything it writes besides packages lies in a state directory: $ASCEND_IMAGES_STATE/engine, by default
# ${XDG_STATE_HOME:-~/.local/state}/ascend-images/engine. Exit codes: 0 done, 2 usage, 3 something is missing here.
set -Eeuo pipefail

readonly WANTED_ENGINE=26 WANTED_BUILDX=0.13 WAIT_SECONDS=90
readonly SOCKET=/var/run/docker.sock
readonly APT_NAME=ascend-images-trixie

STATE="${ASCEND_IMAGES_STATE:-${XDG_STATE_HOME:-${HOME:-/root}/.local/state}/ascend-images}/engine"
[[ $STATE == /* ]] || STATE="$PWD/$STATE"
readonly STATE
# Sockets live here and not in the state directory: the path of a Unix socket may only have 107 bytes.
RUN_DIR="/run/ascend-images-$(cksum <<<"$STATE" | cut -d ' ' -f 1)"
readonly RUN_DIR
readonly LOG="$STATE/dockerd.log" CONTAINERD_LOG="$STATE/containerd.log" APT_LOG="$STATE/apt.log"
readonly PID_FILE="$STATE/dockerd.pid" CONTAINERD_PID_FILE="$STATE/containerd.pid"

# Debian keeps daemons and iptables in sbin, which a user's PATH may lack.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

say() { printf 'engine: %s\n' "$*"; }

# missing WHAT... : says what is missing and what to type next, and ends with the exit code for it.
missing() {
  printf 'engine: %s\n' "$@" >&2
  exit 3
}

have() { command -v "$1" >/dev/null 2>&1; }

# first_version TEXT: the first dotted number in it, or nothing.
first_version() { grep -oE '[0-9]+(\.[0-9]+)+' <<<"$1" | head -n 1 || true; }

# at_least FOUND WANTED: whether the dotted version FOUND is WANTED or newer.
at_least() { [[ -n $1 ]] && printf '%s\n%s\n' "$2" "$1" | sort --version-sort --check=quiet; }

server_version() { docker version --format '{{.Server.Version}}' 2>/dev/null || true; }
buildx_version() { first_version "$(docker buildx version 2>/dev/null || true)"; }
dockerd_version() { first_version "$(dockerd --version 2>/dev/null || true)"; }

# os_release KEY DEFAULT: a value of /etc/os-release.
os_release() {
  local value
  value=$(sed -nE "s/^$1=\"?([^\"]*)\"?$/\1/p" /etc/os-release 2>/dev/null | head -n 1 || true)
  printf '%s' "${value:-$2}"
}

# ours PID_FILE PROGRAM WORD: the pid in the file, if that process is the program we started (WORD is an argument of it
# that nothing else has). A pid alone proves nothing: numbers are used again.
ours() {
  local pid args
  [[ -r $1 ]] || return 1
  pid=$(<"$1")
  [[ $pid =~ ^[0-9]+$ && -r /proc/$pid/cmdline ]] || return 1
  mapfile -d '' -t args 2>/dev/null <"/proc/$pid/cmdline" || return 1
  # No arguments at all: a process that has just ended, or is between fork and exec.
  ((${#args[@]})) && [[ ${args[0]##*/} == "$2" ]] || return 1
  printf '%s\n' "${args[@]}" | grep --fixed-strings --line-regexp --quiet -- "$3" || return 1
  printf '%s\n' "$pid"
}

our_dockerd() { ours "$PID_FILE" dockerd "$STATE/data"; }
our_containerd() { ours "$CONTAINERD_PID_FILE" containerd "$STATE/containerd.toml"; }

# --- installing -------------------------------------------------------------------------------------------------------

apt_install() { # apt_install [OPTION...] PACKAGE...
  # --no-remove: packages of another origin (docker-ce) are never replaced.
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends --no-remove \
    -o DPkg::Lock::Timeout=300 "$@" </dev/null >>"$APT_LOG" 2>&1
}

apt_update() {
  # A third-party source that cannot be reached fails the whole update while all others were read: what counts is
  # whether the packages are there afterwards.
  if ! DEBIAN_FRONTEND=noninteractive apt-get update -o Acquire::Retries=2 </dev/null >>"$APT_LOG" 2>&1; then
    say "some package sources could not be read (see $APT_LOG); going on with the others"
  fi
}

# The machine's own Debian entry, as it stands in the sources, with the suite changed from $1 to $2: mirrors, proxies
# and keyrings chosen on this machine stay chosen. Prints a deb822 stanza or one `deb` line; nothing if there is none.
copied_entry() {
  local file stanza
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -r $file ]] || continue
    stanza=$(awk -v from="$1" -v to="$2" '
      function flush(   n, i, words, hit) {
        if (!done && suites != "" && enabled) {
          n = split(suites, words, " ")
          for (i = 1; i <= n; i++) if (words[i] == from) hit = 1
          if (hit) { printf "Types: deb\nSuites: %s\n%s", to, rest; done = 1 }
        }
        suites = ""; rest = ""; enabled = 1; field = ""
      }
      BEGIN { enabled = 1 }
      /^#/ { next }
      /^[ \t]*$/ { flush(); next }
      /^[ \t]/ { if (field == "suites") suites = suites " " $0
                 else if (field != "types") rest = rest $0 "\n"
                 next }
      { field = tolower($0); sub(/:.*/, "", field); value = $0; sub(/^[^:]*:[ \t]*/, "", value)
        if (field == "suites") suites = value
        else if (field == "enabled") enabled = (tolower(value) != "no" && tolower(value) != "false" && value != "0")
        else if (field != "types") rest = rest $0 "\n" }
      END { flush() }' "$file")
    if [[ -n $stanza ]]; then
      printf '%s\n' "$stanza"
      return
    fi
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ -r $file ]] || continue
    stanza=$(awk -v from="$1" -v to="$2" '
      $1 == "deb" {
        i = 2                                  # an option list in brackets may hold blanks
        if ($2 ~ /^\[/) { while (i < NF && $i !~ /\]$/) i++; i++ }
        if ($(i + 1) == from) { $(i + 1) = to; print; exit }
      }' "$file")
    if [[ -n $stanza ]]; then
      printf '%s\n' "$stanza"
      return
    fi
  done
}

# Debian 12's own engine is too old. Debian 13's needs nothing newer than glibc 2.34, so it installs beside the rest;
# with pin priority 100 no other package ever comes from there by itself.
add_trixie() {
  local entry extension
  entry=$(copied_entry bookworm trixie)
  [[ -n $entry ]] || missing "no package source of Debian 12 (suite bookworm) found under /etc/apt to copy for Debian 13." \
    "Install Docker Engine $WANTED_ENGINE or newer with buildx $WANTED_BUILDX or newer by hand, then run this again."
  extension=sources
  [[ $entry != deb\ * ]] || extension=list
  rm -f "/etc/apt/sources.list.d/$APT_NAME".{list,sources}
  printf '# Added by ascend-images for Docker Engine %s; pinned in ../preferences.d.\n%s\n' "$WANTED_ENGINE" "$entry" \
    >"/etc/apt/sources.list.d/$APT_NAME.$extension"
  printf 'Package: *\nPin: release n=trixie\nPin-Priority: 100\n' >"/etc/apt/preferences.d/$APT_NAME"
  say "added one package source, /etc/apt/sources.list.d/$APT_NAME.$extension, pinned so that nothing else uses it"
}

# Where packages start their services, the packaged engine must not come up: this script's own does, with its own data.
# Only services that are not there yet are held back (masked while installing, and not started at the next boot either).
with_services_held() { # with_services_held COMMAND...
  local rc=0 unit units=()
  if [[ -d /run/systemd/system ]] && have systemctl; then
    for unit in docker.service docker.socket containerd.service; do
      systemctl cat "$unit" >/dev/null 2>&1 || units+=("$unit")
    done
  fi
  ((${#units[@]} == 0)) || systemctl --runtime mask "${units[@]}" >>"$APT_LOG" 2>&1 || true
  "$@" || rc=$?
  ((${#units[@]} == 0)) || systemctl --runtime unmask "${units[@]}" >>"$APT_LOG" 2>&1 || true
  ((${#units[@]} == 0)) || systemctl disable "${units[@]}" >>"$APT_LOG" 2>&1 || true
  return "$rc"
}

install_packages() { # install_packages ID VERSION_ID PACKAGE...
  local id=$1 version=$2 name names=()
  shift 2
  mkdir -p "$STATE"
  : >"$APT_LOG"
  if [[ "$id $version" == "debian 12" ]]; then
    add_trixie
    # Only these come from Debian 13, all they need from the machine's own release: by `-t trixie` runc would come from
    # there too, and with it a newer C library for the whole machine.
    for name in "$@"; do
      [[ $name == iptables ]] && names+=("$name") || names+=("$name/trixie")
    done
  else
    names=("$@")
  fi
  say "installing $* (log: $APT_LOG)"
  apt_update
  if [[ "$id $version" == "debian 12" ]]; then
    refuse_more_from_trixie "${names[@]}"
  fi
  if ! with_services_held apt_install "${names[@]}"; then
    tail -n 20 "$APT_LOG" >&2
    not_installable "$*"
  fi
}

not_installable() { # not_installable PACKAGES
  missing "the packages could not be installed: $1" \
    "Install Docker Engine $WANTED_ENGINE or newer with buildx $WANTED_BUILDX or newer by hand, then run this again."
}

# What apt would do is looked at first: a package of Debian 13 that was not asked for means that the rest of the machine
# is about to change.
refuse_more_from_trixie() { # refuse_more_from_trixie PACKAGE...
  local name more=()
  while read -r name; do
    [[ " $* " == *" $name/trixie "* ]] || more+=("$name")
  done < <(apt-get install --simulate --no-install-recommends --no-remove "$@" 2>>"$APT_LOG" | sed -nE '/Debian:13/s/^Inst ([^ ]+) .*/\1/p')
  ((${#more[@]} == 0)) || not_installable "$*, which would also take from Debian 13: ${more[*]}"
}

by_hand() { # by_hand REASON: what to do where this script installs nothing
  missing "no Docker Engine answers, and $1." \
    "Wanted: Docker Engine $WANTED_ENGINE or newer (dockerd, containerd, runc, iptables), the docker client, and its buildx plugin" \
    "$WANTED_BUILDX or newer. Install them with this machine's package manager and start the engine; or, on Debian or Ubuntu," \
    "type: sudo scripts/engine.sh start"
}

ensure_programs() {
  local id version wanted=() found
  found=$(dockerd_version)
  if [[ -n $found ]] && ! at_least "$found" "$WANTED_ENGINE"; then
    # Somebody installed it, and it may hold images: it is not replaced.
    missing "the Docker Engine installed here is $found (not running), and $WANTED_ENGINE or newer is wanted." \
      "Upgrade it, or remove its packages (on Debian: apt-get remove docker.io), then run this again."
  fi
  if [[ -z $found ]] || ! have containerd || ! have runc; then
    wanted+=(docker.io docker-cli containerd)
  fi
  have iptables || wanted+=(iptables)
  have docker || [[ ${wanted[*]} == *docker-cli* ]] || wanted+=(docker-cli)
  at_least "$(buildx_version)" "$WANTED_BUILDX" || wanted+=(docker-buildx)
  ((${#wanted[@]})) || return 0

  [[ $(id -u) == 0 ]] || by_hand "this user is not root"
  have apt-get || by_hand "this machine has no apt"
  id=$(os_release ID unknown)
  version=$(os_release VERSION_ID 0)
  case "$id" in
    debian) at_least "$version" 12 || by_hand "Debian $version is too old for the packages used here (12 or newer is wanted)" ;;
    ubuntu) # the client is part of its docker.io
      mapfile -t wanted < <(printf '%s\n' "${wanted[@]/docker-cli/docker.io}" | sort --unique) ;;
    *) by_hand "this script knows the packages of Debian and Ubuntu only, not of $id" ;;
  esac
  install_packages "$id" "$version" "${wanted[@]}"
  hash -r
  found=$(dockerd_version)
  at_least "$found" "$WANTED_ENGINE" || missing "dockerd is ${found:-missing} after installing; $WANTED_ENGINE or newer is wanted." \
    "Install a newer Docker Engine by hand, then run this again."
  ensure_buildx
}

# The client looks for plugins in a few directories. A client from elsewhere may not look where the package put buildx:
# then the user's own plugin directory gets a link to it.
ensure_buildx() {
  local found plugin
  found=$(buildx_version)
  if [[ -z $found ]]; then
    for plugin in /usr/libexec/docker/cli-plugins/docker-buildx /usr/lib/docker/cli-plugins/docker-buildx; do
      [[ -x $plugin ]] || continue
      mkdir -p "${DOCKER_CONFIG:-${HOME:-/root}/.docker}/cli-plugins"
      ln -sfn "$plugin" "${DOCKER_CONFIG:-${HOME:-/root}/.docker}/cli-plugins/docker-buildx"
      say "linked $plugin into ${DOCKER_CONFIG:-${HOME:-/root}/.docker}/cli-plugins"
      found=$(buildx_version)
      break
    done
  fi
  at_least "$found" "$WANTED_BUILDX" || missing \
    "the buildx plugin of $(command -v docker || echo docker) is ${found:-missing}; $WANTED_BUILDX or newer is wanted." \
    "Install it (Debian and Ubuntu: apt-get install docker-buildx; Docker's own packages: docker-buildx-plugin), then run this again."
}

# --- start ------------------------------------------------------------------------------------------------------------

# Exits if an engine is there which `start` has to leave alone. Returns if there is none.
leave_alone_what_answers() {
  local version complaint context
  have docker || return 0
  version=$(server_version)
  if [[ -n $version ]]; then
    if our_dockerd >/dev/null; then
      say "already running: Docker Engine $version, started by this script (stop it with: $0 stop)"
    else
      say "Docker Engine $version answers already; it is not this script's and is left alone"
    fi
    at_least "$(first_version "$version")" "$WANTED_ENGINE" || missing \
      "it is too old: $version, and $WANTED_ENGINE or newer is wanted. Upgrade it, or point DOCKER_HOST or the docker context at a newer one."
    ensure_buildx_beside "$version"
    exit 0
  fi
  complaint=$(docker version 2>&1 >/dev/null || true)
  if [[ $complaint == *"permission denied"* ]]; then
    missing "a Docker Engine is there, but this user may not talk to it: $complaint" \
      "Type: sudo usermod -aG docker \"\$USER\" (then log in again), or run this with sudo."
  fi
  # An engine started here would not be the one the client asks.
  context=$(docker context show 2>/dev/null || echo default)
  if [[ -n ${DOCKER_HOST:-} && ${DOCKER_HOST} != "unix://$SOCKET" && ${DOCKER_HOST} != "unix://${SOCKET#/var}" ]]; then
    missing "DOCKER_HOST names $DOCKER_HOST, where no engine answers." "Start that one, or type: unset DOCKER_HOST"
  elif [[ -z ${DOCKER_HOST:-} && $context != default ]]; then
    missing "the docker context $context is in use, and no engine answers there." "Start that one, or type: docker context use default"
  fi
}

# A user's engine without (a new enough) buildx: the plugin is a program of the client, so adding it leaves the engine alone.
ensure_buildx_beside() {
  local version id
  at_least "$(buildx_version)" "$WANTED_BUILDX" && return
  id=$(os_release ID unknown)
  version=$(os_release VERSION_ID 0)
  if [[ $(id -u) == 0 && $id =~ ^(debian|ubuntu)$ ]] && have apt-get; then
    install_packages "$id" "$version" docker-buildx
  fi
  ensure_buildx
}

start_containerd() {
  # Always one of its own: a containerd that runs on the machine already belongs to somebody (a cluster node's, say).
  cat >"$STATE/containerd.toml" <<EOF
version = 2
root = "$STATE/containerd"
state = "$RUN_DIR/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$RUN_DIR/containerd.sock"
EOF
  setsid containerd --config "$STATE/containerd.toml" </dev/null >"$CONTAINERD_LOG" 2>&1 9>&- &
  printf '%s\n' "$!" >"$CONTAINERD_PID_FILE"
}

start_dockerd() {
  # Its own configuration file as well: /etc/docker/daemon.json is about somebody else's engine.
  printf '{"features": {"containerd-snapshotter": true}}\n' >"$STATE/daemon.json"
  setsid dockerd --config-file "$STATE/daemon.json" --host "unix://$SOCKET" --containerd "$RUN_DIR/containerd.sock" \
    --exec-root "$RUN_DIR/docker" --pidfile "$RUN_DIR/dockerd.pid" --data-root "$STATE/data" \
    </dev/null >"$LOG" 2>&1 9>&- &
  printf '%s\n' "$!" >"$PID_FILE"
}

failed_to_start() { # failed_to_start PROGRAM LOG
  printf 'engine: %s did not come up. The last lines of %s:\n' "$1" "$2" >&2
  tail -n 20 "$2" >&2 || true
  stop_ours >&2
  missing "no Docker Engine was started. What the lines above name is missing or not allowed on this machine."
}

wait_for() { # wait_for PROGRAM LOG OURS TEST... : until TEST succeeds; a process that ended is reported at once
  local program=$1 log=$2 alive=$3 deadline=$((SECONDS + WAIT_SECONDS))
  shift 3
  until "$@"; do
    # A process just forked is still this script by name: give it a moment before it counts as gone.
    if ((SECONDS >= deadline)) || { ! "$alive" >/dev/null && sleep 1 && ! "$alive" >/dev/null; }; then
      failed_to_start "$program" "$log"
    fi
    sleep 0.2
  done
}

engine_answers() { [[ -n $(server_version) ]]; }
containerd_listens() { [[ -S $RUN_DIR/containerd.sock ]]; }

take_turns() {
  exec 9>"$STATE/lock"
  flock 9
}

start() {
  local kind
  leave_alone_what_answers
  mkdir -p "$STATE" 2>/dev/null || missing "the state directory $STATE cannot be made." "Name another one: ASCEND_IMAGES_STATE=DIR $0 start"
  take_turns # two starts at once: the second finds the first one's engine
  leave_alone_what_answers
  ensure_programs
  ensure_buildx
  leave_alone_what_answers # a machine whose package hooks start services without systemd has one now
  [[ $(id -u) == 0 ]] || by_hand "this user is not root"
  kind=$(stat --file-system --format=%T "$STATE")
  [[ $kind != overlayfs ]] || missing "the state directory $STATE lies on an overlay file system, where image layers cannot be unpacked." \
    "Name one on a real disk: ASCEND_IMAGES_STATE=DIR $0 start"
  stop_ours >/dev/null # remains of a start that was cut off
  mkdir -p "$RUN_DIR"
  rm -f "$RUN_DIR/containerd.sock" "$RUN_DIR/dockerd.pid"
  start_containerd
  wait_for containerd "$CONTAINERD_LOG" our_containerd containerd_listens
  start_dockerd
  wait_for dockerd "$LOG" our_dockerd engine_answers
  say "Docker Engine $(server_version) is up on $SOCKET (buildx $(buildx_version), data: $STATE/data, log: $LOG)"
  say "stop it with: $0 stop"
}

# --- stop, status -----------------------------------------------------------------------------------------------------

end_process() { # end_process NAME PID: asks it to end, waits, and only then insists
  local deadline=$((SECONDS + 30))
  kill -TERM "$2" 2>/dev/null || return 0
  while [[ -r /proc/$2/stat && $(sed -E 's/.*\) (.).*/\1/' "/proc/$2/stat" 2>/dev/null) == [^Z] ]]; do
    if ((SECONDS >= deadline)); then
      kill -KILL "$2" 2>/dev/null || true
      break
    fi
    sleep 0.2
  done
  say "stopped $1 (pid $2)"
}

stop_ours() {
  local pid found=
  if pid=$(our_dockerd); then
    found=1
    end_process dockerd "$pid"
  fi
  if pid=$(our_containerd); then
    found=1
    end_process containerd "$pid"
  fi
  rm -f "$PID_FILE" "$CONTAINERD_PID_FILE"
  # dockerd mounts its data root on itself and does not always undo that.
  ! mountpoint --quiet "$STATE/data" 2>/dev/null || umount "$STATE/data" || true
  [[ -n $found ]] || say "nothing to stop: no engine of this script is running"
}

stop() {
  [[ ! -w $STATE ]] || take_turns
  stop_ours
}

status() {
  local version pid
  version=$(server_version)
  if [[ -z $version ]]; then
    if [[ $(docker version 2>&1 >/dev/null || true) == *"permission denied"* ]]; then
      say "a Docker Engine is there, but this user may not talk to it"
    else
      say "no Docker Engine answers (start one with: $0 start)"
    fi
    return 0
  fi
  if pid=$(our_dockerd); then
    say "Docker Engine $version is running, started by this script (pid $pid, data: $STATE/data, log: $LOG)"
  else
    say "Docker Engine $version is running; it is not this script's"
  fi
  say "client $(docker version --format '{{.Client.Version}}' 2>/dev/null), buildx $(buildx_version), image store: $(docker info --format '{{.Driver}} {{.DriverStatus}}' 2>/dev/null)"
}

case "${1:-}" in
  start) start ;;
  stop) stop ;;
  status) status ;;
  *)
    printf 'usage: %s {start|stop|status}\n' "$0" >&2
    exit 2
    ;;
esac
