// SPDX-License-Identifier: Apache-2.0
// Where daemon and clients meet when nothing is said on the command line.
#pragma once

#include <sys/types.h>

#include <string>

namespace memprofd {

// /run/memprofd/memprofd.sock for root; $XDG_RUNTIME_DIR/memprofd/memprofd.sock
// for others, when that variable holds an absolute path.
std::string default_grpc_socket();
// The same rule as a pure function; xdg_runtime_dir may be null.
std::string default_grpc_socket(uid_t euid, const char* xdg_runtime_dir);

// What a client uses: the default, unless nothing is there and the socket of a
// daemon run by root is.
std::string find_grpc_socket();

}  // namespace memprofd
