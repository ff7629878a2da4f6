docker run --rm \
  --device /dev/davinci0 \
  --device /dev/davinci_manager \
  --device /dev/hisi_hdc \
  --device /dev/ummu \
  --device /dev/uburma \
  --mount type=bind,source=/usr/local/Ascend/driver,target=/usr/local/Ascend/driver,readonly \
  --mount type=bind,source=/usr/local/dcmi,target=/usr/local/dcmi,readonly \
  --mount type=bind,source=/etc/ascend_install.info,target=/etc/ascend_install.info,readonly \
  --mount type=bind,source=/etc/hixlep,target=/etc/hixlep,readonly \
  --mount type=bind,source=/lib/route.conf,target=/lib/route.conf,readonly \
  --mount type=bind,source=/usr/local/bin/npu-smi,target=/usr/local/bin/npu-smi,readonly \
  --shm-size 1g \
  demo:950
