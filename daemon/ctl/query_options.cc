// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/query_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "daemon/model/group_key.h"
#include "daemon/model/measure.h"
#include "daemon/util/one_of.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

std::map<std::string, pb::Measure> order_words() {
  std::map<std::string, pb::Measure> words;
  for (const MeasureRow& row : measures()) words.emplace(row.word, row.proto);
  return words;
}
std::map<std::string, pb::GroupBy> group_words() {
  std::map<std::string, pb::GroupBy> words;
  for (const GroupRow& row : group_keys()) words.emplace(row.word, row.proto);
  return words;
}

const std::map<std::string, pb::Fate> kFates{{"dead", pb::FATE_DEAD}, {"alive", pb::FATE_ALIVE}};
const std::map<std::string, pb::BlockHeap> kHeaps{{"minor", pb::BLOCK_HEAP_MINOR},
                                                  {"major", pb::BLOCK_HEAP_MAJOR},
                                                  {"external", pb::BLOCK_HEAP_EXTERNAL},
                                                  {"c", pb::BLOCK_HEAP_C}};
const std::map<std::string, pb::BlockSource> kSources{{"normal", pb::BLOCK_SOURCE_NORMAL},
                                                      {"marshal", pb::BLOCK_SOURCE_MARSHAL},
                                                      {"custom", pb::BLOCK_SOURCE_CUSTOM},
                                                      {"malloc", pb::BLOCK_SOURCE_MALLOC}};
const std::map<std::string, pb::Frames> kFrames{{"application", pb::FRAMES_APPLICATION},
                                                {"all", pb::FRAMES_ALL}};

// Defines an option whose words stand for values.
template <typename Value, typename Set>
void add_choice(CLI::App& app, const std::string& name, std::map<std::string, Value> words, Set set,
                const std::string& help) {
  app.add_option_function<std::string>(
         name, [words, set](const std::string& word) { set(words.at(word)); }, help)
      ->check(CLI::IsMember(words));
}

// Each occurrence adds one value. The next word is never a further value, and brackets do not form
// a list.
template <typename Value, typename Add>
CLI::Option* add_repeatable(CLI::App& app, const std::string& name, Add add,
                            const std::string& help) {
  return app
      .add_option_function<std::vector<Value>>(
          name,
          [add](const std::vector<Value>& values) {
            for (const Value& value : values) add(value);
          },
          help)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

template <typename Add>
void add_patterns(CLI::App& app, const std::string& name, Add add, const std::string& help) {
  add_repeatable<std::string>(app, name, add, help)->type_name("REGEX");
}

void add_lifetimes(CLI::App& app, QueryOptions& options) {
  pb::Filter& filter = options.filter;
  app.add_option(
         "--min-lifetime", options.min_lifetime,
         "Count only blocks that lived, or have lived so far, at least DURATION (known to a "
         "factor of 1.4)")
      ->type_name("DURATION");
  app.add_option("--max-lifetime", options.max_lifetime,
                 "Count only blocks that lived at most DURATION (known to a factor of 1.4)")
      ->type_name("DURATION");
  add_choice(
      app, "--fate", kFates, [&](pb::Fate fate) { filter.set_fate(fate); },
      "Count only blocks that are dead or alive at the end of the range");
  app.add_flag_callback(
      "--new", [&] { filter.set_allocated_in_range(true); },
      "Count only blocks allocated in the range; live then means alive at its end");
}

}  // namespace

void add_target(CLI::App& app, QueryOptions& options) {
  app.add_option(
         "target,-p,--pid", options.target,
         "PID or trace file, TARGET[@FROM..TO]; may be omitted when there is only one target")
      ->type_name("TARGET");
}

void add_running_target(CLI::App& app, QueryOptions& options) {
  app.add_option("target,-p,--pid", options.target,
                 "PID of the target; may be omitted when there is only one")
      ->type_name("PID");
}

void add_range(CLI::App& app, QueryOptions& options) {
  app.add_option("--range", options.range,
                 "Use only the range FROM..TO: -10m..-5m, 14:05..14:10 (UTC)")
      ->type_name("RANGE");
  app.add_option("--last", options.last, "Use only the last DURATION, such as 5m")
      ->type_name("DURATION")
      ->excludes("--range");
  app.add_flag("--peak", options.until_peak, "End the range at the moment with the most live bytes")
      ->excludes("--range")
      ->excludes("--last");
}

void add_frames(CLI::App& app, QueryOptions& options) {
  add_choice(
      app, "--frames", kFrames,
      [&filter = options.filter](pb::Frames frames) { filter.set_frames(frames); },
      "Name sites by the innermost frame (all) or the innermost one outside the standard library "
      "and the runtime (application; default in tables)");
}

void add_filter(CLI::App& app, QueryOptions& options, bool with_lifetimes) {
  pb::Filter& filter = options.filter;
  app.add_option_function<std::string>(
         "-m,--match", [&](const std::string& text) { filter.set_pattern(text); },
         "Count only sites whose function or file matches")
      ->type_name("REGEX");
  add_patterns(
      app, "--require", [&](const std::string& p) { filter.add_require(p); },
      "Count only callstacks that contain a matching frame; repeatable");
  add_patterns(
      app, "--forbid", [&](const std::string& p) { filter.add_forbid(p); },
      "Count only callstacks without a matching frame; repeatable");
  add_patterns(
      app, "--hide", [&](const std::string& p) { filter.add_hide(p); },
      "Omit matching frames; repeatable");
  add_frames(app, options);
  app.add_option("--min-size", options.min_size, "Count only blocks of at least SIZE")
      ->type_name("SIZE");
  app.add_option("--max-size", options.max_size, "Count only blocks of at most SIZE")
      ->type_name("SIZE");
  add_choice(
      app, "--heap", kHeaps, [&](pb::BlockHeap heap) { filter.set_heap(heap); },
      "Count only blocks allocated in the minor heap, the major heap, or outside both (external: "
      "contents of Bigarrays and other custom blocks; c: native blocks from malloc, where "
      "sampled)");
  add_choice(
      app, "--source", kSources, [&](pb::BlockSource s) { filter.set_source(s); },
      "Count only blocks with this origin: normal, marshal, custom or malloc");
  add_repeatable<std::uint32_t>(
      app, "--thread", [&](std::uint32_t id) { filter.add_threads(id); },
      "Count only this thread; repeatable");
  add_repeatable<std::uint32_t>(
      app, "--domain", [&](std::uint32_t id) { filter.add_domains(id); },
      "Count only this domain; repeatable");
  if (with_lifetimes) add_lifetimes(app, options);
}

void add_grouping(CLI::App& app, QueryOptions& options) {
  add_choice(
      app, "-g,--group-by", group_words(), [&](pb::GroupBy group) { options.group_by = group; },
      "Group by KEY (default: site)");
}

void add_order(CLI::App& app, QueryOptions& options) {
  add_choice(
      app, "-s,--sort", order_words(), [&](pb::Measure order) { options.order = order; },
      "Sort by MEASURE, largest first (default: live)");
  app.add_option("-n,--limit", options.limit, "Show at most N rows (0: all)")
      ->check(in_range(0, 1'000'000'000))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void add_pid(CLI::App& app, int& pid, const char* names) {
  app.add_option(names, pid, "Process ID; may be omitted when there is only one target");
}

void add_sampling_rate(CLI::App& app, const char* names, std::string& rate, std::string& interval) {
  app.add_option(names, rate, "Samples per allocated word, such as 1e-5")->type_name("RATE");
  app.add_option("--sampling-interval", interval,
                 "Take one sample per SIZE allocated bytes instead, such as 512KiB")
      ->type_name("SIZE");
}

void add_trace_version(CLI::App& app, int& version) {
  app.add_option("--format-version", version,
                 "Version of the trace format: 2 (default with one domain) or 3 (with several)")
      ->check(CLI::IsMember({2, 3}));
}

CLI::Option* add_out(CLI::App& app, std::string& file) {
  return app.add_option("--out", file, "Write to this file")->type_name("FILE");
}

void add_format(CLI::App& app, std::string& format, const std::vector<std::string>& formats) {
  std::string help = "Print as table (default)";
  for (std::size_t i = 1; i < formats.size(); ++i) help += ", " + formats[i];
  app.add_option("-o,--output", format, help)
      ->check(CLI::IsMember(formats))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("FORMAT");
}

absl::StatusOr<QueryOptions> parse_filter_words(std::vector<std::string> words) {
  CLI::App app;
  app.set_help_flag();
  QueryOptions options;
  add_filter(app, options, false);
  app.add_option_function<std::string>(
      "pattern", [&](const std::string& text) { options.filter.set_pattern(text); }, "");
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return options;
}

absl::StatusOr<pb::Filter> filter_of(const QueryOptions& options, pb::Frames frames) {
  pb::Filter filter = options.filter;
  if (filter.frames() == pb::FRAMES_UNSPECIFIED) filter.set_frames(frames);
  if (!options.min_size.empty()) {
    ASSIGN_OR_RETURN(const std::uint64_t bytes, parse_size(options.min_size));
    filter.set_min_size_bytes(bytes);
  }
  if (!options.max_size.empty()) {
    ASSIGN_OR_RETURN(const std::uint64_t bytes, parse_size(options.max_size));
    filter.set_max_size_bytes(bytes);
  }
  if (!options.min_lifetime.empty()) {
    ASSIGN_OR_RETURN(const double seconds, parse_duration(options.min_lifetime));
    filter.set_min_lifetime_seconds(seconds);
  }
  if (!options.max_lifetime.empty()) {
    ASSIGN_OR_RETURN(const double seconds, parse_duration(options.max_lifetime));
    filter.set_max_lifetime_seconds(seconds);
  }
  return filter;
}

absl::StatusOr<SelectionSpec> selection_of(const QueryOptions& options, std::int64_t now_ns) {
  ASSIGN_OR_RETURN(SelectionSpec selection, parse_selection(options.target, now_ns));
  if (!options.range.empty()) {
    ASSIGN_OR_RETURN(selection.range, parse_range(options.range, now_ns));
  }
  if (!options.last.empty()) {
    ASSIGN_OR_RETURN(const double seconds, parse_duration(options.last));
    if (!(seconds > 0)) return absl::InvalidArgumentError("--last 0 is empty; give a time above 0");
    selection.range.set_last_seconds(seconds);
  }
  if (options.until_peak) selection.range.set_until_peak(true);
  return selection;
}

}  // namespace memprofd::ctl
