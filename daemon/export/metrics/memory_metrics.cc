// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/memory_metrics.h"

namespace memprofd {
namespace {

constexpr MetricName kResident{
    "memprofd_target_resident_bytes",
    "Resident memory of the program by kind, counted by the kernel; the sum is its RSS."};
constexpr MetricName kSwapped{"memprofd_target_swapped_bytes",
                              "Memory of the program that is swapped out."};
constexpr MetricName kPageTables{
    "memprofd_target_page_table_bytes",
    "Memory of the program's page tables, which its RSS does not include."};

}  // namespace

void add_memory_metrics(const MemoryStatus& memory, MetricFamilies& out) {
  const auto resident = [&](const char* kind, std::uint64_t bytes) {
    out.gauge(kResident, {{"kind", kind}}, static_cast<double>(bytes));
  };
  resident("anonymous", memory.anonymous);
  resident("file", memory.files);
  resident("shared_memory", memory.shared);
  out.gauge(kSwapped, {}, static_cast<double>(memory.swapped));
  out.gauge(kPageTables, {}, static_cast<double>(memory.page_tables));
}

}  // namespace memprofd
