// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_table.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/model/discovery.h"
#include "daemon/util/drops.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"
#include "daemon/util/version.h"

namespace memprofd::ctl {
namespace {

constexpr char kBold[] = "\033[1m", kRed[] = "\033[31m", kYellow[] = "\033[33m",
               kGreen[] = "\033[32m", kReset[] = "\033[0m";

std::string painted(const Style& style, const char* paint, std::string_view text) {
  const absl::string_view view(text.data(), text.size());
  return style.color ? absl::StrCat(paint, view, kReset) : std::string(text);
}

const char* level_color(pb::FindingLevel level) {
  if (level == pb::FINDING_LEVEL_OK) return kGreen;
  return level == pb::FINDING_LEVEL_WARNING ? kYellow : kRed;
}

// "4242", or with its pid inside a container and the parent it was forked from:
// "4242 (7) < 4200".
std::string pid_text(const pb::Target& target) {
  std::string out = absl::StrCat(target.pid());
  if (target.container_pid() != 0) absl::StrAppend(&out, " (", target.container_pid(), ")");
  if (target.forked_from() != 0) absl::StrAppend(&out, " < ", target.forked_from());
  return out;
}

// "0.7 % of 1.0 %"; without a budget "0.7 %".
std::string overhead_text(const pb::Overhead& overhead) {
  if (overhead.budget_ratio() == 0) return format_share(overhead.ratio(), 1);
  return absl::StrCat(format_share(overhead.ratio(), 1), " of ",
                      format_share(overhead.budget_ratio(), 1));
}

std::string with_bold_head(const TextTable& table, const Style& style) {
  std::string out;
  const std::vector<std::string> lines = table.lines(style.width);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppend(&out, i == 0 ? painted(style, kBold, lines[i]) : lines[i], "\n");
  }
  return out;
}

}  // namespace

std::string info_text(const pb::GetServerInfoResponse& info) {
  const pb::ServerLimits& limits = info.limits();
  const auto bytes = [](std::uint64_t n) { return format_bytes(static_cast<double>(n)); };
  const auto row = [](absl::string_view name, const auto&... words) {
    return absl::StrCat("  ", name, std::string(std::max<std::size_t>(12 - name.size(), 1), ' '),
                        words..., "\n");
  };
  const std::string rules = printable(absl::StrJoin(info.rules(), ", "));
  return absl::StrCat(
      "memprofd ", printable(version_text({info.version(), info.revision()})), ", API ",
      printable(info.api_version()), "\n",
      row("runs", "for ", format_duration(info.uptime_seconds()), ", since ",
          utc_text(info.started_unix_ns())),
      row("kernel", printable(info.kernel_release()), ", ",
          info.kernel_capture() ? "records callstacks"
                                : "cannot record callstacks: the programs' runtimes do"),
      row("attach", format_rate(info.sampling_rate()), ", ",
          info.max_overhead() > 0 ? absl::StrCat("at most ", format_share(info.max_overhead(), 1),
                                                 " of a program's CPU")
                                  : "without a limit of its cost",
          ", mode ",
          info.mode() == pb::ATTACH_MODE_AGENT     ? "agent"
          : info.mode() == pb::ATTACH_MODE_OBSERVE ? "observe"
                                                   : "auto"),
      row("rules", rules.empty() ? "none: programs are attached to on request" : rules),
      row("state", info.state_directory().empty() ? "not stored: no --state.directory"
                                                  : printable(info.state_directory())),
      row("HTTP", info.control() ? "controls programs" : "answers questions only"),
      row("traces", info.traces() ? "written by memprofd on request" : "recorded by clients only"),
      row("pages", limits.standard_page_rows(), " rows, on demand ", limits.max_page_rows(), ", ",
          bytes(limits.max_page_bytes()), "; answers are kept for ",
          format_duration(limits.kept_answer_seconds()), ", ", bytes(limits.kept_answers_bytes()),
          " of them"),
      row("gRPC", limits.max_streams(), " streams, ", limits.max_connection_calls(),
          " calls of one connection"));
}

std::string targets_table(const pb::ListTargetsResponse& response, const Style& style,
                          const Endpoint& endpoint) {
  if (response.targets().empty()) {
    return "no targets; attach with: " + endpoint.command("attach PID") + "\n";
  }
  TextTable table({{"PID", Align::kRight},
                   {"PROGRAM"},
                   {"OCAML"},
                   {"STATE"},
                   {"CAPTURE"},
                   {"RATE", Align::kRight},
                   {"OVERHEAD", Align::kRight},
                   {"ALLOCATED", Align::kRight},
                   {"LIVE", Align::kRight},
                   {"DROPPED", Align::kRight},
                   {"MESSAGE"}});
  for (const pb::Target& target : response.targets()) {
    table.add_row({pid_text(target), printable(target.comm()), printable(target.runtime_version()),
                   std::string(state_word(target.state())), printable(target.capture()),
                   known_text(!is_observed(target), short_rate_text(target)),
                   known_text(target.has_overhead(), overhead_text(target.overhead())),
                   estimate_text(target.allocated()),
                   known_text(!is_observed(target), live_text(target)),
                   format_count(target.dropped_events()), printable(target.message())});
  }
  return with_bold_head(table, style);
}

std::string running_targets_text(pb::ListTargetsResponse response, const Style& style,
                                 const Endpoint& endpoint) {
  // A failed one is listed, because its user looks for it here.
  const auto has_ended = [](const pb::Target& target) {
    return target.state() == pb::TARGET_STATE_EXITED || target.state() == pb::TARGET_STATE_DETACHED;
  };
  auto& targets = *response.mutable_targets();
  const auto ended = std::ranges::count_if(targets, has_ended);
  if (ended == 0 || std::ranges::none_of(targets, is_active, &pb::Target::state)) {
    return targets_table(response, style, endpoint);
  }
  targets.erase(std::remove_if(targets.begin(), targets.end(), has_ended), targets.end());
  return absl::StrCat(targets_table(response, style, endpoint), ended,
                      " ended: ", endpoint.command("targets --ended"), "\n");
}

namespace {

// "no rule".
std::string outcome_text(pb::DiscoveryOutcome outcome) {
  const std::size_t index = static_cast<std::size_t>(outcome) - 1;
  if (index >= kDiscoveryNames.size()) return "?";
  std::string name(kDiscoveryNames[index]);
  std::ranges::replace(name, '_', ' ');
  return name;
}

}  // namespace

std::string discovered_table(const pb::ListTargetsResponse& response, const Style& style) {
  std::string out;
  if (response.discovered().empty()) {
    out = "no OCaml program runs here\n";
  } else {
    TextTable table(
        {{"PID", Align::kRight}, {"PROGRAM"}, {"OUTCOME"}, {"RULE"}, {"EXECUTABLE"}, {"REASON"}});
    for (const pb::DiscoveredProgram& program : response.discovered()) {
      table.add_row({absl::StrCat(program.pid()), printable(program.comm()),
                     outcome_text(program.outcome()), printable(program.rule()),
                     printable(program.exe()), printable(program.reason())});
    }
    out = with_bold_head(table, style);
  }
  if (response.discovered_left_out() != 0) {
    absl::StrAppend(&out, response.discovered_left_out(), " more programs\n");
  }
  if (response.unread_files() != 0) {
    absl::StrAppend(&out, response.unread_files(), " executables are not examined yet\n");
  }
  if (response.ended_early() != 0) {
    absl::StrAppend(&out, response.ended_early(),
                    " programs that a rule names ended before they were profiled\n");
  }
  return out;
}

std::string ended_table(const pb::ListTargetsResponse& response, std::int64_t now_unix_ns,
                        const Style& style) {
  if (response.targets().empty()) return "no program has ended\n";
  TextTable table({{"PID", Align::kRight},
                   {"PROGRAM"},
                   {"ENDED", Align::kRight},
                   {"ALLOCATED", Align::kRight},
                   {"LIVE", Align::kRight},
                   {"HOW"}});
  for (const pb::Target& target : response.targets()) {
    const double seconds = static_cast<double>(now_unix_ns - target.ended_unix_ns()) / 1e9;
    table.add_row({pid_text(target), printable(target.comm()),
                   absl::StrCat(format_duration(std::max(0.0, seconds)), " ago"),
                   estimate_text(target.allocated()),
                   known_text(!is_observed(target), estimate_text(target.live())),
                   printable(target.message())});
  }
  return with_bold_head(table, style);
}

std::string no_samples_hint(const pb::Target& target) {
  if (!is_active(target.state()) || target.alloc_events() != 0) return "";
  if (used_its_own_tracker(target)) {
    return "Nothing was sampled since the attach: the program samples by Gc.Memprof itself. "
           "memprofd misses what it allocates until it stops that.\n";
  }
  return "Nothing was sampled since the attach. If only the program's C code works, follow malloc: "
         "memprofctl attach --mode observe --c-heap.\n";
}

std::string target_line(const pb::Target& target) {
  const std::string_view state = state_word(target.state());
  std::string out = absl::StrCat("pid ", target.pid());
  if (!target.comm().empty()) absl::StrAppend(&out, " (", printable(target.comm()), ")");
  absl::StrAppend(&out, ": ", absl::string_view(state.data(), state.size()));
  if (target.state() == pb::TARGET_STATE_SAMPLING && !is_observed(target)) {
    absl::StrAppend(&out, " at ", rate_text(target));
    if (target.has_overhead()) {
      absl::StrAppend(&out, ", overhead ", overhead_text(target.overhead()));
    }
  }
  if (!target.message().empty()) absl::StrAppend(&out, ": ", printable(target.message()));
  return out + "\n";
}

std::string attach_text(const pb::AttachResponse& response, const Endpoint& endpoint) {
  std::string out = target_line(response.target());
  if (response.already_profiled()) return "profiled already, " + out;
  if (response.target().state() != pb::TARGET_STATE_WAITING) return out;
  out.pop_back();
  return absl::StrCat(out, "; not sampled yet: `", endpoint.command("targets"), "` shows when\n");
}

std::string not_sampled_text(const pb::Target& target, const Endpoint& endpoint) {
  const std::string attach = endpoint.command(absl::StrCat("attach ", target.pid()));
  switch (target.state()) {
    case pb::TARGET_STATE_WAITING:
      return absl::StrCat(target_line(target),
                          "It is not sampled yet. To see when it is: ", endpoint.command("targets"),
                          "\n");
    case pb::TARGET_STATE_FAILED:
      return absl::StrCat(target_line(target), "To attach again, without this cause: ", attach,
                          "\n");
    case pb::TARGET_STATE_DETACHED:
      return absl::StrCat(target_line(target), "To profile it again: ", attach, "\n");
    case pb::TARGET_STATE_EXITED:
      return absl::StrCat(target_line(target),
                          "It has ended. To see which targets run: ", endpoint.command("targets"),
                          "\n");
    default:
      return "";
  }
}

namespace {

std::vector<std::string> site_cells(const pb::Site& site, pb::GroupBy group_by, bool resident) {
  const bool by_site = group_by == pb::GROUP_BY_SITE;
  const bool known = is_known(site, pb::MEASURE_LIVE);
  std::vector<std::string> cells{known_text(known, estimate_text(site.live()))};
  if (resident) cells.push_back(known_text(site.has_resident(), estimate_text(site.resident())));
  for (std::string cell : {estimate_text(site.allocated()),
                           known_text(known, share_text(site.promoted(), site.allocated())),
                           known_text(known, share_text(site.died_young(), site.allocated())),
                           median_text(site.lifetime()), format_count(site.samples()),
                           by_site ? printable(site.function()) : site_text(site, group_by),
                           by_site ? location_text(site.file(), site.line()) : std::string()}) {
    cells.push_back(std::move(cell));
  }
  return cells;
}

}  // namespace

std::string sites_table(const pb::ListSitesResponse& response, pb::GroupBy group_by,
                        bool with_callstacks, const Style& style) {
  if (response.sites().empty()) {
    return absl::StrCat("no sites yet\n", no_samples_hint(response.target()));
  }
  const bool by_site = group_by == pb::GROUP_BY_SITE;
  const bool resident = std::ranges::any_of(response.sites(), &pb::Site::has_resident);
  std::vector<Column> columns{{"LIVE", Align::kRight}};
  if (resident) columns.push_back({"RESIDENT", Align::kRight});
  for (const char* name : {"ALLOCATED", "PROMOTED", "DIED YOUNG", "P50 (ALIVE)", "SAMPLES"}) {
    columns.push_back({name, Align::kRight});
  }
  columns.push_back({by_site ? "FUNCTION" : "WHAT"});
  columns.push_back({by_site ? "LOCATION" : ""});
  TextTable table(std::move(columns));
  for (const pb::Site& site : response.sites()) {
    table.add_row(site_cells(site, group_by, resident));
  }
  const std::vector<std::string> lines = table.lines(style.width);
  std::string out = painted(style, kBold, lines[0]) + "\n";
  for (int i = 0; i < response.sites_size(); ++i) {
    absl::StrAppend(&out, lines[i + 1], "\n");
    if (with_callstacks) append_callstack(response.sites(i), "    ", 0, out);
  }
  if (response.target().missing_bytes() > 0) {
    absl::StrAppend(&out, "\nEvents were lost: ", missing_text(response.target()), "\n");
  }
  if (used_its_own_tracker(response.target())) {
    absl::StrAppend(&out, "\nNote: ", kDomainInUseText, "\n");
  }
  return out;
}

std::string findings_text(const pb::DiagnoseResponse& response, const Style& style) {
  std::size_t level_width = 0, subject_width = 0;
  for (const pb::Finding& finding : response.findings()) {
    level_width = std::max(level_width, level_word(finding.level()).size());
    subject_width = std::max(subject_width, display_width(printable(finding.subject())));
  }
  std::string out;
  for (const pb::Finding& finding : response.findings()) {
    const std::string_view level = level_word(finding.level());
    const std::string subject = printable(finding.subject());
    absl::StrAppend(&out, painted(style, level_color(finding.level()), level),
                    std::string(level_width - level.size() + 2, ' '), subject,
                    std::string(subject_width - display_width(subject) + 2, ' '),
                    printable(finding.detail()), "\n");
    if (finding.remedy().empty()) continue;
    absl::StrAppend(&out, std::string(level_width + subject_width + 4, ' '), "-> ",
                    printable(finding.remedy()), "\n");
  }
  return out;
}

}  // namespace memprofd::ctl
