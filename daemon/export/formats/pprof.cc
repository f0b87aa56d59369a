// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/pprof.h"

#include <fmt/core.h>
#include <google/protobuf/arena.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/export/formats/rounding.h"
#include "daemon/export/formats/stack_table.h"
#include "daemon/util/gzip.h"
#include "daemon/util/utf8.h"
#include "pprof/profile.pb.h"

namespace memprofd {
namespace {

namespace pprof_pb = perftools::profiles;

constexpr std::array<std::array<const char*, 2>, 4> kSampleTypes{{{"alloc_objects", "count"},
                                                                  {"alloc_space", "bytes"},
                                                                  {"inuse_objects", "count"},
                                                                  {"inuse_space", "bytes"}}};

std::array<double, kSampleTypes.size()> values_of(const Counters& counters) {
  return {counters.allocated_objects, counters.allocated.bytes(), counters.live_objects,
          counters.live.bytes()};
}

// What one sample of the profile stands for; the target is the callstack's.
struct SampleKey {
  std::uint32_t stack = 0;
  std::uint32_t thread = AllocClass::kAnyThread;
  Place place = Place::kMinor;
  Source source = Source::kNormal;

  friend bool operator==(const SampleKey&, const SampleKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const SampleKey& key) {
    return H::combine(std::move(h), key.stack, key.thread, static_cast<int>(key.place),
                      static_cast<int>(key.source));
  }
};

class PprofBuilder {
 public:
  PprofBuilder(const std::vector<TargetProfile>& profiles, PprofKind kind)
      : profiles_(profiles), table_(profiles) {
    texts_.reserve(2 * table_.locations().size());
    functions_.reserve(table_.locations().size());
    text("");
    add_types(kind);
    add_span();
    for (const TargetProfile& profile : profiles) add_comment(profile);
    for (const StackTable::Frame& frame : table_.frames()) add_location(frame);
    add_label_words();
    merge_rows();
    add_samples();
  }

  std::string gzipped() const { return gzip_compress(out_.SerializeAsString()); }

 private:
  std::int64_t text(const std::string& words) {
    if (const auto known = texts_.find(words); known != texts_.end()) return known->second;
    const std::int64_t id = out_.string_table_size();
    *out_.add_string_table() = words;
    texts_.emplace(out_.string_table(static_cast<int>(id)), id);
    return id;
  }
  void set(pprof_pb::ValueType& type, const char* name, const char* unit) {
    type.set_type(text(name));
    type.set_unit(text(unit));
  }

  void add_types(PprofKind kind) {
    for (const auto& [name, unit] : kSampleTypes) set(*out_.add_sample_type(), name, unit);
    set(*out_.mutable_period_type(), "space", "bytes");
    out_.set_default_sample_type(text(kind == PprofKind::kHeap ? "inuse_space" : "alloc_space"));
    double rate = 1;  // the lowest: no value is finer than its period
    for (const TargetProfile& profile : profiles_) {
      if (profile.sampling_rate > 0) rate = std::min(rate, profile.sampling_rate);
    }
    if (!profiles_.empty()) out_.set_period(std::llround(kBytesPerWord / rate));
  }

  void add_span() {
    std::uint64_t begin = UINT64_MAX;
    std::uint64_t end = 0;
    for (const TargetProfile& profile : profiles_) {
      begin = std::min(begin, profile.range.begin_ns);
      end = std::max(end, profile.range.end_ns);
    }
    if (end < begin) return;
    out_.set_time_nanos(static_cast<std::int64_t>(begin));
    out_.set_duration_nanos(static_cast<std::int64_t>(end - begin));
  }

  void add_comment(const TargetProfile& profile) {
    out_.add_comment(
        text(fmt::format("pid={} sampling_rate={:g} dropped_events={} runtime={} comm={}",
                         profile.pid, profile.sampling_rate, profile.dropped_events,
                         printable(profile.runtime_version), printable(profile.comm))));
  }

  // Location ids are indexes of frames + 1.
  void add_location(const StackTable::Frame& frame) {
    pprof_pb::Location& out = *out_.add_location();
    out.set_id(static_cast<std::uint64_t>(out_.location_size()));
    out.set_address(frame.address);
    for (const std::uint32_t id : frame.locations) {
      const Location& location = *table_.locations()[id];
      pprof_pb::Line& line = *out.add_line();
      line.set_function_id(function(location));
      line.set_line(location.line);
      if (location.line > 0) line.set_column(std::int64_t{location.start_column} + 1);
      if (out.mapping_id() == 0 && !location.library.empty()) {
        out.set_mapping_id(mapping(frame.target, location.library));
      }
    }
  }

  std::uint64_t function(const Location& location) {
    const std::pair key(text(location.function), text(location.file));
    const auto [it, is_new] = functions_.try_emplace(key, functions_.size() + 1);
    if (is_new) {
      pprof_pb::Function& out = *out_.add_function();
      out.set_id(it->second);
      // No system name: pprof shortens a name that is the same as that, when it has
      // brackets, as if it were of C++.
      out.set_name(key.first);
      out.set_filename(key.second);
    }
    return it->second;
  }

  // module: base name of the ELF file, whose path is known for the program itself.
  std::uint64_t mapping(std::uint32_t target, const std::string& module) {
    std::uint64_t& known = mappings_of_[std::pair(target, std::string_view(module))];
    if (known == 0) known = mapping_of_file(file_of(profiles_[target], module));
    return known;
  }
  static std::string file_of(const TargetProfile& profile, const std::string& module) {
    const std::string exe = valid_utf8(profile.exe);
    return exe.substr(exe.find_last_of('/') + 1) == module ? exe : module;
  }
  std::uint64_t mapping_of_file(const std::string& path) {
    const std::int64_t file = text(path);
    const auto [it, is_new] = mappings_.try_emplace(file, mappings_.size() + 1);
    if (is_new) {
      pprof_pb::Mapping& out = *out_.add_mapping();
      out.set_id(it->second);
      out.set_filename(file);
      out.set_has_functions(true);
      out.set_has_filenames(true);
      out.set_has_line_numbers(true);
      out.set_has_inline_frames(true);
    }
    return it->second;
  }

  void merge_rows() {
    absl::flat_hash_map<SampleKey, std::size_t> index;
    for (std::size_t target = 0; target < profiles_.size(); ++target) {
      for (std::size_t i = 0; i < profiles_[target].rows.size(); ++i) {
        const ProfileRow& row = profiles_[target].rows[i];
        const SampleKey key{table_.stack_of(target, i), row.alloc_class.thread,
                            row.alloc_class.place(), row.alloc_class.source};
        const auto [it, is_new] = index.try_emplace(key, keys_.size());
        if (is_new) {
          keys_.push_back(key);
          for (std::vector<double>& column : values_) column.push_back(0);
        }
        const auto values = values_of(row.counters);
        for (std::size_t v = 0; v < values.size(); ++v) values_[v][it->second] += values[v];
      }
    }
  }

  void add_samples() {
    std::array<std::vector<std::int64_t>, kSampleTypes.size()> rounded;
    std::transform(values_.begin(), values_.end(), rounded.begin(), round_keeping_sum);
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const auto is_zero = [&](const auto& column) { return column[i] == 0; };
      if (std::all_of(rounded.begin(), rounded.end(), is_zero)) continue;
      pprof_pb::Sample& out = *out_.add_sample();
      for (const auto& column : rounded) out.add_value(column[i]);
      for (const StackTable::Run& run : table_.stacks()[keys_[i].stack]) {
        for (std::uint32_t n = 0; n < run.times; ++n) out.add_location_id(run.frame + 1);
      }
      add_labels(keys_[i], out);
    }
  }

  void add_labels(const SampleKey& key, pprof_pb::Sample& out) {
    const std::uint32_t target = table_.target_of(key.stack);
    // A number: pprof takes -tagfocus=pid=42 for a range, which no text is in.
    add_number(words_.pid, profiles_[target].pid, out);
    add_text(words_.comm, words_.comms[target], out);
    add_text(words_.heap, words_.heaps[static_cast<int>(key.place)], out);
    add_text(words_.source, words_.sources[static_cast<int>(key.source)], out);
    if (key.thread != AllocClass::kAnyThread) add_number(words_.thread, key.thread, out);
  }
  static void add_text(std::int64_t name, std::int64_t value, pprof_pb::Sample& out) {
    pprof_pb::Label& label = *out.add_label();
    label.set_key(name);
    label.set_str(value);
  }
  static void add_number(std::int64_t name, std::int64_t value, pprof_pb::Sample& out) {
    pprof_pb::Label& label = *out.add_label();
    label.set_key(name);
    label.set_num(value);
  }

  // Indexes in the string table.
  struct LabelWords {
    std::int64_t pid, comm, heap, source, thread;
    std::vector<std::int64_t> comms;  // by target
    std::array<std::int64_t, kPlaces> heaps;
    std::array<std::int64_t, kSources> sources;
  };
  void add_label_words() {
    words_ = {text("pid"), text("comm"), text("heap"), text("source"), text("thread"), {}, {}, {}};
    for (const TargetProfile& profile : profiles_) {
      words_.comms.push_back(text(printable(profile.comm)));
    }
    for (int i = 0; i < kPlaces; ++i) words_.heaps[i] = text(kPlaceWords[i]);
    for (int i = 0; i < kSources; ++i) words_.sources[i] = text(kSourceWords[i]);
  }

  const std::vector<TargetProfile>& profiles_;
  const StackTable table_;
  // Owns all of out_: a hundred thousand messages, made and ended one by one, take longer.
  google::protobuf::Arena arena_;
  pprof_pb::Profile& out_ = *google::protobuf::Arena::CreateMessage<pprof_pb::Profile>(&arena_);
  absl::flat_hash_map<std::string_view, std::int64_t> texts_;  // of out_
  absl::flat_hash_map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> functions_;
  absl::flat_hash_map<std::int64_t, std::uint64_t> mappings_;  // by file
  // By target and module, which is a location's.
  absl::flat_hash_map<std::pair<std::uint32_t, std::string_view>, std::uint64_t> mappings_of_;
  LabelWords words_;
  std::vector<SampleKey> keys_;
  std::array<std::vector<double>, kSampleTypes.size()> values_;  // of keys_
};

}  // namespace

std::string pprof_profile(const std::vector<TargetProfile>& profiles, PprofKind kind) {
  return PprofBuilder(profiles, kind).gzipped();
}

}  // namespace memprofd
