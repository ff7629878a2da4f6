#!/usr/bin/env bash
# Logs in to registries with what the environment holds: no password on a command line.
set -Eeuo pipefail

usage() {
    cat <<'TEXT'
usage: REGISTRY_LOGINS=TEXT scripts/registry_login.sh [--help]

Calls docker login for each line "REGISTRY USER PASSWORD" of REGISTRY_LOGINS (words divided by blanks; a password may
hold blanks inside). Docker keeps what it is given in $DOCKER_CONFIG: log out on a machine that lives on.

Exit codes: 0 logged in to all, 1 a registry refused, 2 usage, or a line of another form (told by its number).
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

if [[ -z ${REGISTRY_LOGINS-} ]]; then
    echo "error: REGISTRY_LOGINS is empty; docs/publishing.md says what it holds" >&2
    exit 2
fi
number=0 failed=0
while read -r registry user password; do
    number=$((number + 1))
    [[ -n $registry ]] || continue
    if [[ -z $user || -z $password ]]; then
        echo "error: line $number of REGISTRY_LOGINS is not REGISTRY USER PASSWORD" >&2
        exit 2
    fi
    printf '%s' "$password" | docker login --username "$user" --password-stdin "$registry" || failed=1
done <<<"$REGISTRY_LOGINS"
exit "$failed"
