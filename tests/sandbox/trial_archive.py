"""Test packages, installed in version 1, and archives on the host that offer version 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from conftest import Cluster

SECURITY, PLAIN = "Debian-Security", "Debian"
# The label that unattended-upgrades accepts for security updates, with the host's release.
_OFFER = """set -e; top=/var/tmp/trial-archive; mkdir -p $top/made
for version in 1 2; do
  folder=$top/made/{name}-$version; mkdir -p $folder/DEBIAN
  printf 'Package: {name}\\nVersion: %s\\nArchitecture: all\\nMaintainer: test\\nDescription: test\\n' $version \\
    >$folder/DEBIAN/control
  dpkg-deb --build $folder $top/{name}_$version.deb
done
dpkg -i $top/{name}_1.deb
archive=$top/{name}; mkdir -p $archive; cp $top/{name}_2.deb $archive; cd $archive
{{ dpkg-deb -f {name}_2.deb; echo Filename: ./{name}_2.deb; echo Size: $(stat -c %s {name}_2.deb)
  echo SHA256: $(sha256sum {name}_2.deb | cut -c-64); echo; }} >Packages
codename=$(. /etc/os-release; echo $VERSION_CODENAME){suffix}
printf 'Origin: Debian\\nLabel: {label}\\nSuite: trial\\nVersion: 1\\nCodename: %s\\nSHA256:\\n %s %s Packages\\n' \\
  $codename \\
  $(sha256sum Packages | cut -c-64) $(stat -c %s Packages) >Release
echo "deb [trusted=yes] file:$archive ./" >/etc/apt/sources.list.d/trial-{name}.list
"""


def offer(cluster: Cluster, node: str, packages: Mapping[str, str]) -> None:
    """Install packages, and create archives with these labels that offer newer versions."""
    for name, label in packages.items():
        suffix = "-security" if label == SECURITY else ""
        cluster.exec(node, _OFFER.format(name=name, label=label, suffix=suffix))


def versions(cluster: Cluster, node: str, packages: Iterable[str]) -> list[str]:
    """Return the packages with their versions, sorted."""
    shown = cluster.exec(node, f"dpkg-query -W -f '${{Package}} ${{Version}}\n' {' '.join(packages)}")
    return sorted(shown.stdout.splitlines())


def forget(cluster: Cluster, node: str, packages: Iterable[str]) -> None:
    """Remove packages and archives."""
    cluster.exec(
        node,
        f"apt-get -y -qq purge {' '.join(packages)}; rm -rf /var/tmp/trial-archive "
        "/etc/apt/sources.list.d/trial-*.list /var/lib/apt/lists/*trial-archive*",
    )
