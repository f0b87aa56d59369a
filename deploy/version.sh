#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# version.sh HEADER: writes the version of CHANGELOG.md and, in a git checkout, the revision into a
# C++ header. A header that says the same already is not touched, so that nothing is built anew.
set -eu
header=$1
top=$(dirname "$0")/..

version=$(sed -n 's/^## \[\([0-9][0-9.]*\)\].*/\1/p' "$top/CHANGELOG.md" | head -n 1)
revision=
# An unpacked archive that lies in some other repository has no revision.
if [ -e "$top/.git" ]; then
  revision=$(git -C "$top" describe --always --abbrev=12 --match 'v[0-9]*' 2>/dev/null) || revision=
fi
# git status compares contents, so that a copy of a checkout has not changed; without optional locks it
# does not write the index while somebody commits.
if [ -n "$revision" ] && [ -n "$(GIT_OPTIONAL_LOCKS=0 git -C "$top" status --porcelain --untracked-files=no)" ]; then
  revision=$revision-dirty
fi

text=$(printf '#pragma once\nnamespace memprofd {\n%s\n%s\n}' \
  "inline constexpr char kVersionString[] = \"${version:-0.0.0}\";" \
  "inline constexpr char kRevisionString[] = \"$revision\";")
[ "$(cat "$header" 2>/dev/null)" = "$text" ] && exit 0
mkdir -p "$(dirname "$header")"
printf '%s\n' "$text" > "$header"
