"""Pins: versions.toml becomes a Variant; knows nothing of networks, engines or the clock."""
