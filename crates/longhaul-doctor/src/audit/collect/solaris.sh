#!/bin/sh
# Shows the TCP settings of this Solaris host for `longhaul audit`. It changes nothing, and an ordinary user may run it (not tried on such a host):
#   sh solaris.sh >HOST.txt
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
# Solaris 11. Older releases do not have the last two properties.
show ipadm show-prop -p max_buf,recv_buf,send_buf,_cwnd_max tcp
show ipadm show-prop -p sack,ecn tcp
show ipadm show-prop -p cong_default tcp
show ipadm show-prop -p cong_enabled tcp
# Solaris 10.
for name in tcp_max_buf tcp_recv_hiwat tcp_xmit_hiwat tcp_cwnd_max tcp_sack_permitted; do
    show ndd -get /dev/tcp "$name"
done
