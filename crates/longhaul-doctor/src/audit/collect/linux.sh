#!/bin/sh
# Shows the TCP settings of this Linux host for `longhaul audit`. It changes nothing, and an ordinary user may run it:
#   sh linux.sh >HOST.txt
# `ss` shows the addresses of open connections.
PATH=$PATH:/usr/sbin:/sbin
LC_ALL=C
export PATH LC_ALL

# Shows a command as behind a prompt, and its output. Names a command that is missing.
show() {
    echo "\$ $*"
    if command -v "$1" >/dev/null; then
        "$@" 2>/dev/null || :
    else
        echo "missing: $1"
    fi
}

show uname -n
show uname -r
# By name, because other sysctls of TCP are secret (tcp_fastopen_key).
for name in core/default_qdisc core/rmem_max core/wmem_max ipv4/tcp_adv_win_scale ipv4/tcp_available_congestion_control \
    ipv4/tcp_congestion_control ipv4/tcp_ecn ipv4/tcp_mem ipv4/tcp_moderate_rcvbuf ipv4/tcp_mtu_probing \
    ipv4/tcp_no_metrics_save ipv4/tcp_notsent_lowat ipv4/tcp_rmem ipv4/tcp_sack ipv4/tcp_slow_start_after_idle \
    ipv4/tcp_timestamps ipv4/tcp_window_scaling ipv4/tcp_wmem; do
    # A namespace, or an older kernel, does not have all of them.
    if [ -r "/proc/sys/net/$name" ]; then
        show cat "/proc/sys/net/$name"
    fi
done
show ip link
show ip route
show tc qdisc
for path in /sys/class/net/*; do
    show ethtool -k "${path##*/}"
done
show ss -tinm
# -s: without it, nstat writes a file with what it has shown.
show nstat -azs
show systemctl show longhaul.service -p LoadState -p LimitNOFILE -p MemoryMax -p TasksMax
