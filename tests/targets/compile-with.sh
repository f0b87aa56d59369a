#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles one of the test programs with another OCaml than the machine's.
#
#   tests/targets/compile-with.sh RELEASE OUT 'SOURCE.ml...' [OCAMLOPT OPTIONS...]
#
# RELEASE: one of debian-prefix.sh or of ocaml-from-npm.sh. Sources:
# tests/targets/handshake.ml and SOURCE.ml... in their order. With -bin-annot OUT-types has the .cmi and .cmt files.
# The program runs on the host; one that needs a
# newer C library than the host's brings its own. Headers among the sources are for C files.
set -eu

release=$1
out=$2
sources=$3
shift 3
here=$(dirname "$0")
case $release in
4.*) prefix=$("$here/ocaml-from-npm.sh" "$release") ;;
*) prefix=$("$here/debian-prefix.sh" "$release") ;;
esac
mkdir -p "$prefix/tmp" "$(dirname "$out")"
work=$(mktemp -d "$prefix/tmp/compile.XXXXXX")
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2086
cp "$here/handshake.ml" $sources "$work/"
# shellcheck disable=SC2086
sources=$(basename -a $sources | grep -v '\.h$')

with_npm() {
	(cd "$work" && exec "$prefix/bin/ocamlrun" "$prefix/bin/ocamlopt" -I +threads unix.cmxa threads.cmxa "$@")
}

with_debian() {
	case $release in
	bullseye | bookworm) link= ;;
	*) link="-ccopt -Wl,--dynamic-linker=$prefix/usr/lib64/ld-linux-x86-64.so.2,-rpath,$prefix/usr/lib/x86_64-linux-gnu,--disable-new-dtags" ;;
	esac
	# shellcheck disable=SC2086
	chroot "$prefix" /bin/sh -c 'cd "$0" && exec /usr/bin/ocamlfind ocamlopt -thread -package unix,threads.posix -linkpkg "$@"' \
		"${work#"$prefix"}" $link "$@"
}

# shellcheck disable=SC2086
case $release in
4.*) with_npm "$@" handshake.ml $sources -o program ;;
*) with_debian "$@" handshake.ml $sources -o program ;;
esac >&2
case " $* " in
*" -bin-annot "*) mkdir -p "$out-types" && cp "$work"/*.cm[it] "$out-types/" ;;
esac
mv "$work/program" "$out"
