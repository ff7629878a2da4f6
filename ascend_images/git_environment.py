"""Environments for git that leave it to the folder which repository is meant."""

from collections.abc import Mapping

#: By these a caller (a git hook, say) points git at a repository of its own (`git rev-parse --local-env-vars`).
OTHER_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_SHALLOW_FILE",
    "GIT_NAMESPACE",
)


def without_repository(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which no variable points git at a repository; settings of git's stay."""
    return {name: value for name, value in environment.items() if name not in OTHER_REPOSITORY}
