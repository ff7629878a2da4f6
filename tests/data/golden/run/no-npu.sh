docker run --rm \
  demo:a2 python -V
