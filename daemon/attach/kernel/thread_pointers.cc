// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/thread_pointers.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <string>

#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/util/fd.h"

namespace memprofd {

constexpr std::size_t kMaxThreads = 4096;

bool has_kernel_types(const std::string& sys_root) {
  std::ifstream types(sys_root + "/kernel/btf/vmlinux");
  return types.peek() != std::ifstream::traits_type::eof();
}

std::vector<std::uint64_t> read_thread_pointers(const bpf_program* program, int pid) {
  bpf_iter_link_info info = {};
  info.task.pid = static_cast<std::uint32_t>(pid);
  LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info, .link_info_len = sizeof info);
  const BpfLink link(bpf_program__attach_iter(program, &options));
  if (link == nullptr) return {};
  const UniqueFd iterator(bpf_iter_create(bpf_link__fd(link.get())));
  if (!iterator) return {};
  std::vector<std::uint64_t> pointers(kMaxThreads);
  std::size_t bytes = 0;
  while (bytes < kMaxThreads * sizeof(std::uint64_t)) {
    const ssize_t n = ::read(iterator.get(), reinterpret_cast<char*>(pointers.data()) + bytes,
                             kMaxThreads * sizeof(std::uint64_t) - bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    bytes += static_cast<std::size_t>(n);
  }
  pointers.resize(bytes / sizeof(std::uint64_t));
  return pointers;
}

}  // namespace memprofd
