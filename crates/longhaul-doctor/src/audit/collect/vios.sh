#!/bin/sh
# Shows the attributes of the network adapters of this VIOS for `longhaul audit`. It changes nothing. The restricted shell of
# padmin starts no scripts: log in as padmin, and paste the lines below. Not tried on a VIOS.
show() {
    echo "\$ $*"
    "$@"
}

show hostname
show ioslevel
for adapter in $(lsdev -type adapter -field name -fmt :); do
    case $adapter in
        ent*) show lsdev -dev "$adapter" -attr ;;
    esac
done
