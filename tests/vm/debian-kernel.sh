#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The kernel image of a Debian release, for tests/vm/kernels.py to boot.
#
#   tests/vm/debian-kernel.sh SUITE    bullseye (5.10), bookworm (6.1), trixie (6.12), trixie-backports (7.x)
#
# Prints the file, whose folder has the version in its file "release". Downloads (15 to 35 MB, from the
# machine's own mirror) and unpacks once, into ~/.cache/memprofd; touches no package of the system.
# Remove the folder to have the newest one.
set -eu

# shellcheck source-path=SCRIPTDIR source=../targets/cache.sh
. "$(dirname "$0")/../targets/cache.sh"

suite=$1
place=$cache/kernel-$suite

# What a package depends on that is called so.
depends_on() {
	private apt-cache depends "$1" | sed -n "s/^ *Depends: \($2\)\$/\1/p" | head -n 1
}

# From 7 on the image package is empty, and depends on one that has the image alone.
package() {
	image=$(depends_on linux-image-cloud-amd64 'linux-image-[0-9].*')
	[ -n "$image" ] || { echo "debian-kernel: $suite has no linux-image-cloud-amd64" >&2 && exit 1; }
	binary=$(depends_on "$image" 'linux-binary-.*')
	echo "${binary:-$image}"
}

download() {
	update_lists "$suite"
	package=$(package)
	(cd "$work" && private apt-get download "$package")
	dpkg-deb --fsys-tarfile "$work/$package"_*.deb |
		tar -x -C "$new" --wildcards './boot/vmlinuz-*' './usr/lib/modules/*/vmlinuz' 2> /dev/null || true
	image=$(find "$new" -name 'vmlinuz*' -type f)
	[ -n "$image" ] || { echo "debian-kernel: no kernel image in $package" >&2 && exit 1; }
	mv "$image" "$new/vmlinuz"
	echo "$package" | sed 's/^linux-[a-z]*-//' > "$new/release"
}

made_once "$place" download
echo "$place/vmlinuz"
