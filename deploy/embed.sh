#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes files as string literals of a C++ header: deploy/embed.sh HEADER NAMESPACE [NAME FILE]...
set -eu
header=$1 namespace=$2
shift 2
mkdir -p "$(dirname "$header")"
{
  echo '#pragma once'
  echo "namespace memprofd::$namespace {"
  while [ $# -gt 0 ]; do
    printf 'inline constexpr char %s[] = R"memprofd_asset(' "$1"
    cat "$2"
    echo ')memprofd_asset";'
    shift 2
  done
  echo '}'
} > "$header.new"
mv "$header.new" "$header"
