// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/paths.h"

#include <unistd.h>

#include <cstdlib>

namespace memprofd {
namespace {

constexpr char kSystemSocket[] = "/run/memprofd/memprofd.sock";

}  // namespace

std::string default_grpc_socket(uid_t euid, const char* xdg_runtime_dir) {
  if (euid == 0 || xdg_runtime_dir == nullptr || xdg_runtime_dir[0] != '/') return kSystemSocket;
  return std::string(xdg_runtime_dir) + "/memprofd/memprofd.sock";
}

std::string default_grpc_socket() {
  return default_grpc_socket(::geteuid(), std::getenv("XDG_RUNTIME_DIR"));
}

std::string find_grpc_socket() {
  std::string path = default_grpc_socket();
  if (::access(path.c_str(), F_OK) != 0 && ::access(kSystemSocket, F_OK) == 0) return kSystemSocket;
  return path;
}

}  // namespace memprofd
