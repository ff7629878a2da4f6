docker run --rm \
  --runtime ascend \
  --mount type=bind,source=/usr/local/Ascend/driver/version.info,target=/usr/local/Ascend/driver/version.info,readonly \
  --mount type=bind,source=/etc/ascend_install.info,target=/etc/ascend_install.info,readonly \
  -e ASCEND_VISIBLE_DEVICES=0,1 \
  --shm-size 1g \
  demo:a2
