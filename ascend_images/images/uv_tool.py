"""The installer that a build uses: one version of uv, by hash, for both architectures."""

UV_VERSION = "0.13.9"
#: Of the manylinux wheels for x86_64 and aarch64, as the default index has them.
UV_HASHES = (
    "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    "5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe",
)
UV_REQUIREMENT = " ".join([f"uv=={UV_VERSION}", *(f"--hash=sha256:{digest}" for digest in UV_HASHES)])
