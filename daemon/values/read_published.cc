// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/read_published.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "daemon/query/frame_filter.h"
#include "daemon/util/status_macros.h"
#include "daemon/values/page_cache.h"
#include "daemon/values/tick_clock.h"

namespace memprofd {
namespace {

// A program that allocates evaluates its functions within this time.
constexpr std::chrono::milliseconds kFunctionsPatience{500};
constexpr std::chrono::milliseconds kBetweenReads{5};

bool all_evaluated(const Publication& report, std::uint64_t since_ns) {
  return std::all_of(report.all.begin(), report.all.end(), [&](const PublishedValue& one) {
    return one.kind != PublishedValue::Kind::kValue || one.source != MEMPROF_VALUE_FUNCTION ||
           one.is_off() || one.changed_ns.value_or(0) >= since_ns;
  });
}

// The program dates values with the coarse clock, which advances at each timer interrupt.
constexpr std::uint64_t kCoarseNs = 10'000'000;

const WritableMemory& memory_for(const ValueProgram& program, const ValuesRequest& request) {
  return request.in_a_hurry ? program.quick_memory() : program.memory();
}

absl::StatusOr<Publication> read_once_evaluated(const ValueProgram& program,
                                                const ValuesRequest& request,
                                                const std::function<bool()>& wanted) {
  const std::uint64_t begin_ns = tick_now().ns;
  const auto until = std::chrono::steady_clock::now() + kFunctionsPatience;
  const WritableMemory& memory = memory_for(program, request);
  if (request.observes_only)
    return read_publication(memory, program.registry(), tick_now(), request.by_domain);
  ASSIGN_OR_RETURN(const bool is_first, observe_report(memory, program.registry(), begin_ns));
  while (true) {
    ASSIGN_OR_RETURN(Publication report,
                     read_publication(memory, program.registry(), tick_now(), request.by_domain));
    if (!is_first || request.in_a_hurry || all_evaluated(report, begin_ns - kCoarseNs) ||
        !wanted() || std::chrono::steady_clock::now() >= until) {
      return report;
    }
    std::this_thread::sleep_for(kBetweenReads);
  }
}

bool is_of_c_code(const PublishedValue& one) {
  return one.kind == PublishedValue::Kind::kValue && one.source == MEMPROF_VALUE_ADDRESS &&
         !one.is_off();
}

// Reads values of C code at their addresses.
absl::Status read_addresses(const ValueProgram& program, const ValuesRequest& request,
                            const AddressRange& image, Publication& report) {
  if (std::none_of(report.all.begin(), report.all.end(), is_of_c_code)) return absl::OkStatus();
  PageCache pages(memory_for(program, request));
  ASSIGN_OR_RETURN(const std::vector<Mapping> mappings, program.mappings());
  pages.set_mappings(mappings, image);
  for (PublishedValue& one : report.all) {
    if (!is_of_c_code(one)) continue;
    std::uint64_t word = 0;
    if (!pages.read_value(one.root, word).ok()) {
      one.value = {.kind = ValueKind::kUnread, .why = WhyUnread::kNotMapped};
    } else if (one.type == MEMPROF_VALUE_FLOAT) {
      one.value = {.kind = ValueKind::kFloat, .number = std::bit_cast<double>(word)};
    } else {
      one.value = {.kind = ValueKind::kInteger, .integer = static_cast<std::int64_t>(word)};
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::uint64_t root_address(const ValueProgram& program, const PublishedValue& value) {
  return program.registry() + offsetof(memprof_values, slots) + value.slot * sizeof(memprof_slot) +
         offsetof(memprof_slot, root);
}

void set_value(PublishedValue& reported, Value value) {
  const bool is_held = reported.type != MEMPROF_VALUE_ANY && value.kind == ValueKind::kReference;
  reported.is_torn |= value.is_changing;
  reported.value = is_held ? Value(value.fields.front()) : std::move(value);
}

absl::StatusOr<Publication> read_published_values(const ValueProgram& program,
                                                  const ValueProgram::Layout& found,
                                                  const ValuesRequest& request,
                                                  const std::function<bool()>& wanted) {
  ASSIGN_OR_RETURN(const Patterns patterns, Patterns::compile("name", {request.pattern}));
  if (program.registry() == 0) return Publication();
  ASSIGN_OR_RETURN(Publication report, read_once_evaluated(program, request, wanted));
  std::erase_if(report.all, [&](const PublishedValue& one) {
    return !patterns.empty() && !patterns.any_in(one.full_name());
  });
  RETURN_IF_ERROR(read_addresses(program, request, found.image, report));
  return report;
}

}  // namespace memprofd
