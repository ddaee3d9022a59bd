# Boots systemd in a container until `steps.sh` has ended. The container sees this machine's files, with an empty layer
# above them: $1 a folder for results, $2 the program, $3 the folder of the unit.
set -euo pipefail
results=$1 program=$2 units=$3

# Both mounts end with the mount namespace of this process.
layer="$results/layer"
mkdir "$layer"
mount -t tmpfs tmpfs "$layer"
cd "$layer"
mkdir -p upper work root
mount -t overlay overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" root
cd root

# The number of the machine would be that of the host.
rm -f etc/machine-id
printf '%032d\n' 1 >etc/machine-id
mkdir -p etc/linerate etc/systemd/system/linerate.service.d usr/lib/sysusers.d usr/lib/tmpfiles.d
cp "$units/linerate.service" etc/systemd/system/
cp "$units/sysusers.conf" usr/lib/sysusers.d/linerate.conf
cp "$units/tmpfiles.conf" usr/lib/tmpfiles.d/linerate.conf
cp "$results/switch.toml" etc/linerate/linerate.toml
printf '[Service]\nWatchdogSec=3\n' >etc/systemd/system/linerate.service.d/watchdog.conf
cat >etc/systemd/system/steps.service <<'END'
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash /results/steps.sh
StandardOutput=file:/results/steps.log
StandardError=inherit
END
printf '[Unit]\nRequires=basic.target steps.service\nAfter=basic.target\n' >etc/systemd/system/steps.target

exec systemd-nspawn --directory=. --register=no --keep-unit --private-network --console=pipe \
    "--bind=$results:/results" "--bind-ro=$program:/usr/bin/linerate" --boot systemd.unit=steps.target
