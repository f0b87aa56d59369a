#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Packages of another Debian release in a folder of its own, for programs to test with.
#
#   tests/targets/debian-prefix.sh SUITE            OCaml: bullseye (4.11), trixie (5.3), forky (5.4),
#                                                   experimental (5.5, without findlib)
#   tests/targets/debian-prefix.sh SUITE-base       what every system has: glibc and the usual commands
#   tests/targets/debian-prefix.sh SUITE-PACKAGE    a program and what it needs
#
# Prints the folder. Downloads (150 MB, from the machine's own mirror) and unpacks
# once, into ~/.cache/memprofd; touches no package of the system. Needs root for the
# chroot that ldconfig runs in.
set -eu

# shellcheck source-path=SCRIPTDIR source=cache.sh
. "$(dirname "$0")/cache.sh"

name=$1
suite=${name%%-*}
prefix=$cache/$name
case $suite in
bullseye | bookworm | trixie | forky | experimental) ;;
*)
	echo "debian-prefix: $suite is no suite that is known here" >&2
	exit 2
	;;
esac

alone= # without what they need
case $name in
*-ocsigenserver)
	packages="ocsigenserver dash libc-bin"
	# The server looks for their META when it starts, and its package forgets them.
	alone="libstdlib-ocaml-dev libre-ocaml-dev libssl-ocaml-dev"
	;;
*-base) packages="coreutils diffutils findutils grep sed dash libc-bin" ;;
*-*) packages="${name#*-} dash libc-bin" ;;
# No findlib is built for that OCaml.
experimental) packages="ocaml gcc libc6-dev dash libc-bin coreutils" ;;
*) packages="ocaml ocaml-findlib gcc libc6-dev dash libc-bin coreutils" ;;
esac

download() {
	update_lists "$suite"
	# shellcheck disable=SC2086
	private apt-get -y --download-only install $packages
	# shellcheck disable=SC2086
	[ -z "$alone" ] || (cd "$work/cache/archives" && private apt-get download $alone)
}

unpack() {
	for dir in bin sbin lib lib64; do
		mkdir -p "$new/usr/$dir"
		ln -s "usr/$dir" "$new/$dir"
	done
	for deb in "$work"/cache/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$new" --keep-directory-symlink
	done
	mkdir -p "$new/dev" "$new/tmp" "$new/proc"
	# Files in the place of devices: no right to make nodes is needed.
	: > "$new/dev/null"
	head -c 65536 /dev/urandom > "$new/dev/urandom"
	chmod 666 "$new/dev/null"
	ln -sf dash "$new/bin/sh"
	rm -rf "$new/usr/share/doc" "$new/usr/share/man" "$new/usr/share/locale"
	chroot "$new" /sbin/ldconfig
	# Whether all that a program needs is there.
	[ "$name" != "$suite" ] || chroot "$new" /usr/bin/ocamlopt -version > /dev/null
}

fill() {
	download
	unpack
}

made_once "$prefix" fill
echo "$prefix"
