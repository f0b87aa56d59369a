#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails, with a line for each cause, where programs or libraries in a folder need more of a system than
# glibc 2.34 and libraries that are in the folder too: deploy/dist/check.sh FOLDER
set -eu
folder=$1 newest=2.34
glibc=' libc.so.6 libm.so.6 libresolv.so.2 libpthread.so.0 libdl.so.2 librt.so.1 ld-linux-x86-64.so.2 '

# Fails where $1 is a later version than the newest that is allowed.
is_old_enough() {
  [ "$(printf '%s\n%s\n' "$1" "$newest" | sort -V | tail -n 1)" = "$newest" ]
}

wrong=$(find "$folder" -type f | sort | while read -r file; do
  readelf --file-header "$file" 2> /dev/null | grep -q 'Type: *\(DYN\|EXEC\)' || continue
  name=${file#"$folder"/}
  # "*UND* ... (GLIBC_2.36) arc4random": what it needs; what it offers has versions of its own.
  objdump --dynamic-syms "$file" | sed -n 's/.*\*UND\*.* (\{0,1\}GLIBC_\([^) ]*\))\{0,1\} *\([^ ]*\)$/\1 \2/p' | sort -u |
    while read -r version symbol; do is_old_enough "$version" || echo "$name: $symbol is of glibc $version"; done
  # Not of a symbol: GLIBC_ABI_DT_RELR (2.36) and the like.
  readelf --version-info "$file" | sed -n 's/.*Name: \(GLIBC_ABI[^ ]*\).*/\1/p' | sort -u |
    while read -r feature; do echo "$name: $feature is later than glibc $newest"; done
  readelf --dynamic "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | while read -r library; do
    case $glibc in *" $library "*) continue ;; esac
    [ -n "$(find "$folder" -name "$library")" ] || echo "$name: $library is neither of glibc nor in the release"
  done
done)
[ -z "$wrong" ] || {
  echo "$wrong" >&2
  exit 1
}
