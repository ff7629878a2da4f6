# Sets up the environment of NNAL's ATB. Stand-in that sets what the real one sets and, like it, breaks under `set -u`
# (ZSH_VERSION) and asks torch for the C++ ABI unless it is told: source set_env.sh --cxx_abi=1
# shellcheck shell=bash

atb_script="${BASH_SOURCE[0]}"
if [ -n "$ZSH_VERSION" ]; then
  atb_script="$0"
fi
atb_root="$(cd "$(dirname "$(readlink -f "$atb_script")")" && pwd)"
atb_root="${atb_root%/*/atb}/latest/atb"
atb_abi=
for atb_argument in "$@"; do
  case "$atb_argument" in
    --cxx_abi=0 | --cxx_abi=1) atb_abi="${atb_argument#--cxx_abi=}" ;;
  esac
done
if [ -z "$atb_abi" ]; then
  atb_abi=1
  if [ "$(python3 -c 'import torch; print(torch.compiled_with_cxx11_abi())' 2>/dev/null)" = False ]; then
    atb_abi=0
  fi
fi
export ATB_HOME_PATH="$atb_root/cxx_abi_$atb_abi"
export LD_LIBRARY_PATH="$ATB_HOME_PATH/lib:$ATB_HOME_PATH/examples:$ATB_HOME_PATH/tests/atbopstest:$LD_LIBRARY_PATH"
export PATH="$ATB_HOME_PATH/bin:$PATH"
export ATB_STREAM_SYNC_EVERY_KERNEL_ENABLE=0
export ATB_STREAM_SYNC_EVERY_RUNNER_ENABLE=0
export ATB_STREAM_SYNC_EVERY_OPERATION_ENABLE=0
export ATB_OPSRUNNER_KERNEL_CACHE_LOCAL_COUNT=1
export ATB_OPSRUNNER_KERNEL_CACHE_GLOABL_COUNT=5 # the misspelling is the original's
export ATB_WORKSPACE_MEM_ALLOC_ALG_TYPE=1
export ATB_COMPARE_TILING_EVERY_KERNEL=0
export ATB_SHARE_MEMORY_NAME_SUFFIX=""
export ATB_MATMUL_SHUFFLE_K_ENABLE=1
export LCCL_DETERMINISTIC=0
export LCCL_PARALLEL=0
unset atb_script atb_root atb_abi atb_argument
