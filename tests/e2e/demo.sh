#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Profiles the bundled demo server for about 20 seconds. Run by `make demo`.
#
#   tests/e2e/demo.sh BUILD_FOLDER [SECONDS]
set -euo pipefail

build=${1:?build folder}
seconds=${2:-20}
folder=$(mktemp -d /tmp/memprofd-demo.XXXXXX)
socket=$folder/memprofd.sock
server_pid=
daemon_pid=

# Ends what this script started, by pid, and says why when it failed.
finish() {
	local code=$?
	trap - EXIT INT TERM
	for pid in $daemon_pid $server_pid; do
		kill "$pid" 2> /dev/null || true
		wait "$pid" 2> /dev/null || true
	done
	if [ "$code" != 0 ] && [ "$code" != 130 ] && [ -s "$folder/memprofd.log" ]; then
		echo "demo: memprofd said:" >&2
		cat "$folder/memprofd.log" >&2
	fi
	rm -rf "$folder"
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

fail() {
	echo "demo: $*" >&2
	exit 1
}

# Waits until a command succeeds, 20 s at most, while the process lives.
wait_for() {
	local pid=$1 what=$2 deadline=$((SECONDS + 20))
	shift 2
	until "$@" 2> /dev/null; do
		kill -0 "$pid" 2> /dev/null || fail "$what: the process ended"
		[ $SECONDS -lt $deadline ] || fail "$what: not within 20 s"
		sleep 0.1
	done
}

ctl() {
	"$build/memprofctl" --grpc.socket "$socket" "$@"
}

sampling() {
	ctl targets -o json | grep -q '"TARGET_STATE_SAMPLING"'
}

# A port nobody listens on.
free_port() {
	/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

start_server() {
	"$build/targets/demo_server" --self-load 4 > "$folder/server.out" 2>&1 &
	server_pid=$!
	wait_for $server_pid "demo server" grep -q '^ready' "$folder/server.out"
	echo "demo server: pid $server_pid, http://127.0.0.1:$(awk '{ print $2 }' "$folder/server.out"), about 1,500 requests/s"
}

start_memprofd() {
	local port
	port=$(free_port)
	"$build/memprofd" --pid $server_pid --sampling-rate 1e-3 --max-overhead none --web.listen-address 127.0.0.1:"$port" \
		--grpc.socket "$socket" --agent "$build/libmemprof_agent.so" > "$folder/memprofd.log" 2>&1 &
	daemon_pid=$!
	wait_for $daemon_pid memprofd sampling
	cat "$folder/memprofd.log"
}

# The live view: refreshes in place on a terminal, else a page every five seconds.
# Frames are separated by an empty line.
show_live() {
	local interval=1
	[ -t 1 ] || interval=5
	ctl top --pid $server_pid --plain --limit 10 --interval $interval \
		--iterations $((seconds / interval + 1)) |
		while IFS= read -r line; do
			if [ -z "$line" ] && [ -t 1 ]; then
				printf '\033[H\033[2J'
			else
				printf '%s\n' "$line"
			fi
		done
}

show_report() {
	echo
	echo "=== the same as a report: memprofctl report --pid $server_pid --limit 4 ==="
	ctl report --pid $server_pid --limit 4
}

say_what_next() {
	cat <<- END

		What to see above: Sessions.make_session grows and nothing of it ever dies (the leak),
		Cache.copy lives for seconds and stays bounded, Request and Order_parser allocate most
		and keep nothing.

		On your own server (OCaml 4.11 to 4.14, 5.3 to 5.5; no rebuild, no restart):
		  sudo $build/memprofd --pid PID            attach and serve until stopped
		  sudo $build/memprofctl top --pid PID      sites, live
		  sudo $build/memprofctl report --pid PID   the same once, as text
		  curl http://127.0.0.1:9871/metrics        for Prometheus; dashboards are in dashboards/
		  sudo $build/memprofctl doctor --pid PID   when something does not work
	END
}

[ "$(id -u)" = 0 ] || fail "attaching needs root: sudo make demo"
for program in memprofd memprofctl libmemprof_agent.so targets/demo_server; do
	[ -e "$build/$program" ] || fail "$build/$program is missing: run make"
done
start_server
start_memprofd
show_live
show_report
say_what_next
