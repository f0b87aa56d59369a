// SPDX-License-Identifier: Apache-2.0
// Default paths at which clients find the daemon.
#pragma once

#include <sys/types.h>

#include <string>

namespace memprofd {

// /run/memprofd/memprofd.sock for root. Otherwise $XDG_RUNTIME_DIR/memprofd/memprofd.sock, if that
// variable contains an absolute path.
std::string default_grpc_socket();
// The same rule as a pure function; xdg_runtime_dir may be null.
std::string default_grpc_socket(uid_t euid, const char* xdg_runtime_dir);

// The socket for a client: the default, or that of a daemon run by root if only that exists.
std::string find_grpc_socket();

}  // namespace memprofd
