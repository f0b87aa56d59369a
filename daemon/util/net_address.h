// SPDX-License-Identifier: Apache-2.0
// "host:port" as servers and clients accept it on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

namespace memprofd {

struct NetAddress {
  std::string host;  // without brackets; empty: all interfaces
  std::uint16_t port = 0;
  // "host:port", with brackets around an IPv6 host.
  std::string to_string() const;
};

// Parses "127.0.0.1:9871", "[::1]:9871", "localhost:9871" or ":9871". Port 0 is allowed.
absl::StatusOr<NetAddress> parse_net_address(std::string_view text);

// Replaces the host by one of its numeric addresses, preferably IPv4. An empty host stays empty.
absl::StatusOr<NetAddress> resolve(const NetAddress& address);

// Creates a non-blocking TCP socket that is bound to a numeric address but does not listen yet. An
// empty host means all interfaces, IPv4 and IPv6. The remedy in an error names the option.
// kUnavailable: another process uses the address; kPermissionDenied: the port requires privileges;
// kInvalidArgument: not an address of this machine.
absl::StatusOr<UniqueFd> bind_tcp(const NetAddress& numeric, std::string_view option);

// True if only this machine can reach the numeric address.
bool is_loopback(const NetAddress& numeric);

// True if "host" or "host:port" is an IP address or localhost, which no DNS server can redirect.
bool is_local_name(std::string_view host);

// The port to which a socket is bound.
std::uint16_t port_of(const UniqueFd& socket);

}  // namespace memprofd
