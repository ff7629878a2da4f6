"""The one list of variables by which a caller points git at a repository of its own."""

from ascend_images.git_environment import OTHER_REPOSITORY, without_repository


def test_what_points_at_a_repository_is_left_out_and_nothing_else() -> None:
    kept = {"PATH": "/bin", "GIT_SSH_COMMAND": "ssh -v", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_GLOBAL": "/c"}
    assert without_repository({**kept, **dict.fromkeys(OTHER_REPOSITORY, "/elsewhere")}) == kept
    assert {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"} <= set(OTHER_REPOSITORY)
