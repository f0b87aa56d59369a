#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks one version of an npm package, whose contents must have the given checksum.
#
#   tests/targets/npm-package.sh PACKAGE VERSION SHA256 FOLDER
set -eu

package=$1 version=$2 sha256=$3 folder=$4
mkdir -p "$folder"
cd "$folder"
file=$(npm pack --silent --ignore-scripts "$package@$version")
echo "$sha256  $file" | sha256sum --check --quiet
tar -xzf "$file" --strip-components=1
rm -f "$file"
