#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of deploy/packages.txt that are missing.
#
#   deploy/install-deps.sh [GROUP...]     default: build checks run test dist
#
# Touches nothing when all are there. Starts no service: the packages that bring
# one (prometheus, ocsigenserver) are wanted for their programs only.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
log=$root/build/install-deps.log
groups=${*:-build checks run test dist}

fail() {
	echo "install-deps: $*" >&2
	exit 1
}

# A failed apt-get: what it said last is the cause.
fail_apt() {
	tail -n 15 "$log" >&2
	fail "apt-get $* failed, see $log"
}

wanted() {
	awk -v groups=" $groups " '
		/^# group: / { on = index(groups, " " $3 " ") }
		/^[^#]/ && on { print $1, $2 }' "$root/deploy/packages.txt" |
		while read -r package command; do
			[ -n "$command" ] && command -v "$command" > /dev/null || echo "$package"
		done
}

# Prints the wanted packages that are not installed.
missing() {
	wanted > "$1"
	xargs dpkg-query -W -f '${db:Status-Status} ${Package}\n' < "$1" 2> /dev/null |
		awk 'FILENAME == "-" { if ($1 == "installed") there[$2] = 1; next } !($1 in there)' - "$1"
}

# Keeps package scripts from starting services while apt runs.
forbid_service_starts() {
	policy=/usr/sbin/policy-rc.d
	[ -d /run/systemd/system ] && [ ! -e $policy ] || return 0
	printf '#!/bin/sh\nexit 101\n' > $policy
	chmod 755 $policy
	policy_is_ours=1
}

run_apt() {
	echo "+ apt-get $*" >> "$log"
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
		-o Acquire::Retries=3 "$@" >> "$log" 2>&1 < /dev/null
}

command -v dpkg-query > /dev/null ||
	fail "this is not Debian: install the equivalents of the packages in deploy/packages.txt by hand"
policy_is_ours=
list=$(mktemp)
trap 'rm -f "$list"; [ -z "$policy_is_ours" ] || rm -f /usr/sbin/policy-rc.d' EXIT
trap 'exit 130' INT TERM

packages=$(missing "$list")
[ -n "$packages" ] || exit 0

count=$(echo "$packages" | wc -l)
[ "$(id -u)" = 0 ] ||
	fail "$count missing, and only root can install them: sudo apt-get install" $packages

mkdir -p "$root/build"
: > "$log"
echo "installing what is missing ($count from Debian, log: $log)"
forbid_service_starts
run_apt update || fail_apt update
run_apt install --no-install-recommends $packages || fail_apt install
for service in prometheus ocsigenserver; do
	if echo "$packages" | grep -qx $service && command -v systemctl > /dev/null; then
		systemctl disable $service.service >> "$log" 2>&1 || true
	fi
done
packages=$(missing "$list")
[ -z "$packages" ] || fail "still missing after the installation, see $log:" $packages
