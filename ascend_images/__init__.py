"""Ascend NPU container images from one pin file: load, render, build, check."""

__version__ = "0.1.0"
