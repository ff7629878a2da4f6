#!/bin/sh
# Stand-in for npu-smi: speaks the layout @LAYOUT@ about the device nodes that it sees, as the real one does in a
# container. Where a file npu-smi.says lies beside it, it prints that and fails: the driver's errors.
layout=@LAYOUT@ name=@NAME@ npu_name=@NPU_NAME@ memory=@MEMORY@ version=@VERSION@
here=$(cd "$(dirname "$0")" && pwd)
dev=${here%/usr/local/bin}/dev

if [ -f "$here/npu-smi.says" ]; then
    cat "$here/npu-smi.says"
    exit 255
fi

numbers=$(for node in "$dev"/davinci[0-9]*; do
    case ${node##*/davinci} in *[!0-9]*) ;; *) echo "${node##*/davinci}" ;; esac
done | sort -n)

board() {
    case $layout in
    a2) printf '\tChip Type                      : Ascend\n\tChip Name                      : %s\n' "$name" ;;
    a3) printf '\tChip Name                      : %s\n\tNPU Name                       : %s\n' "$name" "$npu_name" ;;
    310p) printf '\tChip Type                      : Ascend\n\tChip Name                      : %s\n' "$name" ;;
    950) printf '\tChip Name                      : %s\n\tNPU Name                       : %s\n' "$name" "$npu_name" ;;
    esac
}

head() {
    echo "+------------------------------------------------------------------------------------------------+"
    printf '| npu-smi %-25sVersion: %-54s|\n' "$version" "$version"
    echo "+---------------------------+---------------+----------------------------------------------------+"
    case $layout in
    950)
        echo "| NPU ID | Name             | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |"
        echo "|        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         |"
        ;;
    *)
        echo "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|"
        case $layout in
        a2) echo "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |" ;;
        a3) echo "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |" ;;
        310p) echo "| Chip  Device              | Bus-Id        | AICore(%)   Memory-Usage(MB)                       |" ;;
        esac
        ;;
    esac
    echo "+===========================+===============+====================================================+"
}

rows() {
    for n in $numbers; do
        case $layout in
        a2)
            printf '| %-6s%-20s| OK            | 93.1        41                0    / 0             |\n' "$n" "$name"
            printf '| 0                         | 0000:C1:00.0  | 0           0    / 0          2801 / %-14s|\n' "$memory"
            ;;
        a3)
            printf '| %-6s%-20s| OK            | 171.2       36                0    / 0             |\n' "$((n / 2))" "$name"
            printf '| %-6s%-20s| 0000:9D:00.0  | 0           0    / 0          3102 / %-14s|\n' "$((n % 2))" "$n" "$memory"
            ;;
        310p)
            printf '| %-6s%-20s| OK            | NA          48                0    / 0             |\n' "$((n / 2))" "$name"
            printf '| %-6s%-20s| 0000:01:00.0  | 0           1203 / %-32s|\n' "$((n % 2))" "$n" "$memory"
            ;;
        950)
            printf '| %-7s| %-17s| OK            | 301.4       39                0     / 0             |\n' "$n" "$name"
            printf '|        |                  | 0000:2B:00.0  | 0           0    / 0          4410  / %-14s|\n' "$memory"
            ;;
        esac
        echo "+===========================+===============+====================================================+"
    done
}

case "$*" in
info)
    if [ -z "$numbers" ]; then
        echo "dcmi module initialize failed. ret is -8005"
        exit 255
    fi
    head
    rows
    ;;
"info -l")
    printf '\tTotal Count                    : %s\n' "$(echo "$numbers" | wc -w)"
    for n in $numbers; do printf '\n\tNPU ID                         : %s\n\tChip Count                     : 1\n' "$n"; done
    ;;
"info -t board -i "*)
    case $layout/$* in
    950/*-c*) echo "This device does not support the parameter -c."; exit 1 ;;
    esac
    board
    ;;
"info -m")
    echo "NPU ID                         Chip ID                        Chip Logic ID                  Chip Name"
    for n in $numbers; do printf '%-31s%-31s%-31s%s\n' "$n" 0 "$n" "$name"; done
    ;;
*)
    echo "npu-smi: unknown words: $*" >&2
    exit 1
    ;;
esac
