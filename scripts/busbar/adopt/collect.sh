# Prints files and outputs of one host for `busbar adopt cluster`. It changes nothing. Runs as root: sh -s.
# Each section is a line "@@ KIND NAME" followed by base64. Passwords are removed here, before they leave the host.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/opt/slurm/bin:/opt/slurm/sbin:/cm/shared/apps/slurm/current/bin
export PATH LC_ALL=C
file() {
    [ -f "$1" ] && [ "$(wc -c <"$1")" -lt 1000000 ] || return 0
    printf '@@ file %s\n' "$1"
    sed -E 's/^([[:space:]]*(StoragePass|AccountingStoragePass|JobCompPass|ldap_default_authtok)[[:space:]]*=).*/\1/I' "$1" | base64
}
command_() {
    name=$1
    shift
    command -v "$1" >/dev/null 2>&1 || return 0
    printf '@@ command %s\n' "$name"
    timeout 60 "$@" 2>&1 </dev/null | base64
}
daemons=$(for exe in /proc/[0-9]*/exe; do readlink "$exe"; done 2>/dev/null |
    grep -E '/s?bin/slurm(ctld|dbd|d)(-wlm)?$' | sort -u)
for daemon in $daemons; do PATH=$PATH:${daemon%/*}:${daemon%/sbin/*}/bin; done
config=$(timeout 30 scontrol show config 2>/dev/null)
value() { values "$1" | head -n 1; }
values() { printf '%s\n' "$config" | sed -nE "s/^$1(\\[[0-9]+\\])? *= *//p" | grep -v '^(null)$'; }
conf=$(value SLURM_CONF)
spool=$(value SlurmdSpoolDir | sed "s/%[nh]/$(hostname -s)/")
[ -n "$conf" ] || for conf in /etc/slurm/slurm.conf /etc/slurm-llnl/slurm.conf /opt/slurm/etc/slurm.conf \
    /usr/local/etc/slurm.conf "${spool:-/var/spool/slurmd}/conf-cache/slurm.conf" ""; do [ -f "$conf" ] && break; done
printf '@@ command slurm-conf\n'
printf '%s\n' "$conf" | base64
for path in /etc/passwd /etc/group /etc/hosts /etc/exports /etc/exports.d/* /etc/fstab /etc/auto.* /etc/sudoers \
    /etc/sudoers.d/* /etc/sssd/sssd.conf /etc/pam.d/sshd /etc/ssh/sshd_config /etc/enroot/enroot.conf /etc/nhc/nhc.conf \
    /etc/os-release /etc/default/slurmd /etc/sysconfig/slurmd /etc/ssh/ssh_known_hosts \
    /etc/chrony/chrony.conf /etc/chrony.conf /etc/systemd/timesyncd.conf /etc/ntp.conf; do
    file "$path"
done
beside=$(printf '%s\n' "$daemons" | sed -n 's,/sbin/slurmdbd.*,/etc/slurmdbd.conf,p')
for path in "${conf%/*}/slurmdbd.conf" /etc/slurm/slurmdbd.conf "$beside"; do
    [ ! -f "$path" ] || { file "$path"; break; }
done
for folder in "${conf%/*}" "${spool:+$spool/conf-cache}" /run/slurm/conf; do
    [ -d "$folder" ] || continue
    # /usr/local/etc has files of other programs, and /opt/slurm the programs of Slurm.
    case $folder in *slurm*) depth=9 ;; *) depth=1 ;; esac
    find -L "$folder" -maxdepth $depth -type f ! -path "$folder/*bin/*" ! -path "$folder/share/*" \
        ! -path "$folder/lib/*" ! -path "$folder/lib64/*" ! -iname '*key*' ! -iname '*.pem' ! -iname '*pass*' ! -name 'slurmdbd.conf' 2>/dev/null |
        while read -r path; do file "$path"; done
done
for key in Prolog Epilog TaskProlog TaskEpilog PrologSlurmctld EpilogSlurmctld HealthCheckProgram; do
    # shellcheck disable=SC2046 # the value is a pattern of paths
    for path in $(values "$key"); do file "$path"; done
done
printf '@@ command daemons\n'
ps -eo comm= | sort -u | grep -E '^(slurm|munged|mysqld|mariadbd|sssd|cmd$|cmdaemon|wwclient|autofs|automount)' | base64
printf '@@ command daemon-paths\n%s\n' "$(printf '%s\n' "$daemons" | base64)"
[ -d /cm/local ] && printf '@@ command managed-by\nQnJpZ2h0Cg==\n'
grep -qE '(wwid|wwinit|root=wwfs)' /proc/cmdline 2>/dev/null && printf '@@ command managed-by\nV2FyZXd1bGYK\n'
if [ -n "$config" ]; then
    command_ scontrol-config scontrol show config
    command_ scontrol-partitions scontrol show partition -o
    command_ scontrol-nodes scontrol show node -o
    command_ sinfo-N sinfo -N -l
    command_ sacctmgr-dump sacctmgr -i dump "$(value ClusterName)" File=/dev/stdout
    command_ sacctmgr-qos sacctmgr -P show qos format=Name,Description,Priority,Flags,Preempt,PreemptMode,GraceTime,UsageFactor,GrpJobs,GrpSubmitJobs,GrpTRES,GrpTRESMins,GrpTRESRunMins,GrpWall,MaxJobsPerUser,MaxJobsPerAccount,MaxSubmitJobsPerUser,MaxSubmitJobsPerAccount,MaxTRESPerJob,MaxTRESPerNode,MaxTRESMinsPerJob,MaxWallDurationPerJob,MaxTRESPerUser,MaxTRESPerAccount,MinTRESPerJob
    command_ squeue squeue --all --noheader -o '%i %T %u %P'
fi
[ -n "$conf" ] && command_ slurm-check env SLURM_CONF="$conf" scontrol --version
command_ slurmd-C slurmd -C
[ -r /proc/fs/nfsd/versions ] && command_ nfsd-versions cat /proc/fs/nfsd/versions
[ -r /proc/fs/nfsd/threads ] && command_ nfsd-threads cat /proc/fs/nfsd/threads
command_ hostname uname -n
command_ timezone readlink /etc/localtime
command_ sshd-T sshd -T -C user=nobody,host=localhost,addr=127.0.0.1
if command -v dpkg-query >/dev/null 2>&1; then
    # shellcheck disable=SC2016 # fields of dpkg-query
    command_ dpkg dpkg-query -W -f='Package: ${Package}\nVersion: ${Version}\n'
else
    command_ dpkg rpm -qa --qf 'Package: %{NAME}\nVersion: %{VERSION}-%{RELEASE}\n'
fi
command_ mounts findmnt -rn -o TARGET,SOURCE,FSTYPE,OPTIONS -t nfs,nfs4,lustre,beegfs,wekafs,ceph,cifs,xfs,ext4
command_ nvidia-smi nvidia-smi --query-gpu=name,memory.total,driver_version,mig.mode.current --format=csv,noheader
names=$({ timeout 30 sacctmgr -nP show user format=user 2>/dev/null
    for home in /home/* /home/*/* /shared/home/*; do [ -d "$home" ] && stat -c %U "$home"; done
    value SlurmUser | sed 's/(.*//'; } | sort -u | grep -vE '^(root|UNKNOWN)$' | head -n 20000)
if [ -n "$names" ]; then
    # shellcheck disable=SC2086 # one argument per name
    command_ getent-passwd getent passwd $names
    # shellcheck disable=SC2086
    [ -d /etc/sssd ] && command_ getent-sss getent -s sss passwd $names
    groups=$(for name in $names; do id -Gn "$name" 2>/dev/null; done | tr ' ' '\n' | sort -u)
    # shellcheck disable=SC2086
    command_ getent-group getent group $groups
    printf '@@ command authorized-keys\n'
    for name in $names; do
        home=$(getent passwd "$name" | cut -d: -f6)
        [ -f "$home/.ssh/authorized_keys" ] && printf '%s %s\n' "$name" "$(grep -c '^[^#]' "$home/.ssh/authorized_keys")"
    done | base64
fi
for path in /etc/munge/munge.key /etc/slurm/slurm.key /etc/slurm/slurm.conf; do
    [ -e "$path" ] && command_ "sha256-${path##*/}" sha256sum "$path"
done
for path in /etc/ssh/ssh_host_*_key.pub; do
    [ -f "$path" ] && command_ "hostkey-${path##*/}" ssh-keygen -l -f "$path"
done
printf '@@ end\n'
