// SPDX-License-Identifier: Apache-2.0
// Memory of a day's history of ten thousand sites, and CPU time of the questions about it, in the
// model of simulated_day.h. There are two cases: in the first, sites are as busy as Zipf's law
// says, and the goals apply; in the second all sites are equally busy, which is the worst case.
//
// history_bench [zipf|equal|once]...: runs these cases, by default both, and asks each question
// kRuns times, or once. Prints JSON. Exit code 1 means that the first case misses a goal: total
// memory within kMaxBytes, each answer within kMaxMs of CPU time (median). An answer counts from
// the daemon's counters to the bytes that are sent.
//
// On a busy machine CPU times are longer. Each answer therefore comes with the time of a fixed
// piece of work (reference_ms). Builds with equal answers have equal answer_crc32.
#include <malloc.h>
#include <time.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/export/api/query_service.h"
#include "daemon/export/metrics/site_metrics.h"
#include "prometheus/text_serializer.h"
#include "tests/bench/simulated_day.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

constexpr std::size_t kMaxBytes = 128u << 20;
constexpr double kMaxMs = 100;
constexpr std::size_t kRuns = 9;

double cpu_ms() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

std::size_t heap_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Time for sorting half a million numbers.
double reference_ms() {
  std::vector<std::uint32_t> numbers(500'000);
  std::uint32_t x = 1;
  for (std::uint32_t& number : numbers) number = x = x * 1664525 + 1013904223;
  const double begin = cpu_ms();
  std::sort(numbers.begin(), numbers.end());
  return cpu_ms() - begin;
}

class DaySource final : public SnapshotSource {
 public:
  explicit DaySource(const SimulatedDay& day) : day_(day) {}
  std::vector<ProfileSnapshotPtr> snapshots() override { return {day_.snapshot()}; }
  absl::StatusOr<ProfileSnapshotPtr> snapshot(int) override { return day_.snapshot(); }

 private:
  const SimulatedDay& day_;
};

struct Span {
  double begin_hours = 0;
  double end_hours = 0;  // 0: now

  pb::TimeRange range() const {
    const auto at = [](double hours) {
      return static_cast<std::int64_t>(SimulatedDay::kBeginNs) +
             static_cast<std::int64_t>(hours * static_cast<double>(SimulatedDay::kHourNs));
    };
    pb::TimeRange result;
    if (begin_hours > 0) result.set_begin_unix_ns(at(begin_hours));
    if (end_hours > 0) result.set_end_unix_ns(at(end_hours));
    return result;
  }
};
constexpr Span kDay{}, kLastHour{23, 0}, kSixHours{9.21, 15.23}, kAnHour{6.5, 7.5};

struct Question {
  const char* name;
  std::function<std::string(QueryService&)> ask;  // returns the bytes of the answer
};

template <typename Answer>
std::string sent(const absl::StatusOr<Answer>& answer) {
  if (!answer.ok()) return "";
  return answer->SerializeAsString();
}

Question sites(const char* name, Span span, const std::function<void(pb::ListSitesRequest&)>& set) {
  pb::ListSitesRequest request;
  *request.mutable_range() = span.range();
  request.set_limit(100);
  set(request);
  return {name, [request](QueryService& service) {
            auto answer = service.list_sites(request);
            if (answer.ok()) answer->clear_next_page_token();  // the token is random
            return sent(answer);
          }};
}

Question history(const char* name, pb::GroupBy group_by, pb::Measure measure) {
  pb::GetHistoryRequest request;
  request.set_points(300);
  request.set_group_by(group_by);
  request.set_measure(measure);
  return {name, [request](QueryService& service) { return sent(service.get_history(request)); }};
}

Question leaks(const char* name, Span span) {
  pb::ListLeaksRequest request;
  *request.mutable_selection()->mutable_range() = span.range();
  request.set_limit(100);
  return {name, [request](QueryService& service) { return sent(service.list_leaks(request)); }};
}

Question hours_diff() {
  pb::DiffSitesRequest request;
  *request.mutable_base()->mutable_range() = kAnHour.range();
  *request.mutable_other()->mutable_range() = kLastHour.range();
  request.set_limit(100);
  return {"diff of two hours",
          [request](QueryService& service) { return sent(service.diff_sites(request)); }};
}

Question pprof(const char* name, Span span) {
  pb::GetProfileRequest request;
  *request.mutable_range() = span.range();
  return {name, [request](QueryService& service) { return sent(service.get_profile(request)); }};
}

// The site series for Prometheus, with their default number.
Question scrape(const SimulatedDay& day) {
  return {"site series for Prometheus", [&day](QueryService&) {
            TopSites top(50);
            MetricFamilies out;
            add_site_metrics(top.update(SiteTotals(*day.snapshot()).series()), true, out);
            std::ostringstream text;
            prometheus::TextSerializer().Serialize(text, out.take());
            return text.str();
          }};
}

std::vector<Question> questions(const SimulatedDay& day) {
  const auto plain = [](pb::ListSitesRequest&) {};
  return {
      sites("sites, 24 h", kDay, plain),
      sites("sites, last hour", kLastHour, plain),
      sites("sites, 6 h in the past", kSixHours, plain),
      sites("sites, 6 h, survivors", kSixHours,
            [](pb::ListSitesRequest& request) {
              request.mutable_filter()->set_allocated_in_range(true);
              request.mutable_filter()->set_min_lifetime_seconds(60);
            }),
      sites("sites, 24 h, some frame required, some hidden", kDay,
            [](pb::ListSitesRequest& request) {
              request.mutable_filter()->add_require("Module7\\.");
              request.mutable_filter()->add_hide("function_0_.*3$");
            }),
      sites("all sites, last hour", kLastHour,
            [](pb::ListSitesRequest& request) { request.set_limit(0); }),
      history("history, 24 h, live by site", pb::GROUP_BY_SITE, pb::MEASURE_LIVE),
      history("history, 24 h, allocated by module", pb::GROUP_BY_MODULE, pb::MEASURE_ALLOCATED),
      leaks("leaks, 24 h", kDay),
      leaks("leaks, 6 h in the past", kSixHours),
      hours_diff(),
      pprof("pprof, 24 h", kDay),
      pprof("pprof, 6 h in the past", kSixHours),
      scrape(day),
  };
}

struct Timing {
  double median_ms, min_ms, max_ms;
  double reference_ms;  // median
  std::size_t answer_bytes;
  std::uint32_t answer_crc32;
};

std::uint32_t crc32_of(const std::string& bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

Timing measure(const Question& question, QueryService& service, std::size_t runs) {
  std::vector<double> times, references;
  std::string answer;
  for (std::size_t run = 0; run < runs; ++run) {
    const double begin = cpu_ms();
    answer = question.ask(service);
    times.push_back(cpu_ms() - begin);
    references.push_back(reference_ms());
  }
  std::sort(times.begin(), times.end());
  std::sort(references.begin(), references.end());
  return {times[runs / 2],      times.front(), times.back(),
          references[runs / 2], answer.size(), crc32_of(answer)};
}

// ---------------------------------------------------------------- output

// Prints the members of one JSON object in sequence.
class Json {
 public:
  void open(const char* name = nullptr, char bracket = '{') {
    separate(name);
    std::putchar(bracket);
    first_ = true;
  }
  void close(char bracket = '}') {
    std::putchar(bracket);
    first_ = false;
  }
  void number(const char* name, double value) {
    separate(name);
    std::printf("%.10g", value);
  }
  void text(const std::string& value) {
    separate(nullptr);
    std::printf("\"%s\"", value.c_str());
  }

 private:
  void separate(const char* name) {
    if (!first_) std::putchar(',');
    first_ = false;
    if (name != nullptr) std::printf("\"%s\":", name);
  }
  bool first_ = true;
};

void print_tiers(const History& history, Json& json) {
  const HistoryView view = history.view();
  json.open("tiers", '[');
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    std::size_t bytes = 0, cells = 0;
    for (const HistoryWindowPtr& window : view.tiers[tier]) {
      bytes += window->memory_bytes();
      window->for_each_cell([&](const WindowCell&, double) { ++cells; });
    }
    json.open();
    json.number("width_seconds", static_cast<double>(kHistoryTierLimits[tier].width_ns) / 1e9);
    json.number("windows", static_cast<double>(view.tiers[tier].size()));
    json.number("cells", static_cast<double>(cells));
    json.number("bytes", static_cast<double>(bytes));
    json.close();
  }
  json.close(']');
}

// Hours of history that remain within the default memory limit.
double hours_within_limit(SimulatedDay& day) {
  while (day.history().memory_bytes() > kMaxBytes && day.history().evict_oldest()) {
  }
  const std::uint64_t oldest = day.history().view().oldest_ns();
  return static_cast<double>(day.now_ns() - oldest) / static_cast<double>(SimulatedDay::kHourNs);
}

// Returns the names of the missed goals.
std::vector<std::string> run(const char* name, SimulatedDay::Shares shares, std::size_t runs,
                             Json& json) {
  const double begin = cpu_ms();
  SimulatedDay day(shares);
  std::vector<std::string> missed;
  json.open(name);
  json.number("simulation_seconds", (cpu_ms() - begin) / 1e3);
  json.number("samples", static_cast<double>(day.samples()));
  const std::size_t bytes = day.history().memory_bytes();
  if (bytes > kMaxBytes) missed.push_back("memory");
  json.number("history_bytes", static_cast<double>(bytes));
  print_tiers(day.history(), json);
  DaySource source(day);
  QueryService service(source);
  json.open("queries");
  for (const Question& question : questions(day)) {
    const Timing timing = measure(question, service, runs);
    if (timing.answer_bytes == 0 || timing.median_ms > kMaxMs) missed.push_back(question.name);
    json.open(question.name);
    json.number("median_ms", timing.median_ms);
    json.number("min_ms", timing.min_ms);
    json.number("max_ms", timing.max_ms);
    json.number("reference_ms", timing.reference_ms);
    json.number("answer_bytes", static_cast<double>(timing.answer_bytes));
    json.number("answer_crc32", timing.answer_crc32);
    json.close();
  }
  json.close();
  json.number("hours_within_limit", hours_within_limit(day));
  const std::size_t kept = day.history().memory_bytes(), heap = heap_bytes();
  day.drop_history();
  json.number("malloc_bytes_per_history_byte",
              static_cast<double>(heap - heap_bytes()) / static_cast<double>(kept));
  json.close();
  return missed;
}

int bench(std::vector<std::string> cases) {
  const std::size_t runs = std::erase(cases, "once") > 0 ? 1 : kRuns;
  if (cases.empty()) cases = {"zipf", "equal"};
  Json json;
  json.open();
  json.number("max_bytes", static_cast<double>(kMaxBytes));
  json.number("max_ms", kMaxMs);
  std::vector<std::string> missed;
  for (const std::string& name : cases) {
    const bool zipf = name == "zipf";
    if (!zipf && name != "equal") return 2;
    auto of_case =
        run(name.c_str(), zipf ? SimulatedDay::Shares::kZipf : SimulatedDay::Shares::kEqual, runs,
            json);
    if (zipf) missed = std::move(of_case);
  }
  json.open("missed", '[');
  for (const std::string& name : missed) json.text(name);
  json.close(']');
  json.close();
  std::putchar('\n');
  return missed.empty() ? 0 : 1;
}

}  // namespace
}  // namespace memprofd

int main(int argc, char** argv) {
  return memprofd::bench(std::vector<std::string>(argv + 1, argv + argc));
}
