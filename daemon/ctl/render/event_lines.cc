// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/event_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "daemon/ctl/render/text.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Returns "alloc_minor" for EVENT_KIND_ALLOC_MINOR, and empty for a value of a later version.
std::string word(const std::string& name, const char* prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}
std::string kind_word(pb::EventKind kind) { return word(pb::EventKind_Name(kind), "EVENT_KIND_"); }
std::string source_word(pb::BlockSource source) {
  return word(pb::BlockSource_Name(source), "BLOCK_SOURCE_");
}
std::string heap_word(pb::BlockHeap heap) { return word(pb::BlockHeap_Name(heap), "BLOCK_HEAP_"); }

bool is_death(pb::EventKind kind) {
  return kind == pb::EVENT_KIND_DEALLOC_MINOR || kind == pb::EVENT_KIND_DEALLOC_MAJOR ||
         kind == pb::EVENT_KIND_C_FREE;
}

// "12 words", or "1000 bytes" for a native block.
std::string size_text(const pb::SampleEvent& event) {
  return event.heap() == pb::BLOCK_HEAP_C ? absl::StrCat(event.size_bytes(), " bytes")
                                          : absl::StrCat(event.size_words(), " words");
}

}  // namespace

std::string EventLines::text_line(const pb::SampleEvent& event) const {
  std::string line = absl::StrFormat(
      "%.6f %-13s block %d, %s, %d samples, %s, thread %d",
      static_cast<double>(event.time_unix_ns()) / 1e9, kind_word(event.kind()), event.block(),
      size_text(event), event.n_samples(), source_word(event.source()), event.thread());
  if (is_death(event.kind())) {
    absl::StrAppend(&line, ", lived ", format_duration(event.lifetime_seconds()));
  }
  if (const auto stack = callstacks_.find(event.callstack_id()); stack != callstacks_.end()) {
    const char* separator = "  ";
    for (const pb::Location& frame : stack->second.locations()) {
      const std::string location = location_text(frame.file(), frame.line());
      absl::StrAppend(&line, separator, printable(frame.function()), location.empty() ? "" : " ",
                      location);
      separator = " < ";
    }
  }
  return line + "\n";
}

std::string EventLines::json_line(const pb::SampleEvent& event) const {
  Json out{{"kind", kind_word(event.kind())}, {"time_unix_ns", event.time_unix_ns()},
           {"block", event.block()},          {"size_words", event.size_words()},
           {"n_samples", event.n_samples()},  {"source", source_word(event.source())},
           {"thread", event.thread()},        {"domain", event.domain()}};
  if (event.heap() != pb::BLOCK_HEAP_UNSPECIFIED) out["heap"] = heap_word(event.heap());
  if (event.heap() == pb::BLOCK_HEAP_C) out["size_bytes"] = event.size_bytes();
  if (is_death(event.kind())) out["lifetime_seconds"] = event.lifetime_seconds();
  Json frames = Json::array();
  if (const auto stack = callstacks_.find(event.callstack_id()); stack != callstacks_.end()) {
    for (const pb::Location& frame : stack->second.locations()) {
      frames.push_back(
          {{"function", frame.function()}, {"file", frame.file()}, {"line", frame.line()}});
    }
  }
  out["callstack"] = std::move(frames);
  return dump(out);
}

std::string EventLines::lines(const pb::StreamEventsResponse& response, std::size_t count) {
  for (const pb::EventCallstack& stack : response.callstacks()) callstacks_[stack.id()] = stack;
  std::string out;
  if (response.dropped_events() > 0) {
    out = json_ ? dump({{"kind", "dropped"}, {"events", response.dropped_events()}})
                : absl::StrCat(format_count(response.dropped_events()),
                               " events lost: this reader was too slow\n");
  }
  if (response.lost_records() > 0) {
    out += json_ ? dump({{"kind", "lost"}, {"records", response.lost_records()}})
                 : absl::StrCat(format_count(response.lost_records()),
                                " records lost before they reached memprofd\n");
  }
  count = std::min<std::size_t>(count, response.events_size());
  for (std::size_t i = 0; i < count; ++i) {
    const pb::SampleEvent& event = response.events(static_cast<int>(i));
    out += json_ ? json_line(event) : text_line(event);
  }
  return out;
}

}  // namespace memprofd::ctl
