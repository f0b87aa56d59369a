#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs this release of memprofd, or removes it again:
#
#   ./install.sh [--uninstall] [PREFIX]     PREFIX is /usr/local unless given
#
# DESTDIR=FOLDER puts it below that folder, to be packed for another machine: this one is neither asked
# nor changed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${DESTDIR:-}
unit=/etc/systemd/system/memprofd.service
settings=/etc/default/memprofd

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

usage() {
  sed -n '3,8s/^#[ ]\{0,1\}//p' "$0"
}

what=install prefix=
for argument in "$@"; do
  case $argument in
  --uninstall) what=uninstall ;;
  -h | --help) usage; exit 0 ;;
  -*) fail "unknown option $argument; see ./install.sh --help" ;;
  *)
    [ -z "$prefix" ] || fail "more than one prefix: $prefix and $argument; see ./install.sh --help"
    prefix=$argument
    ;;
  esac
done
prefix=${prefix:-/usr/local}
case $prefix in
/) prefix= ;;
/*) prefix=${prefix%/} ;;
*) fail "$prefix is not an absolute path; give one, such as /opt/memprofd" ;;
esac

# HAVE NEEDED: whether a version is at least another one.
is_at_least() {
  [ "$(printf '%s\n%s\n' "$1" "$2" | sort -t . -k 1,1n -k 2,2n | head -n 1)" = "$2" ]
}

check_machine() {
  [ "$(uname -s) $(uname -m)" = 'Linux x86_64' ] || fail "this is $(uname -s) $(uname -m): this release runs on Linux x86_64 only"
  glibc=$(getconf GNU_LIBC_VERSION 2> /dev/null | sed -n 's/^glibc \([0-9.]*\).*/\1/p')
  [ -n "$glibc" ] || fail 'this system has no glibc (getconf GNU_LIBC_VERSION); memprofd runs on glibc 2.34 or later'
  is_at_least "$glibc" 2.34 ||
    fail "glibc $glibc is too old; memprofd runs on glibc 2.34 or later (Debian 12, Ubuntu 22.04, RHEL 9)"
  kernel=$(uname -r)
  is_at_least "${kernel%%[!0-9.]*}" 5.8 || fail "Linux $kernel is too old; memprofd runs on Linux 5.8 or later"
  "$here/sbin/memprofd" --version > /dev/null || fail 'sbin/memprofd does not start on this system; its message is above'
}

with_systemd() {
  [ -z "$root" ] && [ -d /run/systemd/system ]
}

install_release() {
  [ -n "$root" ] || check_machine
  "$here/deploy/install.sh" install "$here" "$prefix" "$root"
  start="sudo $prefix/sbin/memprofd --pid PID"
  if with_systemd; then
    if [ ! -e $settings ]; then install -Dm644 "$here/share/doc/memprofd/memprofd.default" $settings; fi
    # systemd looks for units in these prefixes only.
    case $prefix in
    /usr | /usr/local) ;;
    *)
      mkdir -p "$(dirname $unit)"
      ln -sfn "$prefix/lib/systemd/system/memprofd.service" $unit
      ;;
    esac
    systemctl daemon-reload
    systemctl try-restart memprofd.service # one that runs is exchanged: it resumes its targets
    start="$start    or, for the programs that $settings names: sudo systemctl enable --now memprofd"
  fi
  version=$(sed -n 's/^## \[\([0-9][0-9.]*\)\].*/\1/p' "$here/share/doc/memprofd/CHANGELOG.md" | head -n 1)
  echo "memprofd $version is in ${root}${prefix:-/}"
  echo "start it:   $start"
  echo "ask it:     sudo $prefix/bin/memprofctl top    or http://127.0.0.1:9871/"
  echo "remove it:  sudo $here/install.sh --uninstall ${prefix:-/}"
}

uninstall_release() {
  if with_systemd; then
    # Lets all targets go before the files do.
    systemctl disable --now memprofd.service 2> /dev/null || true
    if [ "$(readlink $unit)" = "$prefix/lib/systemd/system/memprofd.service" ]; then rm -f $unit; fi
    if cmp -s "$here/share/doc/memprofd/memprofd.default" $settings; then rm -f $settings; fi
  fi
  "$here/deploy/install.sh" uninstall "$here" "$prefix" "$root"
  case $prefix in
  '' | /usr | /usr/local) ;;
  *)
    # Its own folders, if nothing else is in them.
    (cd "$here" && find bin sbin lib include share -depth -type d) | while read -r folder; do
      rmdir "$root$prefix/$folder" 2> /dev/null || true
    done
    rmdir "$root$prefix" 2> /dev/null || true
    ;;
  esac
  if with_systemd; then systemctl daemon-reload; fi
  echo "memprofd is removed from ${root}${prefix:-/}"
  for left in $settings /var/lib/memprofd; do
    if [ -z "$root" ] && [ -e $left ]; then echo "left as it is yours: $left"; fi
  done
}

[ "$(id -u)" = 0 ] || [ -n "$root" ] || fail "only root can $what memprofd; run sudo $here/install.sh"
${what}_release
