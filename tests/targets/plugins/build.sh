#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds plugin_host and its plugins, with the host's OCaml or that of a Debian release.
#
#   tests/targets/plugins/build.sh host|SUITE OUT-FOLDER
set -eu

suite=$1
out=$2
here=$(dirname "$0")
prefix=
run=
link=
if [ "$suite" != host ]; then
	prefix=$("$here/../debian-prefix.sh" "$suite")
	run="chroot $prefix"
	link="-ccopt -Wl,--dynamic-linker=$prefix/usr/lib64/ld-linux-x86-64.so.2,-rpath,$prefix/usr/lib/x86_64-linux-gnu,--disable-new-dtags"
fi
work=$(mktemp -d "$prefix/tmp/plugins.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$here"/*.ml "$here/../handshake.ml" "$work/"
for name in early late; do cp "$here/plugin_source.ml" "$work/plugin_$name.ml"; done
# shellcheck disable=SC2016
$run /bin/sh -ec '
	cd "$1"
	ocamlopt="ocamlfind ocamlopt -g -package dynlink,unix"
	$ocamlopt -linkpkg $2 handshake.ml plugin_api.ml plugin_host.ml -o plugin_host
	for name in early late; do $ocamlopt -shared plugin_$name.ml -o plugin_$name.cmxs; done
' sh "${work#"$prefix"}" "$link" >&2
mkdir -p "$out"
mv "$work/plugin_host" "$work"/plugin_*.cmxs "$out/"
