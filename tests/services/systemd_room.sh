#!/bin/sh
# A room with a user manager of systemd in it: mounts, pids and cgroups of its own, gone with its init.
# Run it as root below `unshare --mount --pid --fork --cgroup --mount-proc --kill-child`:
#   systemd_room.sh DIRECTORY CMD [ARG...]
set -eu
directory=$1
shift
mount -t tmpfs none /run
mkdir -p /run/systemd/system /run/user/0
chmod 700 /run/user/0
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p "$directory/units" "$directory/config/systemd/user"
printf '[Unit]\nDescription=default\n' >"$directory/units/default.target"
for name in basic shutdown; do
    printf '[Unit]\nDescription=%s\n' $name >"$directory/units/$name.target"
done
bus=unix:path=/run/user/0/bus
if command -v dbus-daemon >/dev/null; then
    dbus-daemon --session --address=$bus --fork --nopidfile
fi
env -i PATH="$PATH" HOME="$directory" XDG_RUNTIME_DIR=/run/user/0 XDG_CONFIG_HOME="$directory/config" \
    DBUS_SESSION_BUS_ADDRESS=$bus \
    SYSTEMD_UNIT_PATH="$directory/units:$directory/config/systemd/user:/run/user/0/systemd/transient" \
    /lib/systemd/systemd --user --log-target=console --log-level=info --unit=default.target \
    >"$directory/systemd.log" 2>&1 </dev/null &
tries=0
until XDG_RUNTIME_DIR=/run/user/0 systemctl --user show --property=Version >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ $tries -gt 100 ]; then
        echo "no user manager came up" >&2
        exit 77
    fi
    sleep 0.1
done
"$@"
