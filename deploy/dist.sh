#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Packs a release of what `make dist-files` has built: deploy/dist.sh BUILD [FOLDER]; prints its path.
# The same revision, built with the same packages, gives the same bytes.
set -eu
build=$1 to=${2:-$1}
build=$(cd "$build" && pwd)
mkdir -p "$to"
to=$(cd "$to" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$("$build/memprofd" --version | sed -n '1s/.*memprofd \([0-9.]*\).*/\1/p')
name=memprofd-$version-linux-x86_64
root=$work/$name

# What deploy/install.sh takes from a build. Symbols stay, so that a report of a fault names functions.
cp -r "$build/man" "$build/completions" "$build/libmemprof_agent.so" "$build/libmemprof_agent.a" \
  "$build/dist/memprofd" "$build/dist/memprofctl" "$build/dist/licences" "$work"
if [ -d "$build/findlib" ]; then cp -r "$build/findlib" "$work"; fi
rm -f "$work/licences/.complete"
strip --strip-debug "$work/memprofd" "$work/memprofctl"
# Libraries that are in the release as they are; see dist.mk.
mkdir "$work/lib"
for library in libp11-kit.so.0 libffi.so.8; do
  cp -L "$(ldd "$work/memprofd" | awk -v name=$library '$1 == name { print $3 }')" "$work/lib/$library"
done

deploy/install.sh install "$work" /usr/local "$work/root"
mv "$work/root/usr/local" "$root"
install -m755 deploy/dist/install.sh "$root/install.sh"
install -Dm755 deploy/install.sh "$root/deploy/install.sh"
ln -s share/doc/memprofd/README.md share/doc/memprofd/LICENSE "$root"
deploy/dist/check.sh "$root"

tar --create --directory "$work" --sort=name --mtime="@$(deploy/revision-time.sh)" --owner=0 --group=0 --numeric-owner \
  --mode=u+rwX,go+rX,go-w --format=gnu "$name" | gzip -n > "$to/$name.tar.gz"
echo "$to/$name.tar.gz"
