#!/usr/bin/env bash
# Calls a command with a flag before each of several words: what a workflow's single text field becomes.
set -Eeuo pipefail

usage() {
    cat <<'TEXT'
usage: scripts/repeat_flag.sh FLAG WORDS COMMAND [ARGUMENT...]

Calls COMMAND with its arguments, followed by FLAG and a word for each word of the text WORDS. Words are divided by
blanks; quotes keep together what belongs together. Nothing in WORDS is run or expanded.

  scripts/repeat_flag.sh --set 'evalscope=1.11.0 "accept.torch-npu-cann=as in the public image"' invoke show --variant a2

Exit codes: those of COMMAND; 2 usage, or quotes that do not match.
TEXT
}

case ${1-} in
-h | --help)
    usage
    exit
    ;;
esac
if (($# < 3)) || [[ $1 != --* ]]; then
    usage >&2
    exit 2
fi

flag=$1 text=$2
shift 2
words=$(xargs -r printf '%s\n' <<<"$text") || {
    printf 'error: %s: quotes do not match: %s\n' "$flag" "$text" >&2
    exit 2
}
flagged=()
while IFS= read -r word; do
    [[ -z $word ]] || flagged+=("$flag" "$word")
done <<<"$words"
exec "$@" "${flagged[@]}"
