"""Checks: questions to facts, asked in the order of these imports, since later ones hang on earlier ones."""

# ruff: noqa: F401, I001

from ..answers import CHECKS
from . import platform, packages, demands, sources, startup, environment, foreign, traces, shells, cann, libraries
from . import nodes, chips, imports, computing

__all__ = ["CHECKS"]
