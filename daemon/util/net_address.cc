// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/net_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace memprofd {
namespace {

absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }

absl::Status bad_address(std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("bad address \"", view(text), "\": write host:port, [ipv6]:port or :port"));
}

struct AddrInfoDeleter {
  void operator()(addrinfo* info) const { ::freeaddrinfo(info); }
};
using AddrInfo = std::unique_ptr<addrinfo, AddrInfoDeleter>;

// Null, with the reason in error. An empty host means every interface.
AddrInfo lookup(const NetAddress& address, std::string& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  const int rc = ::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(), port.c_str(),
                               &hints, &found);
  if (rc != 0) error = rc == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(rc);
  return AddrInfo(found);
}

absl::Status listen_error(const NetAddress& address, std::string_view option, int error) {
  const std::string what = absl::StrCat("cannot listen on ", address.to_string(), ": ");
  switch (error) {
    case EADDRINUSE:
      return absl::UnavailableError(
          absl::StrCat(what, "the port is in use; stop the other program or choose another with ",
                       view(option)));
    case EACCES:
      return absl::PermissionDeniedError(
          absl::StrCat(what, "permission denied; choose a port above 1023 with ", view(option)));
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return absl::InvalidArgumentError(absl::StrCat(
          what, "not an address of this machine; give one of its own with ", view(option)));
    default:
      return absl::UnavailableError(absl::StrCat(what, std::strerror(error)));
  }
}

// Empty, with errno set, if it cannot be bound.
UniqueFd bind_one(const addrinfo& info) {
  UniqueFd fd(::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fd;
  const int on = 1, off = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (info.ai_family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(fd.get(), info.ai_addr, info.ai_addrlen) == 0) return fd;
  const int error = errno;
  fd.reset();
  errno = error;
  return fd;
}

}  // namespace

std::string NetAddress::to_string() const {
  if (host.find(':') != host.npos) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

absl::StatusOr<NetAddress> parse_net_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return bad_address(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  if (!host.empty() && host.front() == '[') {
    if (host.size() < 4 || host.back() != ']') return bad_address(text);
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != host.npos) {
    return bad_address(text);
  }
  if (host.find_first_of(" \t\n,/") != host.npos) return bad_address(text);
  std::uint32_t port = 0;
  const bool digits = port_text.find_first_not_of("0123456789") == port_text.npos;
  if (!digits || !absl::SimpleAtoi(view(port_text), &port) || port > 65535)
    return bad_address(text);
  return NetAddress{std::string(host), static_cast<std::uint16_t>(port)};
}

absl::StatusOr<NetAddress> resolve(const NetAddress& address) {
  if (address.host.empty()) return address;
  std::string error;
  const AddrInfo found = lookup(address, error);
  if (!found) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot resolve \"", address.host, "\": ", error,
                     "; give a numeric address or a known host name"));
  }
  const addrinfo* chosen = found.get();
  for (const addrinfo* info = chosen; info != nullptr; info = info->ai_next) {
    if (info->ai_family == AF_INET) {
      chosen = info;
      break;
    }
  }
  char host[NI_MAXHOST];
  const int rc = ::getnameinfo(chosen->ai_addr, chosen->ai_addrlen, host, sizeof host, nullptr, 0,
                               NI_NUMERICHOST);
  if (rc != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot resolve \"", address.host, "\": ", ::gai_strerror(rc)));
  }
  return NetAddress{host, address.port};
}

absl::StatusOr<UniqueFd> bind_tcp(const NetAddress& numeric, std::string_view option) {
  std::string lookup_error;
  const AddrInfo found = lookup(numeric, lookup_error);
  if (!found) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", numeric.to_string(), ": ", lookup_error));
  }
  int error = 0;
  for (const int family : {AF_INET6, AF_INET}) {  // IPv6 first, because it includes IPv4
    for (const addrinfo* info = found.get(); info != nullptr; info = info->ai_next) {
      if (info->ai_family != family) continue;
      UniqueFd fd = bind_one(*info);
      if (fd) return fd;
      error = errno;
    }
    if (error != 0 && error != EAFNOSUPPORT && error != EADDRNOTAVAIL) break;
  }
  return listen_error(numeric, option, error);
}

bool is_loopback(const NetAddress& numeric) {
  in_addr v4{};
  if (::inet_pton(AF_INET, numeric.host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  in6_addr v6{};
  return ::inet_pton(AF_INET6, numeric.host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_local_name(std::string_view host) {
  const bool bracketed = host.starts_with('[');
  const std::size_t end = bracketed ? host.find(']') : host.find(':');
  const std::string name(bracketed ? host.substr(1, end == host.npos ? 0 : end - 1)
                                   : host.substr(0, end));
  const std::string_view port =
      end == host.npos ? std::string_view() : host.substr(bracketed ? end + 1 : end);
  if (!port.empty() && (port[0] != ':' || port.find_first_not_of("0123456789", 1) != port.npos)) {
    return false;
  }
  in6_addr address{};
  return ::inet_pton(bracketed ? AF_INET6 : AF_INET, name.c_str(), &address) == 1 ||
         absl::EqualsIgnoreCase(name, "localhost");
}

std::uint16_t port_of(const UniqueFd& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace memprofd
