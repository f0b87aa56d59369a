// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/pprof.h"

#include <fmt/core.h>
#include <google/protobuf/arena.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/export/formats/rounding.h"
#include "daemon/export/formats/stack_table.h"
#include "daemon/util/base_name.h"
#include "daemon/util/clock.h"
#include "daemon/util/fnv1a.h"
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

using Values = std::array<double, kSampleTypes.size()>;

Values values_of(const Counters& counters) {
  return {counters.allocated_objects, counters.allocated.bytes(), counters.live_objects,
          counters.live.bytes()};
}

// Key of a sample of the profile; the callstack determines the target.
struct SampleKey {
  std::uint32_t stack = 0;  // of a SampleSet
  std::uint32_t thread = AllocClass::kAnyThread;
  HeapKind heap_kind = HeapKind::kMinor;
  Source source = Source::kNormal;

  friend bool operator==(const SampleKey&, const SampleKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const SampleKey& key) {
    return H::combine(std::move(h), key.stack, key.thread, static_cast<int>(key.heap_kind),
                      static_cast<int>(key.source));
  }
};

// The samples of a profile: rows with the same callstack and labels are one sample. Its frames are
// those of the table, and then one per target, "(other)", for folded callstacks.
class SampleSet {
 public:
  SampleSet(const std::vector<TargetProfile>& profiles, const StackTable& table) : table_(table) {
    for (std::size_t target = 0; target < profiles.size(); ++target) {
      for (std::size_t i = 0; i < profiles[target].rows.size(); ++i) {
        const ProfileRow& row = profiles[target].rows[i];
        add({table.stack_of(target, i), row.alloc_class.thread, row.alloc_class.heap_kind(),
             row.alloc_class.source},
            values_of(row.counters));
      }
    }
  }

  std::size_t size() const { return keys_.size(); }
  const SampleKey& key(std::size_t i) const { return keys_[i]; }
  const StackTable::Stack& stack(const SampleKey& key) const {
    const std::size_t known = table_.stacks().size();
    return key.stack < known ? table_.stacks()[key.stack] : folded_[key.stack - known];
  }
  const Values& values(std::size_t i) const { return values_[i]; }
  std::uint32_t target_of(std::size_t i) const {
    return target_of_frame(stack(keys_[i]).front().frame);
  }
  bool is_other(std::uint32_t frame) const { return frame >= table_.frames().size(); }
  std::uint32_t target_of_frame(std::uint32_t frame) const {
    if (!is_other(frame)) return table_.frames()[frame].target;
    return frame - static_cast<std::uint32_t>(table_.frames().size());
  }

  // Keeps at most `most` samples, unless there are more targets: the smaller ones become "(other)"
  // below their callers, as far down the stack as necessary. Sums of targets, heaps and sources
  // stay.
  void fold(std::size_t most) {
    bool changed = true;
    for (std::size_t frames = 1; size() > most && changed; frames *= 2) {
      changed = fold_smallest(size() - std::min(size(), most / 2), frames);
    }
  }

 private:
  void add(const SampleKey& key, const Values& values) {
    const auto [it, is_new] = index_.try_emplace(key, keys_.size());
    if (is_new) {
      keys_.push_back(key);
      values_.emplace_back();
    }
    for (std::size_t v = 0; v < values.size(); ++v) values_[it->second][v] += values[v];
  }

  // The largest share that each sample has of any total.
  std::vector<double> shares() const {
    Values totals{};
    for (const Values& values : values_) {
      for (std::size_t v = 0; v < values.size(); ++v) totals[v] += values[v];
    }
    std::vector<double> shares(size());
    for (std::size_t i = 0; i < size(); ++i) {
      for (std::size_t v = 0; v < totals.size(); ++v) {
        if (totals[v] > 0) shares[i] = std::max(shares[i], values_[i][v] / totals[v]);
      }
    }
    return shares;
  }

  // Folds n samples by this number of frames. Returns false if nothing was left to fold.
  bool fold_smallest(std::size_t n, std::size_t frames) {
    const std::vector<double> share = shares();
    std::vector<std::size_t> order(size());
    std::iota(order.begin(), order.end(), 0);
    const auto smaller = [&](std::size_t a, std::size_t b) {
      return std::pair(share[a], a) < std::pair(share[b], b);
    };
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n) - 1, order.end(),
                     smaller);
    bool changed = false;
    for (std::size_t i = 0; i < n; ++i) changed |= fold(keys_[order[i]], frames);
    const std::vector<SampleKey> keys = std::exchange(keys_, {});
    const std::vector<Values> values = std::exchange(values_, {});
    index_.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) add(keys[i], values[i]);
    return changed;
  }

  bool fold(SampleKey& key, std::size_t frames) {
    const StackTable::Stack& of = stack(key);
    const std::uint32_t innermost = of.front().frame;
    if (of.size() == 1 && is_other(innermost)) {
      return std::exchange(key.thread, AllocClass::kAnyThread) != AllocClass::kAnyThread;
    }
    if (is_other(innermost)) ++frames;
    const auto gone = static_cast<std::ptrdiff_t>(std::min(frames, of.size()));
    StackTable::Stack callers{
        {static_cast<std::uint32_t>(table_.frames().size()) + target_of_frame(innermost), 1}};
    callers.insert(callers.end(), of.begin() + gone, of.end());
    key.stack = number(std::move(callers));
    return true;
  }

  std::uint32_t number(StackTable::Stack stack) {
    const auto next = static_cast<std::uint32_t>(table_.stacks().size() + folded_.size());
    const auto [it, is_new] = folded_ids_.try_emplace(stack, next);
    if (is_new) folded_.push_back(std::move(stack));
    return it->second;
  }

  const StackTable& table_;
  std::vector<StackTable::Stack> folded_;  // numbered after the stacks of the table
  absl::flat_hash_map<StackTable::Stack, std::uint32_t> folded_ids_;
  absl::flat_hash_map<SampleKey, std::size_t> index_;
  std::vector<SampleKey> keys_;
  std::vector<Values> values_;  // of keys_
};

// Writes one profile.
class PprofWriter {
 public:
  PprofWriter(const std::vector<TargetProfile>& profiles, const StackTable& table,
              const SampleSet& samples, PprofKind kind)
      : profiles_(profiles), table_(table), set_(samples) {
    text("");
    add_types(kind);
    add_times();
    for (const TargetProfile& profile : profiles) add_comment(profile);
    // Lists programs first: pprof takes the first mapping for the program's.
    for (std::uint32_t target = 0; target < profiles.size(); ++target) mapping(target, "");
    add_label_words();
    add_samples();
  }

  std::size_t bytes() const { return out_.ByteSizeLong(); }
  std::string gzipped() const { return gzip_compress(out_.SerializeAsString()); }

 private:
  using Line = std::array<std::int64_t, 3>;  // function id, line, column
  // Equal locations are merged, also across targets.
  struct LocationKey {
    std::uint64_t mapping = 0;
    std::uint64_t return_address = 0;
    std::vector<Line> lines;

    friend bool operator==(const LocationKey&, const LocationKey&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const LocationKey& key) {
      return H::combine(std::move(h), key.mapping, key.return_address, key.lines);
    }
  };

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
    double rate = 1;  // the lowest one, so that no value is finer than its period
    for (const TargetProfile& profile : profiles_) {
      if (profile.sampling_rate > 0) rate = std::min(rate, profile.sampling_rate);
    }
    out_.set_period(std::llround(kBytesPerWord / rate));
  }

  // A profile since the attach describes a moment, as Go's profiles do: receivers would mistake one
  // with a duration for a difference.
  void add_times() {
    std::int64_t begin = INT64_MAX;
    std::int64_t end = 0;
    bool since_attach = true;
    for (const TargetProfile& profile : profiles_) {
      const auto by_clock = [&](std::uint64_t time_ns) {
        return static_cast<std::int64_t>(time_ns) + profile.clock_set_by_ns;
      };
      begin = std::min(begin, by_clock(profile.range.begin_ns));
      end = std::max(end, by_clock(profile.range.end_ns));
      since_attach = since_attach && profile.since_attach;
    }
    if (end < begin) begin = end = static_cast<std::int64_t>(realtime_ns());  // no targets
    out_.set_time_nanos(since_attach ? end : begin);
    if (!since_attach) out_.set_duration_nanos(end - begin);
  }

  void add_comment(const TargetProfile& profile) {
    out_.add_comment(
        text(fmt::format("pid={} sampling_rate={:g} dropped_events={} runtime={} comm={}",
                         profile.pid, profile.sampling_rate, profile.dropped_events,
                         printable(profile.runtime_version), printable(profile.comm))));
  }

  // Indexed by frame of the SampleSet.
  std::uint64_t location(std::uint32_t frame) {
    std::uint64_t& known = location_of_frame_[frame];
    if (known == 0) known = add_location(frame);
    return known;
  }

  std::uint64_t add_location(std::uint32_t frame) {
    const std::uint32_t target = set_.target_of_frame(frame);
    LocationKey key;
    Fnv1a content;
    const auto add_line = [&](const Location& of) {
      key.lines.push_back({static_cast<std::int64_t>(function(of)), of.line,
                           of.line > 0 ? std::int64_t{of.start_column} + 1 : 0});
      content.add(of.function).add(of.file).add(of.line).add(of.start_column);
      if (key.mapping == 0 && !of.library.empty()) key.mapping = mapping(target, of.library);
    };
    if (set_.is_other(frame)) {
      add_line({.function = "(other)"});
    } else {
      const StackTable::Frame& of = table_.frames()[frame];
      key.return_address = of.address;
      for (const std::uint32_t id : of.locations) add_line(*table_.locations()[id]);
    }
    if (key.mapping == 0) key.mapping = mapping(target, "");
    const pprof_pb::Mapping& in = out_.mapping(static_cast<int>(key.mapping) - 1);
    content.add(out_.string_table(static_cast<int>(in.build_id())));
    const auto [it, is_new] = locations_.try_emplace(
        std::move(key), static_cast<std::uint64_t>(out_.location_size()) + 1);
    if (is_new) write_location(it->first, it->second, content.value());
    return it->second;
  }

  void write_location(const LocationKey& key, std::uint64_t id, std::uint64_t content) {
    pprof_pb::Location& out = *out_.add_location();
    out.set_id(id);
    out.set_mapping_id(key.mapping);
    out.set_address(free_address(key.return_address, content));
    for (const auto& [function, line_number, column] : key.lines) {
      pprof_pb::Line& line = *out.add_line();
      line.set_function_id(static_cast<std::uint64_t>(function));
      line.set_line(line_number);
      line.set_column(column);
    }
  }

  // The return address in the lower 48 bits, and a hash of the content above it. Receivers identify
  // a location by its address from profile to profile, but several allocations share a return
  // address, unknown frames have none, and programs overlap.
  std::uint64_t free_address(std::uint64_t return_address, std::uint64_t content) {
    constexpr std::uint64_t kReturnAddress = (std::uint64_t{1} << 48) - 1;
    constexpr std::uint64_t kMarks = (1u << 15) - 1;
    for (std::uint64_t tries = 0;; ++tries) {
      const std::uint64_t mark = 1 + (content + tries) % kMarks;
      const std::uint64_t address =
          mark << 48 | ((return_address + tries / kMarks) & kReturnAddress);
      if (addresses_.insert(address).second) return address;
    }
  }

  std::uint64_t function(const Location& location) {
    const std::pair key(text(location.function), text(location.file));
    const auto [it, is_new] = functions_.try_emplace(key, functions_.size() + 1);
    if (is_new) {
      pprof_pb::Function& out = *out_.add_function();
      out.set_id(it->second);
      // Leaves the system name empty: if both names are equal and have brackets, pprof shortens
      // them as C++ names.
      out.set_name(key.first);
      out.set_filename(key.second);
    }
    return it->second;
  }

  // module: base name of the ELF file; empty: the program, whose path is known.
  std::uint64_t mapping(std::uint32_t target, const std::string& module) {
    std::uint64_t& known = mappings_of_[std::pair(target, module)];
    if (known == 0) {
      const TargetProfile& profile = profiles_[target];
      const std::string file = file_of(profile, module);
      known = mapping_of_file(file, build_id(profile, module, file));
    }
    return known;
  }
  static std::string file_of(const TargetProfile& profile, const std::string& module) {
    const std::string exe = valid_utf8(profile.exe);
    return module.empty() || base_name(exe) == module ? exe : module;
  }
  // Receivers refuse a mapping without a build id. If the file has none or is gone, its name is
  // used.
  static std::string build_id(const TargetProfile& profile, const std::string& module,
                              const std::string& file) {
    std::string id = profile.symbolizer->build_id(module);
    return id.empty() ? fmt::format("{:016x}", Fnv1a().add(file).value()) : id;
  }
  std::uint64_t mapping_of_file(const std::string& path, const std::string& build_id) {
    const std::pair key(text(path), text(build_id));
    const auto [it, is_new] = mappings_.try_emplace(key, mappings_.size() + 1);
    if (is_new) {
      pprof_pb::Mapping& out = *out_.add_mapping();
      out.set_id(it->second);
      out.set_filename(key.first);
      out.set_build_id(key.second);
      out.set_has_functions(true);
      out.set_has_filenames(true);
      out.set_has_line_numbers(true);
      out.set_has_inline_frames(true);
    }
    return it->second;
  }

  void add_samples() {
    std::array<std::vector<std::int64_t>, kSampleTypes.size()> rounded;
    for (std::size_t v = 0; v < rounded.size(); ++v) {
      std::vector<double> column(set_.size());
      for (std::size_t i = 0; i < column.size(); ++i) column[i] = set_.values(i)[v];
      rounded[v] = round_keeping_sum(column);
    }
    for (std::size_t i = 0; i < set_.size(); ++i) {
      const auto is_zero = [&](const auto& column) { return column[i] == 0; };
      if (std::all_of(rounded.begin(), rounded.end(), is_zero)) continue;
      pprof_pb::Sample& out = *out_.add_sample();
      for (const auto& column : rounded) out.add_value(column[i]);
      for (const StackTable::Run& run : set_.stack(set_.key(i))) {
        const std::uint64_t id = location(run.frame);
        for (std::uint32_t n = 0; n < run.times; ++n) out.add_location_id(id);
      }
      add_labels(set_.key(i), set_.target_of(i), out);
    }
  }

  void add_labels(const SampleKey& key, std::uint32_t target, pprof_pb::Sample& out) {
    // The pid is a number label: pprof parses -tagfocus=pid=42 as a range, which never matches
    // text.
    add_number(words_.pid, profiles_[target].pid, out);
    add_text(words_.comm, words_.comms[target], out);
    add_text(words_.heap, words_.heaps[static_cast<int>(key.heap_kind)], out);
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

  // Indexes of words in the string table.
  struct LabelWords {
    std::int64_t pid, comm, heap, source, thread;
    std::vector<std::int64_t> comms;  // by target
    std::array<std::int64_t, kHeapKinds> heaps;
    std::array<std::int64_t, kSources> sources;
  };
  void add_label_words() {
    words_ = {text("pid"), text("comm"), text("heap"), text("source"), text("thread"), {}, {}, {}};
    for (const TargetProfile& profile : profiles_) {
      words_.comms.push_back(text(printable(profile.comm)));
    }
    for (int i = 0; i < kHeapKinds; ++i) words_.heaps[i] = text(kHeapKindWords[i]);
    for (int i = 0; i < kSources; ++i) words_.sources[i] = text(kSourceWords[i]);
  }

  const std::vector<TargetProfile>& profiles_;
  const StackTable& table_;
  const SampleSet& set_;
  // The arena owns all of out_: to create and destroy a hundred thousand messages one by one takes
  // longer.
  google::protobuf::Arena arena_;
  pprof_pb::Profile& out_ = *google::protobuf::Arena::CreateMessage<pprof_pb::Profile>(&arena_);
  absl::flat_hash_map<std::string_view, std::int64_t> texts_;  // of out_
  absl::flat_hash_map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> functions_;
  absl::flat_hash_map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> mappings_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::string>, std::uint64_t> mappings_of_;
  absl::flat_hash_map<std::uint32_t, std::uint64_t> location_of_frame_;
  absl::flat_hash_map<LocationKey, std::uint64_t> locations_;
  absl::flat_hash_set<std::uint64_t> addresses_;
  LabelWords words_;
};

}  // namespace

std::string pprof_profile(const std::vector<TargetProfile>& profiles, PprofKind kind,
                          const PprofLimits& limits) {
  const StackTable table(profiles, limits.stacks);
  SampleSet samples(profiles, table);
  samples.fold(limits.samples);
  for (;;) {
    const PprofWriter writer(profiles, table, samples, kind);
    if (writer.bytes() <= limits.bytes || samples.size() <= 1) return writer.gzipped();
    // Removes slightly more than the excess, because the rest has the larger part of the text.
    const std::size_t before = samples.size();
    const double fits = 0.9 * static_cast<double>(limits.bytes) /
                        static_cast<double>(writer.bytes()) * static_cast<double>(before);
    samples.fold(std::max<std::size_t>(1, static_cast<std::size_t>(fits)));
    if (samples.size() == before) return writer.gzipped();
  }
}

}  // namespace memprofd
