# Turns an image of Rocky Linux or AlmaLinux into a bare node; `busbar sandbox up` builds it.
ARG BASE
FROM ${BASE}
# Slurm, munge and others come from EPEL, whose packages need those of CRB.
RUN dnf --assumeyes --setopt=install_weak_deps=False install \
        ca-certificates dnf-plugins-core epel-release hostname openssh-server python3 python3-dnf sudo systemd util-linux \
    && dnf config-manager --set-enabled crb \
    && systemctl enable sshd && systemctl set-default multi-user.target \
    && dnf clean all
# The same as for images of mmdebstrap: COMMON_HOOKS of scripts/busbar/sandbox/image.py.
ARG HOOKS
RUN sh -euc "${HOOKS}" hooks /
