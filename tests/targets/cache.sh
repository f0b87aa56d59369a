# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# To be sourced: fetches or builds things once and keeps them in ~/.cache/memprofd, and runs apt with a
# separate state in the folder $work, which neither installs nor touches packages of the system.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/memprofd

# made_once PLACE MAKE: calls MAKE if PLACE is missing or incomplete. MAKE puts the contents of PLACE
# into $new, and may use $work.
made_once() {
	place=$1
	[ ! -e "$place/.complete" ] || return 0
	mkdir -p "$cache"
	exec 9> "$place.lock"
	flock 9 # another run may be making the same
	[ ! -e "$place/.complete" ] || return 0
	work=$(mktemp -d "$place.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	new=$work/new
	mkdir "$new"
	"$2" >&2
	touch "$new/.complete"
	rm -rf "$place"
	mv "$new" "$place"
}

# The first mirror in the system's sources, one-line style or deb822.
mirror() {
	{
		sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' /etc/apt/sources.list.d/*.sources
		sed -n 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
	} 2> /dev/null | grep -v security | head -n 1
}

# private apt-get|apt-cache ARGUMENTS...
private() {
	tool=$1
	shift
	"$tool" -qq -o Dir::State="$work/state" -o Dir::State::lists="$work/lists" \
		-o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
		-o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferences="$work/preferences" \
		-o APT::Sandbox::User=root -o APT::Install-Recommends=false \
		-o APT::Get::List-Cleanup=false -o Acquire::Retries=3 "$@"
}

# update_lists SUITE [deb-src]: fetches the list of packages, or of source packages, of a suite. The
# dependencies of experimental's OCaml come from sid.
update_lists() {
	mkdir -p "$work/state" "$work/lists/partial" "$work/cache/archives/partial"
	: > "$work/status"
	suites=$1
	if [ "$1" = experimental ]; then
		suites="$1 sid"
		printf 'Package: src:ocaml\nPin: release a=experimental\nPin-Priority: 900\n' > "$work/preferences"
	fi
	for one in $suites; do
		echo "${2:-deb} [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $one main"
	done > "$work/sources.list"
	private apt-get update
}
