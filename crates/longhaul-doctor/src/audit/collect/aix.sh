#!/bin/sh
# Shows the TCP settings of this AIX host for `longhaul audit`. It changes nothing, and an ordinary user may run it (not tried on such a host):
#   sh aix.sh >HOST.txt
PATH=$PATH:/usr/sbin:/etc
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
show oslevel -s
show no -a
show ifconfig -a
for interface in $(ifconfig -l); do
    show lsattr -El "$interface"
done
show netstat -s
