#!/bin/sh
# A room with a manager of systemd in it: mounts, pids, cgroups and a host name of its own, gone with
# its first process. As root, below `unshare --mount --pid --fork --cgroup --uts --mount-proc --kill-child`:
#   systemd_room.sh systemd-user|systemd DIRECTORY CMD [ARG...]
# CMD runs beside the manager; what it prints is in DIRECTORY/out, its status in DIRECTORY/status.
set -eu
manager=$1 directory=$2
shift 2
mount -t tmpfs none /run
mkdir -p /run/systemd/system /run/user/0
chmod 700 /run/user/0
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 none /sys/fs/cgroup

# Units of this room alone: none of the machine's own are started.
units=$directory/units config=$directory/config
mkdir -p "$units" "$config/systemd/user" "$config/systemd/system"
for name in default basic sysinit shutdown exit umount final; do
    printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' $name >"$units/$name.target"
done
cat >"$directory/cmd" <<EOT
status=0
"\$@" >"$directory/out" 2>"$directory/err" || status=\$?
echo \$status >"$directory/status"
EOT

if [ "$manager" = systemd ]; then
    mount --bind "$config/systemd" /etc/systemd
    printf 'Wants=cmd.service\n' >>"$units/default.target"
    {
        printf '[Unit]\nDescription=what is tested\nDefaultDependencies=no\n[Service]\nType=exec\n'
        printf 'Environment="PATH=%s" "PYTHONPATH=%s"\n' "$PATH" "${PYTHONPATH:-}"
        printf 'ExecStart=/bin/sh %s/cmd' "$directory"
        printf ' "%s"' "$@"
        printf '\nExecStopPost=/bin/systemctl --system --force exit\n'
    } >"$units/cmd.service"
    exec env -i container=lxc PATH="$PATH" SYSTEMD_UNIT_PATH="$units:/etc/systemd/system" \
        /lib/systemd/systemd --system --unit=default.target --log-target=console --log-level=info
fi

bus=unix:path=/run/user/0/bus
if command -v dbus-daemon >/dev/null; then
    dbus-daemon --session --address=$bus --fork --nopidfile
fi
env -i PATH="$PATH" HOME="$directory" XDG_RUNTIME_DIR=/run/user/0 XDG_CONFIG_HOME="$config" \
    DBUS_SESSION_BUS_ADDRESS=$bus \
    SYSTEMD_UNIT_PATH="$units:$config/systemd/user:/run/user/0/systemd/transient" \
    /lib/systemd/systemd --user --unit=default.target --log-target=console --log-level=info </dev/null &
tries=0
until XDG_RUNTIME_DIR=/run/user/0 systemctl --user show --property=Version >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || exit 77
    sleep 0.1
done
sh "$directory/cmd" "$@"
