#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what was built, or removes it again: deploy/install.sh install|uninstall BUILD PREFIX [DESTDIR]
# BUILD is the folder of a build, or an unpacked release, whose folders are those of a prefix.
# What was installed at other places (/etc/default/memprofd, state, traces) is the administrator's.
set -eu
what=$1 build=$2 prefix=$3 root=${4:-}

# MODE SOURCE PLACE: a file, with @PREFIX@ and /usr/local in texts of the project being the prefix.
put() {
  to=$root$prefix/$3
  if [ "$what" = uninstall ]; then
    rm -f "$to"
    return
  fi
  install -Dm"$1" "$2" "$to"
  case $3 in *.service|*.yml|*.yaml) sed -i "s,@PREFIX@,$prefix,g; s,/usr/local,$prefix,g" "$to" ;; esac
}

# SOURCE PLACE: all files of a folder, if it is there.
put_all() {
  [ -d "$1" ] || return 0
  find "$1" -type f | while read -r file; do
    mode=644
    if [ -x "$file" ]; then mode=755; fi
    put $mode "$file" "$2/${file#"$1"/}"
  done
}

if [ -d "$build/sbin" ]; then
  for folder in bin sbin lib include share; do put_all "$build/$folder" "$folder"; done
else
  put 755 "$build/memprofd" sbin/memprofd
  put 755 "$build/memprofctl" bin/memprofctl
  put 755 "$build/libmemprof_agent.so" lib/memprofd/libmemprof_agent.so
  if [ -f "$build/libmemprof_agent.a" ]; then put 644 "$build/libmemprof_agent.a" lib/memprofd/libmemprof_agent.a; fi
  put 644 agent-lib/include/memprof_agent_abi.h include/memprof_agent_abi.h
  put 644 agent-lib/include/memprof_values_abi.h include/memprof_values_abi.h
  put_all "$build/findlib/memprof-agent" lib/ocaml/memprof-agent
  put 644 deploy/memprofd.service.in lib/systemd/system/memprofd.service
  put 644 "$build/man/memprofd.8" share/man/man8/memprofd.8
  put 644 "$build/man/memprofctl.1" share/man/man1/memprofctl.1
  put_all "$build/completions" share/bash-completion/completions
  put_all dashboards/grafana share/memprofd/grafana
  put_all dashboards/prometheus share/memprofd/prometheus
  put_all proto/memprof share/memprofd/proto/memprof
  for document in *.md LICENSE; do put 644 $document share/doc/memprofd/$document; done
  put_all docs share/doc/memprofd/docs
  put 644 deploy/memprofd.default share/doc/memprofd/memprofd.default
  # Of a release only: libraries that are no part of its programs, and the licences of all that it contains.
  put_all "$build/lib" lib/memprofd
  put_all "$build/licences" share/doc/memprofd/licences
fi

if [ "$what" = uninstall ]; then
  for folder in lib/memprofd lib/ocaml/memprof-agent share/memprofd share/doc/memprofd; do
    if [ -d "$root$prefix/$folder" ]; then find "$root$prefix/$folder" -type d -empty -delete; fi
  done
fi
