# What an administrator does to linerate.service. Runs in the container; leaves the state after each step in /results.
set -ux

state() {
    systemctl show linerate -p MainPID -p NFileDescriptorStore -p NRestarts -p ActiveState >"/results/$1"
}
control() { linerate --control /run/linerate/control.sock "$@"; }
main() { systemctl show linerate -p MainPID --value; }

mkdir -p /etc/linerate /etc/systemd/system/linerate.service.d
cp /units/linerate.service /etc/systemd/system/
cp /units/sysusers.conf /usr/lib/sysusers.d/linerate.conf
cp /units/tmpfiles.conf /usr/lib/tmpfiles.d/linerate.conf
cp /results/switch.toml /etc/linerate/linerate.toml
printf '[Service]\nWatchdogSec=3\n' >/etc/systemd/system/linerate.service.d/watchdog.conf
systemctl daemon-reload
systemd-sysusers
systemd-tmpfiles --create /usr/lib/tmpfiles.d/linerate.conf
systemctl start linerate
state started

port=kind=virtio-user,socket=/run/linerate/guests
linerate gen --port $port/a --port $port/b --no-baseline --rate 10kpps --duration 6s --warm-up 0s --timeout 10s \
    -o json >/results/gen.json 2>/results/gen.log &
generator=$!
sleep 2
systemctl restart linerate
state restarted
control ports show -o json >/results/ports.json
systemctl reload linerate
state reloaded
control upgrade
sleep 1
state upgraded
wait $generator

# The watchdog ends a process that hangs.
kill -STOP "$(main)"
for _ in $(seq 200); do
    [ "$(systemctl show linerate -p NRestarts --value)" = 0 ] || break
    sleep 0.1
done
# Waits for the start that systemd has begun.
systemctl start linerate
state hung

systemctl stop linerate
state stopped
journalctl -u linerate --no-pager >/results/journal
touch /results/done
