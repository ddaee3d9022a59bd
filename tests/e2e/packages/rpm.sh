# What an administrator of an RPM system does with the packages. Runs in the container, whose packages are Debian's: RPM
# finds none of the dependencies in its own database.
set -eux

state() { systemctl show linerate -p "$1" --value; }
add() { rpm --force-debian --nodeps "$@" /packages/linerate-*.rpm; }

add --install
# Neither enabled nor started.
[ "$(state UnitFileState)" = disabled ]
[ "$(state ActiveState)" = inactive ]
id --name --groups linerate | grep --word-regexp kvm
linerate check /etc/linerate/linerate.toml
rpm --query --requires linerate | grep --line-regexp systemd
rpm --query --list linerate-devel | grep --line-regexp /usr/include/linerate.h
# Files are as they were packaged.
rpm --verify --nodeps linerate linerate-libs linerate-devel
systemctl enable --now linerate
linerate ports add a --socket /run/linerate/guests/a --save
[ "$(stat --format=%G /run/linerate/guests/a)" = kvm ]

# Installing again, as an upgrade does, leaves the service alone until it is told to.
before=$(state MainPID)
echo '# changed' >>/etc/linerate/linerate.toml
add --reinstall
[ "$(state MainPID)" = "$before" ]
linerate upgrade
# systemd learns its process after the answer.
for _ in $(seq 100); do
    [ "$(state MainPID)" = "$before" ] || break
    sleep 0.1
done
[ "$(state MainPID)" != "$before" ]
linerate ports show a
tail --lines=1 /etc/linerate/linerate.toml | grep --line-regexp '# changed'

rpm --force-debian --erase linerate linerate-devel linerate-libs
[ "$(state ActiveState)" = inactive ]
[ ! -e /usr/bin/linerate ]
tail --lines=1 /etc/linerate/linerate.toml.rpmsave | grep --line-regexp '# changed'
id linerate
touch /results/done
