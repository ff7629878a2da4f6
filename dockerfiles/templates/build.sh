# shellcheck shell=bash
# What the steps of a rendered Dockerfile share: each sources this first. It is copied into the file as it stands.
set -Eeuo pipefail
umask 022
# Bytecode holds the time of its source; none is better than one that differs in each build.
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
export UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy UV_NO_PROGRESS=1

# The engine shows a step as a whole, so the step itself says which of its lines failed, and where in this file.
failed() {
  local status=$1 line=$2 command=$3 where=''
  if [[ ${#FUNCNAME[@]} -gt 1 ]]; then
    where=" (in ${FUNCNAME[1]}, line $line of build.sh)"
    line=${BASH_LINENO[-1]}
  fi
  printf 'line %s failed (%s): %s%s\n' "$line" "$status" "$command" "$where" >&2
}
trap 'failed "$?" "$LINENO" "$BASH_COMMAND"' ERR

# What a step hands to another lies in /out/root as it is to lie there. Not in /out: to find out whether a folder that is
# copied has changed, BuildKit reads the folder around it, which would be the whole image.

# stop WHAT [LINE...]: ends the build with a reason of our own.
stop() {
  printf 'build stopped: %s\n' "$1" >&2
  shift
  [[ $# -eq 0 ]] || printf '  %s\n' "$@" >&2
  exit 1
}

# again COMMAND...: three attempts, for what goes over a network.
again() {
  local attempt
  for attempt in 1 2 3; do
    if "$@"; then return 0; fi
    printf 'attempt %s of 3 failed: %s\n' "$attempt" "$*" >&2
    if [[ $attempt -lt 3 ]]; then sleep "$((attempt * 2))"; fi
  done
  stop "three attempts failed: $*"
}

# use_network: mirrors, proxies and a company's CA, if the build was given such secrets; for this step alone.
use_network() {
  local name lower bundle
  if [[ -s /run/secrets/network ]]; then
    set -a
    # shellcheck source=/dev/null
    source /run/secrets/network
    set +a
  fi
  for name in HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    lower=${name,,}
    # apt and curl know the small letters only.
    if [[ -n ${!name-} && -z ${!lower-} ]]; then export "$lower=${!name}"; fi
  done
  if [[ -s /run/secrets/ca ]]; then
    # Beside the system's: a company's CA alone would shut out everything else.
    for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
      if [[ -s $bundle ]]; then break; fi
    done
    { cat "$bundle" 2>/dev/null || true; echo; cat /run/secrets/ca; } >/build/ca.pem
    export SSL_CERT_FILE=/build/ca.pem CURL_CA_BUNDLE=/build/ca.pem GIT_SSL_CAINFO=/build/ca.pem
    export PIP_CERT=/build/ca.pem REQUESTS_CA_BUNDLE=/build/ca.pem
  fi
}

# fetch_source URL REVISION COMMIT SUBMODULES: one commit of a repository, in /out/root. COMMIT is empty while only the
# name of a ref is pinned.
fetch_source() {
  local url=$1 revision=$2 commit=$3 submodules=$4 found
  export GIT_LFS_SKIP_SMUDGE=1 GIT_TERMINAL_PROMPT=0
  git -c init.defaultBranch=main init --quiet /out/root
  cd /out/root
  git remote add origin "$url"
  again git fetch --quiet --depth 1 --no-tags origin "$revision"
  git -c advice.detachedHead=false checkout --quiet --detach FETCH_HEAD
  found=$(git rev-parse HEAD)
  if [[ -n $commit && $found != "$commit" ]]; then
    stop "$url gave another commit than the pinned one" "found:  $found" "wanted: $commit"
  fi
  if [[ $submodules == yes ]]; then again git submodule --quiet update --init --recursive --depth 1; fi
}

# fetch_run URL FILE SHA256: a CANN package, in /out/root.
fetch_run() {
  local url=$1 file=$2 sha256=$3 found
  if [[ -z $sha256 && ${UNLOCKED-} != 1 ]]; then
    stop "no sha256 is known for $file" "wanted: a checksum for everything that is downloaded" \
      "next:   invoke lock, then invoke render, or build unlocked (invoke build --unlocked, docker build --build-arg UNLOCKED=1)"
  fi
  mkdir -p /out/root
  again curl --fail --silent --show-error --location --continue-at - --referer https://www.hiascend.com/ \
    --output "/out/root/$file" "$url"
  found=$(sha256sum "/out/root/$file")
  found=${found%% *}
  printf '%s  %s\n' "$found" "$file"
  if [[ -n $sha256 && $found != "$sha256" ]]; then
    stop "$file is not the file that was pinned" "found:  sha256 $found" "wanted: sha256 $sha256"
  fi
}

# cann_is HOME: whether the set_env scripts that were sourced before are those of the release that is meant.
cann_is() {
  if [[ ${ASCEND_TOOLKIT_HOME-} != "$1" || -z ${ATB_HOME_PATH-} ]]; then
    stop "the set_env scripts of the base image set up another CANN" \
      "found:  ASCEND_TOOLKIT_HOME=${ASCEND_TOOLKIT_HOME-} ATB_HOME_PATH=${ATB_HOME_PATH-}" "wanted: $1"
  fi
}

# devlib HOME: the link stubs of a CANN release, for compiling where there is no driver.
devlib() {
  local folder found=
  for folder in "$1/devlib" "$1/$(uname -m)-linux/devlib/linux/$(uname -m)" "$1/$(uname -m)-linux/devlib"; do
    if [[ -d $folder ]]; then found+=$folder:; fi
  done
  printf '%s' "$found"
}

python_prefix() { python3 -c 'import os, sys; print(os.path.realpath(sys.prefix))'; }

# take_source PATH: the checkout at its final place, with the modes that git knows and root's ownership.
take_source() {
  if [[ -e $1 ]]; then stop "the base image has something at $1 already"; fi
  mkdir -p "$1"
  cp -a --no-preserve=ownership /build/source/. "$1/"
  chmod -R u=rwX,go=rX "$1"
}

# install_editable PATH: registers a checkout in Python's prefix below /out/root, with nothing that it asks for.
# Compat mode: by default a checkout in / with the package's name hides the package from whoever stands in /.
# uv starts Python for each question to a build backend: what one compiles is kept for the others, outside of the image.
install_editable() {
  PYTHONDONTWRITEBYTECODE="" PYTHONPYCACHEPREFIX=/build/bytecode /build/uv pip install \
    --quiet --no-config --offline --no-cache --no-deps --no-build-isolation \
    --python "$(command -v python3)" --prefix "/out/root$(python_prefix)" \
    --config-settings editable_mode=compat --editable "$1"
}

# tls_on PATH, tls_as_written PATH: cmake files that switch off checking certificates do not while they are used.
tls_on() {
  local files
  files=$(grep -rlIE --include=CMakeLists.txt --include='*.cmake' '\bTLS_VERIFY[[:space:]]+(OFF|FALSE|NO|0)\b' "$1") || return 0
  mapfile -t files <<<"$files"
  tar -cf /build/as-written.tar "${files[@]}" 2>/dev/null
  sed -i -E 's/\bTLS_VERIFY[[:space:]]+(OFF|FALSE|NO|0)\b/TLS_VERIFY ON/' "${files[@]}"
}
tls_as_written() {
  if [[ -e /build/as-written.tar ]]; then tar -C / -xf /build/as-written.tar; fi
}

# settle_git PATH URL: leaves in .git which commit this is, and nothing that differs between two fetches of it.
# After this nothing may run `git status` in it: that writes to the index.
settle_git() {
  local tree url modules
  if [[ ! -e $1/.git ]]; then return 0; fi
  export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
  # shellcheck disable=SC2016 # git's shell expands these
  modules=$(git -C "$1" submodule --quiet foreach --recursive \
    'printf "%s\t%s\n" "$toplevel/$sm_path" "$(git -C "$toplevel" config --file .gitmodules "submodule.$name.url")"')
  settle_repository "$1" "$2"
  while IFS=$'\t' read -r tree url; do
    if [[ -n $tree ]]; then settle_repository "$tree" "$url"; fi
  done <<<"$modules"
}
settle_repository() {
  local tree=$1 url=$2 folder commit worktree key value
  folder=$(git -C "$tree" rev-parse --absolute-git-dir)
  commit=$(git -C "$tree" rev-parse HEAD)
  worktree=$(git -C "$tree" config core.worktree) || worktree=
  find "$folder" -mindepth 1 -maxdepth 1 ! -name objects ! -name modules -exec rm -rf {} +
  mkdir -p "$folder/refs/heads" "$folder/refs/tags"
  printf '%s\n' "$commit" | tee "$folder/HEAD" >"$folder/shallow"
  {
    printf '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n'
    if [[ -n $worktree ]]; then printf '\tworktree = %s\n' "$worktree"; fi
    printf '[remote "origin"]\n\turl = %s\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n' "$url"
  } >"$folder/config"
  if [[ -e $tree/.gitmodules ]]; then
    while IFS=$'\t' read -r key value; do
      git config --file "$folder/config" "$key" "$value"
      git config --file "$folder/config" "${key%.url}.active" true
    done < <(git config --file "$tree/.gitmodules" --get-regexp '^submodule\..*\.url$' | sed 's/ /\t/')
  fi
  git -C "$tree" read-tree HEAD
  git -C "$tree" -c gc.auto=0 -c pack.threads=1 repack -adFnq
  git -C "$tree" prune --expire=now
  rm -rf "$folder/objects/info" "$folder/info"
}

# hand_over PATH [URL]: a finished checkout, and what was registered of it, in /out/root. What its build left behind is
# not there.
hand_over() {
  if [[ -e $1/.git ]]; then
    git -C "$1" clean --quiet --force -d -X -- build csrc/build csrc/build_out csrc/output .deps
  fi
  settle_git "$1" "$2"
  chmod -R u=rwX,go=rX "$1"
  mkdir -p "/out/root$(dirname "$1")"
  mv "$1" "/out/root$1"
  settle /out/root
}

# settle FOLDER: what differs from build to build, removed or made constant.
settle() {
  find "$1" -name __pycache__ -prune -exec rm -rf {} +
  find "$1" -path '*.dist-info/uv_cache.json' -delete
  find "$1" -path '*.dist-info/RECORD' -exec sed -i '/\.dist-info\/uv_cache\.json,/d' {} +
  rm -f "$1$(python_prefix)/.lock"
  find "$1" -exec touch --no-dereference --date=@315532800 {} +
}

# begin_layer, end_layer: around a step that works in the base image itself, so that its files get a constant time.
begin_layer() { touch --date='2 seconds ago' /build/begun; }
end_layer() {
  find / -xdev \( -path /build -o -path /dev -o -path /proc -o -path /run -o -path /sys -o -path /etc/hosts \
    -o -path /etc/resolv.conf \) -prune -o -newer /build/begun -exec touch --no-dereference --date=@315532800 {} +
}
