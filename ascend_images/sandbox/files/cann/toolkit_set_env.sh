# Sets up the environment of the CANN release that this file belongs to. Stand-in: no CANN is in it, but the variables
# are those that the toolkit's own script (8.5 and later) sets, in its order, and it breaks where that one breaks: under
# `set -u` at $1, and under `set -e -o pipefail` where /etc/ascend_install.info lacks the key.
# shellcheck shell=bash

cann_chosen=$1 # another release of the same installation may be named: cann-8.5.2
cann_home="$(dirname "$(readlink -f "${BASH_SOURCE[0]:-$0}")")"
case "$cann_chosen" in
  cann-*) if [ -d "$(dirname "$cann_home")/$cann_chosen" ]; then cann_home="$(dirname "$cann_home")/$cann_chosen"; fi ;;
esac
cann_arch="$(uname -m)"
cann_driver=n
cann_drivers=/usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64/common:/usr/local/Ascend/driver/lib64/driver

# Prints the entries of a variable, one a line. An empty last entry, which means the current directory, is one too.
cann_entries() {
  eval echo "\"\${$1}\"" | tr ':' '\n'
}

cann_join() {
  local joined
  joined="$(tr '\n' ':')"
  echo "${joined%:}"
}

# Entries of releases under the same root go; those of ascend-toolkit/latest stay.
cann_remove_releases() {
  local kept
  kept="$(cann_entries "$1" | sed -E "\|^$(dirname "$cann_home")/cann[/_-]|d" | cann_join)"
  eval "export $1=\"\$kept\""
}

cann_before() {
  local kept
  kept="$(cann_entries "$1" | sed "\|^$2\$|d" | cann_join)"
  eval "export $1=\"$2\${kept:+:\$kept}\""
}

cann_after() {
  local kept
  kept="$(cann_entries "$1" | sed "\|^$2\$|d" | cann_join)"
  eval "export $1=\"\${kept:+\$kept:}$2\""
}

cann_find_driver() {
  local folder
  for folder in $(echo "$LD_LIBRARY_PATH" | tr ':' ' '); do
    case "$folder" in
      *driver*) if [ -e "$folder/libascend_hal.so" ]; then cann_driver=y; fi ;;
    esac
  done
  if [ -f /etc/ascend_install.info ]; then
    cann_driver_root="$(grep -iw driver_install_path_param /etc/ascend_install.info | cut --only-delimited -d= -f2-)"
    if [ -n "$cann_driver_root" ] && [ -d "$cann_driver_root/driver" ]; then
      if [ -n "$(find "$cann_driver_root/driver" -name libascend_hal.so 2>/dev/null)" ]; then cann_driver=y; fi
    fi
  fi
  case ":$PATH:" in
    *:/sbin:*) ;;
    *) export PATH="$PATH:/sbin" ;;
  esac
  if command -v ldconfig >/dev/null; then
    if ldconfig -p | grep -q -- libascend_hal.so; then cann_driver=y; fi
  fi
}

cann_find_driver
for cann_variable in PATH LD_LIBRARY_PATH PYTHONPATH; do
  cann_remove_releases "$cann_variable"
done
cann_before PATH "$cann_home/bin:$cann_home/tools/ccec_compiler/bin:$cann_home/tools/profiler/bin:$cann_home/tools/ascend_system_advisor/asys:$cann_home/tools/show_kernel_debug_data:$cann_home/tools/msobjdump"
cann_before LD_LIBRARY_PATH "$cann_home/lib64:$cann_home/lib64/plugin/opskernel:$cann_home/lib64/plugin/nnengine:$cann_home/opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/$cann_arch:$cann_home/tools/aml/lib64:$cann_home/tools/aml/lib64/plugin:$cann_drivers"
export PYTHONPATH="$cann_home/python/site-packages:$cann_home/opp/built-in/op_impl/ai_core/tbe:$PYTHONPATH"
if [ "$cann_driver" = n ]; then
  cann_after LD_LIBRARY_PATH "$cann_home/devlib"
fi
cann_before CMAKE_PREFIX_PATH "$cann_home/lib64/cmake"
cann_before CMAKE_PREFIX_PATH "$cann_home/toolkit/tools/tikicpulib/lib/cmake"
export ASCEND_TOOLKIT_HOME="$cann_home"
export ASCEND_HOME_PATH="$cann_home"
export ASCEND_AICPU_PATH="$cann_home"
export ASCEND_OPP_PATH="$cann_home/opp"
export TOOLCHAIN_HOME="$cann_home/toolkit"
unset cann_chosen cann_home cann_arch cann_driver cann_driver_root cann_drivers cann_variable
unset -f cann_entries cann_join cann_remove_releases cann_before cann_after cann_find_driver
