#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds a release of OCaml that no Debian has, from the sources in an npm package.
#
#   tests/targets/ocaml-from-npm.sh RELEASE      4.12, 4.14, 4.14-checked
#
# The runtime of the last one reports on stderr if the collector meets a pointer out of the heap that does not
# lead to a black block. Prints a folder with bin/ocamlrun, bin/ocamlopt (bytecode) and lib/ocaml, which suffices
# to compile programs with unix, threads and C. Downloads (6 MB) and builds (about five
# minutes) only once, into ~/.cache/memprofd.
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
	# 4.12 needs it as a constant, which it is not in newer C libraries; 4.14 does not use it.
	sed -i 's/\bSIGSTKSZ\b/65536/' runtime/signals_nat.c
	# shellcheck disable=SC2086
	./configure -q --prefix="$prefix" --disable-ocamldoc --disable-debugger \
		--disable-debug-runtime --disable-instrumented-runtime $checker
	if ! make_goals > "$work/build.log" 2>&1; then
		tail -n 20 "$work/build.log"
		return 1
	fi
}

# `make install` would require all other parts, too.
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
