"""The installer that a build uses: one version of uv, by hash, for both architectures."""

UV_VERSION = "0.13.9"
#: Of the wheels for x86_64 (manylinux_2_17) and aarch64 (2_17, 2_28), as the default index has them.
UV_HASHES = (
    "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    "5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe",
    "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
)
UV_REQUIREMENT = " ".join([f"uv=={UV_VERSION}", *(f"--hash=sha256:{digest}" for digest in UV_HASHES)])
