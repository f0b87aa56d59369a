#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a Debian package of what was built: deploy/deb.sh BUILD [FOLDER]; prints its path.
# The same revision, built the same way, gives the same package.
set -eu
build=$1 to=${2:-$1}
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$build" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/memprofd
cd "$top"

# 0.2.0, and how many commits came after it: 0.2.0+123.g0123456789ab
version=$("$build/memprofd" --version | sed -n '1s/.*memprofd \([0-9.]*\).*/\1/p')
SOURCE_DATE_EPOCH=$(deploy/revision-time.sh)
export SOURCE_DATE_EPOCH
commits=$(git rev-list --count HEAD 2> /dev/null) && version=$version+$commits.g$(git rev-parse --short=12 HEAD)

deploy/install.sh install "$build" /usr "$root"
# Symbols stay, so that a report of a fault names functions; what only a debugger reads goes.
strip --strip-debug "$root/usr/sbin/memprofd" "$root/usr/bin/memprofctl"
find "$root/usr/share/man" -type f -exec gzip -9n {} +
install -Dm644 deploy/memprofd.default "$root/etc/default/memprofd"
install -Dm644 deploy/debian/copyright "$root/usr/share/doc/memprofd/copyright"
mkdir -p "$root/DEBIAN"
install -m755 deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm "$root/DEBIAN"
echo /etc/default/memprofd > "$root/DEBIAN/conffiles"

# dpkg-shlibdeps wants a source package around it.
mkdir "$work/debian"
printf 'Source: memprofd\n\nPackage: memprofd\nArchitecture: any\n' > "$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O memprofd/usr/sbin/memprofd memprofd/usr/bin/memprofctl | sed -n 's/^shlibs:Depends=//p')
architecture=$(dpkg --print-architecture)
sed "/^#/d; s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@DEPENDS@/$depends/
  s/@SIZE@/$(du -sk --exclude DEBIAN "$root" | cut -f1)/" deploy/debian/control.in > "$root/DEBIAN/control"

# Times of files are those of the revision, whenever they were copied.
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$to"
package=$to/memprofd_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" > /dev/null
echo "$package"
