#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles a test program with another OCaml than the machine's.
#
#   tests/targets/compile-with.sh RELEASE OUT 'SOURCE.ml...' [OCAMLOPT OPTIONS...]
#
# RELEASE: one of debian-prefix.sh or of ocaml-from-npm.sh. Sources:
# tests/targets/handshake.ml and SOURCE.ml... in this order. With -bin-annot, OUT-types has the .cmi and .cmt files.
# The program runs on the host; if it needs a newer
# C library than the host's, it comes with its own. Headers among the sources are for C files.
#
# Not every machine can reach Debian's experimental. If its OCaml is unavailable, OUT is missing and the
# file why-not beside it has the reason, with which tests are skipped; this lasts for ten minutes.
set -eu

release=$1
out=$2
sources=$3
shift 3
here=$(dirname "$0")
why_not=$(dirname "$out")/why-not
case $release in
4.*) prefix=$("$here/ocaml-from-npm.sh" "$release") ;;
experimental)
	[ -z "$(find "$why_not" -mmin -10 2> /dev/null)" ] || exit 0
	mkdir -p "$(dirname "$out")"
	if ! prefix=$("$here/debian-prefix.sh" "$release" 2> "$why_not.log"); then
		echo "OCaml 5.5 cannot be had from Debian's experimental: $(tail -n 1 "$why_not.log")" > "$why_not"
		cat "$why_not" >&2
		exit 0
	fi
	rm -f "$why_not" "$why_not.log"
	;;
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
	compiler="/usr/bin/ocamlfind ocamlopt -thread -package unix,threads.posix -linkpkg"
	[ "$release" != experimental ] || compiler="/usr/bin/ocamlopt -I +unix -I +threads unix.cmxa threads.cmxa"
	# shellcheck disable=SC2086
	chroot "$prefix" /bin/sh -c 'cd "$0" && exec "$@"' "${work#"$prefix"}" $compiler $link "$@"
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
