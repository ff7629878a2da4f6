docker run --rm -it \
  --name My_Run \
  --device /dev/davinci0 \
  --device /dev/davinci_manager \
  --device /dev/devmm_svm \
  --device /dev/hisi_hdc \
  --group-add 1000 \
  --user 2000 \
  --mount type=bind,source=/usr/local/Ascend/driver/lib64,target=/usr/local/Ascend/driver/lib64,readonly \
  --mount type=bind,source=/usr/local/Ascend/driver/version.info,target=/usr/local/Ascend/driver/version.info,readonly \
  --mount type=bind,source=/usr/local/dcmi,target=/usr/local/dcmi,readonly \
  --mount type=bind,source=/etc/ascend_install.info,target=/etc/ascend_install.info,readonly \
  --mount type=bind,source=/usr/local/bin/npu-smi,target=/usr/local/bin/npu-smi,readonly \
  --mount 'type=bind,source=/data/my models,target=/mnt/workspace' \
  --mount 'type=bind,"source=/data, old",target=/data' \
  -e MODELSCOPE_CACHE=/mnt/workspace/.cache/modelscope/hub \
  -e HF_HOME=/mnt/workspace/.cache/huggingface \
  -e XDG_CACHE_HOME=/mnt/workspace/.cache \
  -e 'GREETING=it'"'"'s $HOME' \
  --shm-size 16g \
  --network host \
  --ipc host \
  --privileged \
  demo:a2 python -c 'print("a b", '"'"'c'"'"', "$HOME", `x`)
' '' '*' '$(POD)' 'a \
  b' '!x\' '~' '#'
