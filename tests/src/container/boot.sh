# Boots systemd in a container until `steps.sh` of the folder for results, $1, has ended. The container sees this
# machine's files, with an empty layer above them, and what the further arguments of systemd-nspawn bind.
set -euo pipefail
results=$1
shift

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
cat >etc/systemd/system/steps.service <<'END'
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash /results/steps.sh
ExecStopPost=/bin/systemctl poweroff
StandardOutput=file:/results/steps.log
StandardError=inherit
END
printf '[Unit]\nRequires=basic.target steps.service\nAfter=basic.target\n' >etc/systemd/system/steps.target

exec systemd-nspawn --directory=. --register=no --keep-unit --private-network --console=pipe \
    "--bind=$results:/results" "$@" --boot systemd.unit=steps.target
