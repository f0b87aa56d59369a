// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/rss_convert.h"

#include "daemon/export/api/request_checks.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

void set_status(const MemoryStatus& status, pb::GetRssResponse& out) {
  out.set_rss_bytes(status.resident());
  out.set_anonymous_bytes(status.anonymous);
  out.set_file_bytes(status.files);
  out.set_shared_memory_bytes(status.shared);
  out.set_swapped_bytes(status.swapped);
  out.set_page_table_bytes(status.page_tables);
  out.set_huge_page_bytes(status.huge_pages);
  out.set_threads(status.threads);
}

void add_parts(const RssReport& report, pb::GetRssResponse& out) {
  for (const RssPart& part : report.parts) {
    pb::RssPart& to = *out.add_parts();
    const RssClassWords& words = words_of(part.kind);
    to.set_kind(words.key.data(), words.key.size());
    to.set_title(words.title.data(), words.title.size());
    to.set_name(valid_utf8(part.name));
    to.set_resident_bytes(part.resident);
    to.set_size_bytes(part.size);
    to.set_swapped_bytes(part.swapped);
    to.set_number(part.number);
  }
}

void add_arenas(const RssReport& report, pb::GetRssResponse& out) {
  for (const RssArena& arena : report.arenas) {
    pb::RssArena& to = *out.add_arenas();
    to.set_main(arena.is_main);
    to.set_system_bytes(arena.system);
    to.set_used_bytes(arena.used);
    to.set_free_bytes(arena.free);
    to.set_cached_bytes(arena.cached);
    to.set_unwalked_bytes(arena.unwalked);
  }
}

void set_owner(const NativeOwner& owner, pb::RssOwner& to) {
  to.set_identifier(valid_utf8(owner.identifier));
  to.set_blocks(owner.blocks);
  to.set_chunks(owner.chunks);
  to.set_bytes(owner.bytes);
  to.set_resident_bytes(owner.resident);
}

void add_owners(const RssReport& report, pb::GetRssResponse& out) {
  if (!report.has_owners) return;
  for (const NativeOwner& owner : report.owners) set_owner(owner, *out.add_owners());
  set_owner(report.no_owner, *out.mutable_no_owner());
}

}  // namespace

pb::GetRssResponse to_proto(const RssReport& report) {
  pb::GetRssResponse out;
  out.set_pid(report.pid);
  out.set_program(valid_utf8(report.program));
  out.set_ocaml_version(valid_utf8(report.ocaml_version));
  set_status(report.status, out);
  out.set_counted_bytes(report.counted);
  add_parts(report, out);
  out.set_allocator(report.allocator);
  add_arenas(report, out);
  out.set_malloc_chunks(report.walked_chunks);
  out.set_malloc_mapped_chunks(report.mapped_chunks);
  out.set_ocaml_domains(report.ocaml_domains);
  out.set_space_overhead(report.space_overhead);
  for (const RssAdvice& advice : report.advice) {
    pb::RssAdvice& to = *out.add_advice();
    to.set_action(advice.action);
    to.set_reason(advice.reason);
    to.set_bytes(advice.bytes);
  }
  add_owners(report, out);
  for (const std::string& hint : report.hints) out.add_hints(hint);
  for (const std::string& note : report.notes) out.add_notes(valid_utf8(note));
  return out;
}

pb::MemoryParts to_proto(const MemoryParts& parts) {
  pb::MemoryParts out;
  out.set_resident_bytes(parts.resident());
  out.set_heap_used_bytes(parts.heap_used);
  out.set_heap_free_bytes(parts.heap_free);
  out.set_minor_heap_bytes(parts.minor_heaps);
  out.set_other_anonymous_bytes(parts.other_anonymous);
  out.set_file_bytes(parts.files);
  out.set_shared_memory_bytes(parts.shared);
  out.set_swapped_bytes(parts.swapped);
  return out;
}

absl::StatusOr<pb::GetRssResponse> get_rss(ProfilerService& service,
                                           const pb::GetRssRequest& request,
                                           const RequestedProcess& process) {
  RETURN_IF_ERROR(check_pid(process.pid));
  ASSIGN_OR_RETURN(const RssReport report,
                   service.account_rss(process, {.owners = request.owners()}));
  return to_proto(report);
}

}  // namespace memprofd
