// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/recording.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/ingest/decoder.h"
#include "daemon/trace/ctf/ctf_format.h"
#include "daemon/trace/trace_codes.h"
#include "daemon/util/estimate.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kMaxBlockId = (std::uint64_t{1} << 48) - 1;

ctf::Source source_of(const SampleEvent& event) {
  const memprof_record& record = event.record;
  if (event.of_c() || MEMPROF_ORIGIN_SOURCE(record.origin) == MEMPROF_SOURCE_CUSTOM) {
    return ctf::Source::kExternal;
  }
  return MEMPROF_ORIGIN_KIND(record.origin) == MEMPROF_ALLOC_MAJOR ? ctf::Source::kMajor
                                                                   : ctf::Source::kMinor;
}

}  // namespace

TraceRecording::TraceRecording(TraceOutput& output, std::shared_ptr<Symbolizer> symbolizer,
                               ctf::TraceInfo info, RecordingOptions options)
    : output_(output),
      symbolizer_(std::move(symbolizer)),
      info_(std::move(info)),
      options_(options),
      unix_offset_ns_(realtime_ns() - monotonic_ns()) {}

std::uint64_t TraceRecording::unix_us(std::uint64_t monotonic_ns) const {
  return (monotonic_ns + unix_offset_ns_) / 1000;
}

bool TraceRecording::put(const EventRead& read) {
  if (!ended_.empty()) return false;
  stats_.dropped_events += read.dropped;
  stats_.lost_records += read.lost.of(options_.of_c);
  for (const EventSlice& slice : read.slices) {
    for (const SampleEvent& event : slice.events()) {
      if (event.of_c() == options_.of_c && !put(*slice.chunk, event)) return false;
    }
  }
  return true;
}

bool TraceRecording::put(const EventChunk& chunk, const SampleEvent& event) {
  if (!open_file_for(chunk.rate_of(options_.of_c), event.record.time_ns)) return false;
  const EventClass* alloc_class = chunk.find(event.alloc_class);
  absl::Status status;
  if (!is_alloc(event.record)) {
    status = put_fate(event, MEMPROF_ORIGIN_KIND(event.record.origin) == MEMPROF_PROMOTE);
  } else if (alloc_class != nullptr) {
    status = put_alloc(event, *alloc_class);
  }
  stats_.bytes = bytes_before_ + writer_->bytes_written();
  return status.ok() || fail(status);
}

bool TraceRecording::open_file_for(double rate, std::uint64_t time_ns) {
  // An earlier event may arrive slightly later.
  if (writer_ == nullptr) return begin_file(rate, std::min(time_ns, began_ns_));
  std::string why;
  if (rate != info_.sampling_rate) {
    why = absl::StrCat("the sampling rate changed to ", format_rate(rate),
                       ", and a trace has one rate");
  } else if (is_full()) {
    why = absl::StrCat("the size limit of ", format_bytes(static_cast<double>(options_.max_bytes)),
                       " is reached");
  } else {
    return true;
  }
  if (!options_.rotate) return end(why, time_ns);
  if (!extend_file(time_ns)) return false;
  close_file();
  return begin_file(rate, time_ns);
}

absl::Status TraceRecording::put_alloc(const SampleEvent& event, const EventClass& alloc_class) {
  trace_callstack(*alloc_class.callstack, codes_);
  if (codes_.empty()) codes_.push_back(kUnknownCode);
  const std::uint16_t domain = event.of_c() ? 0 : alloc_class.alloc_class.domain;
  if (options_.version >= ctf::kVersionDomains) domains_.insert(domain);
  const ctf::Source source = source_of(event);
  ASSIGN_OR_RETURN(const std::uint64_t id,
                   writer_->alloc({.time_us = unix_us(event.record.time_ns),
                                   .domain = domain,
                                   .length_words = std::min<std::uint64_t>(event.record.size_words,
                                                                           ctf::kMaxWords),
                                   .n_samples = samples_of(event),
                                   .source = source,
                                   .callstack = codes_}));
  ++stats_.events;
  ++stats_.samples;
  if (blocks_.size() < options_.max_blocks && id <= kMaxBlockId) {
    blocks_.insert_or_assign(SampleId(event.record.sample_id),
                             Block{id, domain, source == ctf::Source::kExternal});
  }
  return absl::OkStatus();
}

// Number of samples of a large native block: its words, as estimates count them, times the rate,
// rounded at random.
std::uint64_t TraceRecording::samples_of(const SampleEvent& event) {
  if (!event.of_c() || !SizeBucket::of(event.record.size_words).fine()) {
    return event.record.n_samples;
  }
  const double rate = info_.sampling_rate;
  const auto words = static_cast<double>(event.record.size_words);
  const double samples = weight_of_block(words, rate).words * rate;
  const double whole = std::floor(samples);
  const double chance = std::uniform_real_distribution<double>()(dice_);
  return static_cast<std::uint64_t>(whole) + (chance < samples - whole ? 1 : 0);
}

absl::Status TraceRecording::put_fate(const SampleEvent& event, bool promoted) {
  const auto block = blocks_.find(SampleId(event.record.sample_id));
  if (block == blocks_.end()) {
    ++stats_.unfollowed_events;
    return absl::OkStatus();
  }
  if (promoted && block->second.external != 0) return absl::OkStatus();
  const ctf::BlockEvent fate{.time_us = unix_us(event.record.time_ns),
                             .id = block->second.id,
                             .domain = static_cast<std::uint16_t>(block->second.domain)};
  if (!promoted) blocks_.erase(block);
  RETURN_IF_ERROR(promoted ? writer_->promote(fate) : writer_->collect(fate));
  ++stats_.events;
  return absl::OkStatus();
}

bool TraceRecording::is_full() const {
  if (options_.max_bytes == 0) return false;
  const std::size_t packets = 1 + std::max<std::size_t>(domains_.size(), 1);
  return writer_->bytes_written() + packets * ctf::kMaxPacketBytes > options_.max_bytes;
}

bool TraceRecording::begin_file(double rate, std::uint64_t start_ns) {
  if (absl::Status status = output_.begin_file(); !status.ok()) return fail(status);
  info_.sampling_rate = rate;
  info_.start_time_us = unix_us(start_ns);
  writer_ = std::make_unique<ctf::Writer>(
      [this](std::span<const std::byte> packet) { return output_.write(packet); },
      [this](std::uint64_t code) { return trace_locations(*symbolizer_, code); }, info_,
      ctf::WriterOptions{.version = options_.version});
  return true;
}

void TraceRecording::close_file() {
  if (writer_ == nullptr) return;
  bytes_before_ += writer_->bytes_written();
  writer_.reset();
  blocks_.clear();
  domains_.clear();
}

bool TraceRecording::flush() {
  if (!ended_.empty()) return false;
  if (writer_ == nullptr && !begin_file(info_.sampling_rate, began_ns_)) return false;
  const absl::Status status = writer_->flush();
  stats_.bytes = bytes_before_ + writer_->bytes_written();
  return status.ok() || fail(status);
}

bool TraceRecording::extend_file(std::uint64_t until_ns) {
  if (!flush()) return false;
  const absl::Status status = writer_->end(unix_us(until_ns));
  stats_.bytes = bytes_before_ + writer_->bytes_written();
  return status.ok() || fail(status);
}

bool TraceRecording::end(const std::string& why, std::uint64_t until_ns) {
  if (!(until_ns == 0 ? flush() : extend_file(until_ns))) return false;
  ended_ = why;
  close_file();
  return false;
}

// Unwritten events are lost; they were counted when they arrived.
bool TraceRecording::fail(const absl::Status& status) {
  ended_ = std::string(status.message());
  if (writer_ != nullptr) stats_.events -= std::min(stats_.events, writer_->events_lost());
  close_file();
  return false;
}

}  // namespace memprofd
