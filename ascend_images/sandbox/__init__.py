"""The sandbox: what stands in for an NPU machine's images, sources and registries, for a plain Linux machine."""
