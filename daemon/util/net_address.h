// "host:port" as servers and clients take it on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

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

// Whether a server can listen there now. kUnavailable: in use by another
// process; kPermissionDenied: port needs privileges; kInvalidArgument: not an
// address of this machine. option is named in the remedy.
absl::Status check_listenable(const NetAddress& numeric, std::string_view option);

}  // namespace memprofd
