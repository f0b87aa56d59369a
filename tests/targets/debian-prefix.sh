#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks packages of another Debian release into a separate folder, for test programs.
#
#   tests/targets/debian-prefix.sh SUITE            OCaml: bullseye (4.11), trixie (5.3), forky (5.4),
#                                                   experimental (5.5, without findlib)
#   tests/targets/debian-prefix.sh SUITE-base       a base system: glibc and the usual commands
#   tests/targets/debian-prefix.sh SUITE-PACKAGE    a program and its dependencies
#
# Prints the folder. Downloads (150 MB, from the machine's own mirror) and unpacks only
# once, into ~/.cache/memprofd. Does not touch packages of the system. Needs root, because
# ldconfig runs in a chroot.
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

alone= # packages to unpack without their dependencies
case $name in
*-ocsigenserver)
	packages="ocsigenserver dash libc-bin"
	# The server needs the META files of these packages at its start, but does not depend on them.
	alone="libstdlib-ocaml-dev libre-ocaml-dev libssl-ocaml-dev"
	;;
*-base) packages="coreutils diffutils findutils grep sed dash libc-bin" ;;
*-*) packages="${name#*-} dash libc-bin" ;;
# No findlib exists for that OCaml.
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
	# Uses files instead of devices, which need no privilege.
	: > "$new/dev/null"
	head -c 65536 /dev/urandom > "$new/dev/urandom"
	chmod 666 "$new/dev/null"
	ln -sf dash "$new/bin/sh"
	rm -rf "$new/usr/share/doc" "$new/usr/share/man" "$new/usr/share/locale"
	chroot "$new" /sbin/ldconfig
	# Checks that the compiler finds all its libraries.
	[ "$name" != "$suite" ] || chroot "$new" /usr/bin/ocamlopt -version > /dev/null
}

fill() {
	download
	unpack
}

made_once "$prefix" fill
echo "$prefix"
