#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes archives of libraries of which Debian has only shared ones: deploy/dist/archives.sh FOLDER
# Their source packages, of the versions that are installed, are fetched from the machine's own mirror
# once, into ~/.cache/memprofd.
set -eu
mkdir -p "$1"
to=$(cd "$1" && pwd)
cd "$(dirname "$0")"
# shellcheck source-path=SCRIPTDIR source=../../tests/targets/cache.sh
. ../../tests/targets/cache.sh

# PACKAGE: prints the folder of the source of an installed package.
source_of() (
  wanted=$(dpkg-query -W -f '${source:Package}=${source:Version}' "$1")
  made_once "$cache/source-$wanted" unpack
  echo "$cache/source-$wanted"/*/
)

unpack() {
  update_lists "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" deb-src
  (cd "$new" && private apt-get --only-source source "$wanted")
  rm -f "$new"/*.dsc "$new"/*.tar.*
}

# PACKAGE NAME FLAGS... -- SOURCE...: makes libNAME.a of these files of the package, compiled together.
archive() {
  source=$(source_of "$1")
  name=$2 flags=
  shift 2
  while [ "$1" != -- ]; do
    flags="$flags $1"
    shift
  done
  shift
  # shellcheck disable=SC2086
  (cd "$source" && ls $* | sed 's/.*/#include "&"/' |
    ${CXX:-g++} -w -std=c++17 -O2 -fno-omit-frame-pointer -fPIC -DNDEBUG -frandom-seed="$name" -I. $flags \
      -x c++ -c - -o "$to/$name.o")
  rm -f "$to/lib$name.a"
  ar rcsD "$to/lib$name.a" "$to/$name.o"
}

archive prometheus-cpp-dev prometheus-cpp-core -Icore/include -- 'core/src/*.cc' 'core/src/detail/*.cc'
archive libfmt-dev fmt -- src/format.cc src/os.cc
# As daemon/daemon.mk has it.
archive libspdlog-dev spdlog -DSPDLOG_SHARED_LIB -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -- \
  src/async.cpp src/cfg.cpp src/color_sinks.cpp src/file_sinks.cpp src/spdlog.cpp src/stdout_sinks.cpp
