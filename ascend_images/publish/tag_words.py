"""The texts of the lists of supported tags in each language."""

# ruff: noqa: RUF001 - Chinese has commas and colons of its own

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Words:
    """The texts of a page in one language."""

    title: str
    made: str
    intro: str
    nothing: str
    supported: str
    history: str
    planned: str
    planned_intro: str
    columns: tuple[str, ...]
    planned_columns: tuple[str, ...]
    until_replaced: str
    gone: str
    overlay: str
    not_told: str
    experimental: str
    not_on_npu: str
    stand_in: str
    all_published: str


ENGLISH = Words(
    title="Supported tags",
    made="Generated from versions.toml and published.json by `invoke tags`: change those, not this file.",
    intro=(
        "Every tag holds one image for each platform named. It got its tag after every required check had passed on "
        "the digest that stands beside it, but for what its row says was waived; pull by digest to keep it: "
        "`docker pull REPOSITORY@DIGEST`."
    ),
    nothing="Nothing is published yet.",
    supported="Published",
    history="No longer supported",
    planned="In versions.toml, not published yet",
    planned_intro="What `invoke promote` will name these images once they are built and verified.",
    columns=(
        *("Tag", "Platforms", "Hardware", "CANN", "OS", "Python", "Components", "Host driver", "Digest", "Dockerfile"),
        *("Published", "End of support"),
    ),
    planned_columns=("Tag", "Variant", "Platforms", "Hardware", "CANN", "OS", "Python", "Components", "Host driver"),
    until_replaced="when its successor is published",
    gone="its variant is no longer in versions.toml",
    overlay="{cann} laid over {base}",
    not_told="no table says",
    experimental="experimental: {why}",
    not_on_npu="not verified on an NPU: {why}",
    stand_in="made of stand-ins by --sandbox, on a registry of one machine: what this row names is not in it",
    all_published="Everything in versions.toml is published.",
)
CHINESE = Words(
    title="支持的标签",
    made="由 `invoke tags` 根据 versions.toml 和 published.json 生成：请修改这两个文件，不要修改本文件。",
    intro=(
        "每个标签对所列的每个平台各含一个镜像。只有在旁边所列的摘要通过全部必需检查（所在行注明免除的除外）之后，"
        "镜像才会获得标签；如需固定版本，请按摘要拉取：`docker pull REPOSITORY@DIGEST`。"
    ),
    nothing="目前尚未发布任何镜像。",
    supported="已发布",
    history="不再支持",
    planned="在 versions.toml 中，尚未发布",
    planned_intro="这些镜像构建并通过验证后，`invoke promote` 将使用的名称。",
    columns=(
        *("标签", "平台", "硬件", "CANN", "操作系统", "Python", "组件", "主机驱动", "摘要", "Dockerfile"),
        *("发布日期", "支持终止"),
    ),
    planned_columns=("标签", "变体", "平台", "硬件", "CANN", "操作系统", "Python", "组件", "主机驱动"),
    until_replaced="后继版本发布时",
    gone="其变体已不在 versions.toml 中",
    overlay="{cann}（叠加在 {base} 之上）",
    not_told="没有表格说明",
    experimental="实验性：{why}",
    not_on_npu="未在 NPU 上验证：{why}",
    stand_in="由 --sandbox 用替身构建，位于单机的镜像仓库中：并不包含本行所列的内容",
    all_published="versions.toml 中的内容均已发布。",
)
#: The pages by their path below the repository's root.
PAGES: Mapping[str, Words] = {"docs/supported_tags.md": ENGLISH, "docs/supported_tags.zh.md": CHINESE}
