#!/bin/sh
# Fills a folder with the arm64 libraries this project links, from the distribution's own archive.
#
#   tools/cross/sysroot.sh FOLDER
#
# The packages are unpacked, not installed: dpkg's database stays as it is and root is not needed. Debian or Ubuntu.
set -eu

mkdir -p "${1:?usage: tools/cross/sysroot.sh FOLDER}"
root=$(cd "$1" && pwd)
packages="libc6-dev libstdc++6 libfmt-dev libcli11-dev nlohmann-json3-dev libyaml-cpp-dev libgtest-dev
  libgmock-dev libsqlite3-dev libcurl4-openssl-dev libcpp-httplib-dev libboost-dev node-d3"

# A separate apt configuration: the machine's sources, but another architecture and no installed packages.
apt=$root/.apt
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
: > "$apt/status"
cat > "$apt/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
Acquire::Languages "none";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
CONF
export APT_CONFIG="$apt/apt.conf"

apt-get -qq update
# shellcheck disable=SC2086  # one word per package
apt-get -qq --yes --download-only install $packages
for deb in "$apt"/cache/archives/*.deb; do
  dpkg-deb --extract "$deb" "$root"
done
rm -rf "$apt"
