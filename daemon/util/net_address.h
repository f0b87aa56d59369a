// SPDX-License-Identifier: Apache-2.0
// "host:port" as servers and clients take it on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

namespace memprofd {

struct NetAddress {
  std::string host;  // without brackets; empty: every interface
  std::uint16_t port = 0;
  // "host:port", with brackets around an IPv6 host.
  std::string to_string() const;
};

// "127.0.0.1:9871", "[::1]:9871", "localhost:9871", ":9871". Port 0 is allowed.
absl::StatusOr<NetAddress> parse_net_address(std::string_view text);

// Host replaced by a numeric address of it, IPv4 preferred; unchanged when empty.
absl::StatusOr<NetAddress> resolve(const NetAddress& address);

// A TCP socket bound to a numeric address, non-blocking, not listening yet; every
// interface, IPv4 and IPv6, for an empty host. option is named in the remedy.
// kUnavailable: in use by another process; kPermissionDenied: the port needs
// privileges; kInvalidArgument: not an address of this machine.
absl::StatusOr<UniqueFd> bind_tcp(const NetAddress& numeric, std::string_view option);

// True if only this machine can reach a numeric address.
bool is_loopback(const NetAddress& numeric);

// True if "host" or "host:port" is an IP address or localhost, which no DNS server can redirect.
bool is_local_name(std::string_view host);

// The port a socket is bound to.
std::uint16_t port_of(const UniqueFd& socket);

}  // namespace memprofd
