// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/kernel_structures.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/util/fd.h"

namespace memprofd {
namespace {

constexpr std::size_t kMaxThreads = 4096;

struct BtfCloser {
  void operator()(btf* types) const { btf__free(types); }
};

// Offset of a member in a structure of the kernel, whose parts may have no name.
std::optional<std::uint32_t> offset_of_member(const btf* types, __s32 id, std::string_view name) {
  const btf_type* type = id < 0 ? nullptr : btf__type_by_id(types, static_cast<__u32>(id));
  if (type == nullptr || !btf_is_composite(type)) return std::nullopt;
  const btf_member* members = btf_members(type);
  for (std::uint32_t i = 0; i < btf_vlen(type); ++i) {
    const std::string_view member = btf__name_by_offset(types, members[i].name_off);
    const std::uint32_t at = btf_member_bit_offset(type, i) / 8;
    if (member == name) return at;
    if (!member.empty()) continue;
    if (const auto within = offset_of_member(types, static_cast<__s32>(members[i].type), name))
      return at + *within;
  }
  return std::nullopt;
}

struct OffsetRow {
  std::uint32_t KernelOffsets::*place;  // the sum over its rows
  const char* of;
  const char* member;
};

constexpr OffsetRow kOffsets[] = {
    {&KernelOffsets::thread_pointer, "task_struct", "thread"},
    {&KernelOffsets::thread_pointer, "thread_struct", "fsbase"},
    {&KernelOffsets::task_memory, "task_struct", "mm"},
    {&KernelOffsets::memory_probe_page, "mm_struct", "uprobes_state"},
    {&KernelOffsets::memory_probe_page, "uprobes_state", "xol_area"},
    {&KernelOffsets::probe_page_address, "xol_area", "vaddr"},
    {&KernelOffsets::task_probes, "task_struct", "utask"},
    {&KernelOffsets::probes_awaited, "uprobe_task", "return_instances"},
    {&KernelOffsets::awaited_next, "return_instance", "next"},
    {&KernelOffsets::awaited_slot, "return_instance", "stack"},
};

std::optional<KernelOffsets> places_in(const btf* types) {
  KernelOffsets offsets;
  for (const OffsetRow& row : kOffsets) {
    const auto at =
        offset_of_member(types, btf__find_by_name_kind(types, row.of, BTF_KIND_STRUCT), row.member);
    if (!at) return std::nullopt;
    offsets.*row.place += *at;
  }
  return offsets;
}

}  // namespace

absl::StatusOr<KernelOffsets> kernel_offsets() {
  const std::unique_ptr<btf, BtfCloser> types(btf__load_vmlinux_btf());
  const auto offsets = types == nullptr ? std::nullopt : places_in(types.get());
  if (offsets) return *offsets;
  return absl::UnimplementedError(
      "this kernel has no type information, which --c-heap needs in observe mode; boot one with "
      "CONFIG_DEBUG_INFO_BTF, or omit --c-heap");
}

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
