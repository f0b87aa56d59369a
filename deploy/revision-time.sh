#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the time that files of a package have: that of the revision, in seconds, or SOURCE_DATE_EPOCH.
set -eu
cd "$(dirname "$0")/.."
echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || stat -c %Y CHANGELOG.md)}"
