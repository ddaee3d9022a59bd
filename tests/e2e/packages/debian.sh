# What an administrator does with the packages. Runs in the container.
set -eux

state() { systemctl show linerate -p "$1" --value; }
install() { dpkg --install /packages/liblinerate0_*.deb /packages/liblinerate-dev_*.deb /packages/linerate_*.deb; }

install
# Neither enabled nor started.
[ "$(state UnitFileState)" = disabled ]
[ "$(state ActiveState)" = inactive ]
id --name --groups linerate | grep --word-regexp kvm
linerate check /etc/linerate/linerate.toml
zcat /usr/share/man/man1/linerate-ports-add.1.gz | grep --quiet 'ports add'
bash -c '. /usr/share/bash-completion/completions/linerate; complete -p linerate'
pkg-config --modversion linerate
systemctl enable --now linerate
linerate ports add a --socket /run/linerate/guests/a --save
linerate ports show a
[ "$(stat --format=%G /run/linerate/guests/a)" = kvm ]

# Installing again, as an upgrade does, leaves the service alone until it is told to.
before=$(state MainPID)
echo '# changed' >>/etc/linerate/linerate.toml
install
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

dpkg --remove linerate
[ "$(state ActiveState)" = inactive ]
[ ! -e /usr/bin/linerate ]
[ -e /etc/linerate/linerate.toml ]
dpkg --purge linerate liblinerate-dev liblinerate0
[ ! -e /etc/linerate/linerate.toml ]
[ ! -e /run/linerate ]
id linerate
touch /results/done
