# Busy cycles of the switch per packet, as the switch reports them. Prepended as text to a script, after hosts.sh.
#   SUBJECT    linerate, bridge (linerate without flow tables), ovs or testpmd
#   LINERATE, FOLDER

# Starts counting cycles.
begin_cycles() {
    case "$SUBJECT" in
        linerate | bridge) "$LINERATE" --control "$FOLDER/c" workers show -o json >before.json ;;
        testpmd) printf 'clear fwd stats all\n' >&3 ;;
        ovs) ovs-appctl -t "$FOLDER"/ovs-vswitchd*.ctl dpif-netdev/pmd-stats-clear ;;
    esac
}

# Prints the cycles per packet since `begin_cycles`, or 0 if the switch does not report them.
end_cycles() {
    case "$SUBJECT" in
        linerate | bridge)
            "$LINERATE" --control "$FOLDER/c" workers show -o json >after.json
            python3 -c '
import json
total = lambda file, key: sum(worker[key] for worker in json.load(open(file))["workers"])
busy, packets = (total("after.json", key) - total("before.json", key) for key in ("busy_cycles", "packets"))
print(busy / packets if packets else 0)'
            ;;
        testpmd)
            printf 'show fwd stats all\n' >&3
            sleep 0.5
            sed -n 's/.*CPU cycles\/packet=\([0-9.]*\).*/\1/p' switch.log | tail -n 1 | grep . || echo 0
            ;;
        ovs)
            ovs-appctl -t "$FOLDER"/ovs-vswitchd*.ctl dpif-netdev/pmd-stats-show |
                sed -n 's/.*avg processing cycles per packet: \([0-9.]*\).*/\1/p' | head -n 1 | grep . || echo 0
            ;;
    esac
}
