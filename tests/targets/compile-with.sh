#!/bin/sh
# Compiles one of the test programs with the OCaml of another Debian release.
#
#   tests/targets/compile-with.sh SUITE OUT SOURCE.ml [OCAMLOPT OPTIONS...]
#
# Sources: tests/targets/handshake.ml and SOURCE.ml. The program runs on the host; one
# that needs a newer C library than the host's brings its own.
set -eu

suite=$1
out=$2
source=$3
shift 3
here=$(dirname "$0")
prefix=$("$here/debian-prefix.sh" "$suite")
case $suite in
bullseye | bookworm) link= ;;
*) link="-ccopt -Wl,--dynamic-linker=$prefix/usr/lib64/ld-linux-x86-64.so.2,-rpath,$prefix/usr/lib/x86_64-linux-gnu,--disable-new-dtags" ;;
esac

work=$(mktemp -d "$prefix/tmp/compile.XXXXXX")
trap 'rm -rf "$work"' EXIT
inside=${work#"$prefix"}
cp "$here/handshake.ml" "$source" "$work/"
# shellcheck disable=SC2086
chroot "$prefix" /bin/sh -c 'cd "$0" && exec /usr/bin/ocamlfind ocamlopt -thread -package unix,threads.posix -linkpkg -g "$@"' \
	"$inside" "$@" $link handshake.ml "$(basename "$source")" -o program >&2
mkdir -p "$(dirname "$out")"
mv "$work/program" "$out"
