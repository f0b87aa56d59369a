#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds an image of the revision that is checked out: deploy/image.sh NAME
# BASE names another image of Debian 12 to build from. What is not committed is not in it.
set -eu
cd "$(dirname "$0")/.."
for tool in podman buildah docker; do
  command -v $tool > /dev/null && break
  [ $tool = docker ] && { echo "image.sh: none of podman, buildah and docker is here: install one of them" >&2; exit 1; }
done
name=$1
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
git clone --quiet --no-local . "$source"
$tool build ${BASE:+--build-arg "BASE=$BASE"} -f deploy/Containerfile -t "$name" "$source"
echo "$name"
