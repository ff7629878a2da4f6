docker run --rm \
  --device /dev/davinci0 \
  --device /dev/davinci_manager \
  --device /dev/devmm_svm \
  --device /dev/hisi_hdc \
  --mount type=bind,source=/usr/local/Ascend/driver/lib64,target=/usr/local/Ascend/driver/lib64,readonly \
  --mount type=bind,source=/usr/local/Ascend/driver/version.info,target=/usr/local/Ascend/driver/version.info,readonly \
  --mount type=bind,source=/usr/local/dcmi,target=/usr/local/dcmi,readonly \
  --mount type=bind,source=/etc/ascend_install.info,target=/etc/ascend_install.info,readonly \
  --mount type=bind,source=/usr/local/bin/npu-smi,target=/usr/local/bin/npu-smi,readonly \
  --mount type=bind,source=/models,target=/models,readonly \
  --shm-size 1g \
  --publish 8000:8000 \
  --publish 127.0.0.1:9000-9001:90-91 \
  --publish '[::1]::5000/udp' \
  --publish 22 \
  demo:a2 vllm serve /models/Qwen3-0.6B
