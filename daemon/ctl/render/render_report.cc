// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/ctl/render/render_table.h"
#include "daemon/ctl/render/text.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/model/measure.h"
#include "daemon/util/clock.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

constexpr char kMeaning[] =
    "Bytes are estimates from samples since the attach, headers included;\n"
    "± is one standard error: the true value is within two of them 19 times out of 20.\n"
    "Live is allocated and not collected yet; died young is collected without leaving the "
    "minor\nheap. Half of the bytes live at most p50, living ones included; (1 s to 2 s): p50 "
    "lies\nbetween them 19 times out of 20; > 1 s: more than half have lived that long.\n";

constexpr char kObservedMeaning[] =
    "Bytes are estimates of what was allocated in the minor heap since the attach, headers\n"
    "included: each hit stands for everything that its domain allocated since the previous hit.\n"
    "± is one standard error. Blocks of more than 256 words are not seen (docs/observe.md).\n";

// "  name        value\n"
void fact(std::string& out, const char* name, const std::string& value) {
  absl::StrAppendFormat(&out, "  %-11s %s\n", name, value);
}

bool is_trace(const pb::Target& target) { return target.mode() == mode_name(TargetMode::kTrace); }

std::string state_text(const pb::ListSitesResponse& response) {
  const pb::Target& target = response.target();
  const double seconds =
      static_cast<double>(response.time_unix_ns() - target.attached_unix_ns()) / kNsPerSecond;
  if (is_trace(target)) {
    return absl::StrCat("a trace of ", format_duration(seconds), " from ",
                        utc_text(target.attached_unix_ns()), " on");
  }
  std::string out(state_word(target.state()));
  if (target.attached_unix_ns() > 0) {
    absl::StrAppend(&out, ", attached ", utc_text(target.attached_unix_ns()), ", ",
                    format_duration(seconds), " ago");
  }
  if (!target.message().empty()) absl::StrAppend(&out, ": ", printable(target.message()));
  return out;
}

std::string with_share(const pb::Estimate& part, const pb::Estimate& whole) {
  return absl::StrCat(estimate_text(part), " (", share_text(part, whole), " of allocated)");
}

// Names the part that is outside of the heap, so that readers do not compare the sum with the
// heap's size.
std::string external_text(const pb::Target& target) {
  if (target.live_external().samples() == 0) return "";
  return absl::StrCat(", of it ", estimate_text(target.live_external()),
                      " outside of the heap, held by custom blocks");
}

std::string pauses_text(const pb::GcPauses& pauses) {
  if (pauses.count() == 0) return "no pauses measured";
  return absl::StrCat(format_count(pauses.count()), " pauses measured, half within ",
                      format_duration(pauses.p50_seconds()), ", 99 % within ",
                      format_duration(pauses.p99_seconds()));
}

void append_heap(const pb::GcStats& gc, std::string& out) {
  fact(out, "major heap",
       absl::StrCat(format_bytes(static_cast<double>(gc.heap_bytes())), ", at most ",
                    format_bytes(static_cast<double>(gc.top_heap_bytes())), "; ",
                    format_count(gc.compactions()), " compactions"));
}

void append_gc(const pb::Target& target, std::string& out) {
  const pb::GcStats& gc = target.gc();
  if (gc.heap_bytes() > 0) append_heap(gc, out);
  const bool measured = gc.has_minor_pauses() || !is_observed(target);
  const auto pauses = [&](const pb::GcPauses& of) {
    return measured ? absl::StrCat("; ", pauses_text(of)) : std::string();
  };
  fact(out, "minor gc",
       absl::StrCat(format_count(gc.minor_collections()), " collections",
                    pauses(gc.minor_pauses())));
  fact(out, "major gc",
       absl::StrCat(format_count(gc.major_collections()), " collections",
                    pauses(gc.major_slice_pauses())));
}

void append_followed(const pb::Target& target, std::string& out) {
  fact(out, "rate", rate_text(target));
  fact(out, "samples",
       absl::StrCat(format_count(target.alloc_events()), " blocks allocated, ",
                    format_count(target.promote_events()), " promoted, ",
                    format_count(target.dealloc_events()), " deallocated; ",
                    format_count(target.live_samples()), " followed now"));
  fact(out, "allocated", estimate_text(target.allocated()));
  fact(out, "live", with_share(target.live(), target.allocated()) + external_text(target));
  if (target.has_live_before()) {
    fact(out, "", live_before_text(target) + "; older blocks are no longer followed");
  }
  fact(out, "promoted", with_share(target.promoted(), target.allocated()));
  fact(out, "died young", with_share(target.died_young(), target.allocated()));
  fact(out, "died old", with_share(target.died_old(), target.allocated()));
}

void append_observed(const pb::Target& target, std::string& out) {
  fact(out, "hits",
       absl::StrCat(format_count(target.alloc_events()),
                    " allocations that found no room in the minor heap"));
  fact(out, "allocated", estimate_text(target.allocated()));
  fact(out, "live", "unknown in observe mode, like promotions, deaths and lifetimes");
}

void append_header(const pb::ListSitesResponse& response, std::string& out) {
  const pb::Target& target = response.target();
  absl::StrAppend(&out, "memprofd report: ", printable(target.comm()), " (pid ", target.pid(),
                  ")\n\n");
  // A trace has neither of these.
  fact(out, "program",
       is_trace(target)
           ? printable(target.exe())
           : absl::StrCat(printable(target.exe()), ", OCaml ", printable(target.runtime_version()),
                          ", ", printable(target.mode()), " mode"));
  fact(out, "state", state_text(response));
  if (is_observed(target)) {
    append_observed(target, out);
  } else {
    append_followed(target, out);
  }
  if (target.has_gc()) append_gc(target, out);
  if (!is_trace(target)) {
    fact(out, "cost",
         absl::StrCat("stopped for ", format_duration(target.paused_seconds()),
                      " in all, attached in ", format_duration(target.attach_seconds())));
  }
  fact(out, "losses", losses_text(target));
  if (target.given_up_events() > 0) fact(out, "given up", given_up_text(target));
}

// Notes that the sites cover only a part of the time.
std::string range_note(const pb::ListSitesResponse& response) {
  const pb::TimeRange& range = response.range();
  constexpr std::int64_t kSlack = 1'000'000'000;  // the history has its own clock
  const bool whole = range.begin_unix_ns() <= response.target().attached_unix_ns() + kSlack &&
                     range.end_unix_ns() >= response.time_unix_ns() - kSlack;
  return whole ? "" : absl::StrCat(", of ", range_text(range), " only");
}

// "p50 41.6 s (32.8 s to 46.3 s)", "p90 > 1.0 min (from 46.3 s)".
std::string quantile_text(const char* name, bool reached, double seconds, double watched_seconds,
                          const pb::LifetimeLimits& limits) {
  return absl::StrCat(name, reached ? " " : " > ",
                      format_duration(reached ? seconds : watched_seconds),
                      limits.has_upper_seconds()
                          ? absl::StrCat(" (", format_duration(limits.lower_seconds()), " to ",
                                         format_duration(limits.upper_seconds()), ")")
                      : limits.lower_seconds() > 0
                          ? absl::StrCat(" (from ", format_duration(limits.lower_seconds()), ")")
                          : "");
}

std::string lifetime_text(const pb::Lifetime& of) {
  if (of.watched_seconds() == 0) return "lifetime unknown: nothing was followed";
  const double watched = of.watched_seconds();
  if (of.samples() == 0) {
    return absl::StrCat("lifetime > ", format_duration(watched), ": no death was observed, ",
                        format_share(of.alive_ratio(), 1),
                        of.alive_ratio() < 1 ? " alive, the rest no longer followed" : " alive");
  }
  return absl::StrCat(
      "lifetime ",
      quantile_text("p50", of.has_p50_seconds(), of.p50_seconds(), watched, of.p50_limits()), ", ",
      quantile_text("p90", of.has_p90_seconds(), of.p90_seconds(), watched, of.p90_limits()), ", ",
      quantile_text("p99", of.has_p99_seconds(), of.p99_seconds(), watched, of.p99_limits()), "; ",
      format_share(of.alive_ratio(), 1), " alive");
}

void append_followed(const pb::Site& site, std::string& out) {
  absl::StrAppend(&out, "     allocated ", estimate_text(site.allocated()), " in ",
                  samples_text(site.samples()), ", promoted ",
                  share_text(site.promoted(), site.allocated()), ", died young ",
                  share_text(site.died_young(), site.allocated()), "\n     ",
                  lifetime_text(site.lifetime()), "\n");
  if (!site.has_resident()) return;
  absl::StrAppend(&out, "     resident ", estimate_text(site.resident()), " of live\n");
}

void append_site(int number, const pb::Site& site, pb::GroupBy group_by, std::string& out) {
  if (is_known(site, pb::MEASURE_LIVE)) {
    absl::StrAppendFormat(&out, "%3d. %s live  %s\n", number, estimate_text(site.live()),
                          site_text(site, group_by));
    append_followed(site, out);
  } else {
    absl::StrAppendFormat(&out, "%3d. %s allocated  %s\n     in %s hits\n", number,
                          estimate_text(site.allocated()), site_text(site, group_by),
                          format_count(site.samples()));
  }
  append_callstack(site, "       ", kFramesShown, out);
}

}  // namespace

std::string report_text(const pb::ListSitesResponse& response, pb::Measure order,
                        pb::GroupBy group_by) {
  std::string out;
  append_header(response, out);
  if (response.sites().empty()) {
    return absl::StrCat(out, "\nNo sites yet.\n", no_samples_hint(response.target()));
  }
  const bool known = is_known(response.sites(0), order);
  const std::string_view word = measure_row(known ? order : pb::MEASURE_ALLOCATED).title;
  absl::StrAppend(&out, "\nSites, sorted by ", absl::string_view(word.data(), word.size()),
                  range_note(response), ":\n");
  int number = 0;
  for (const pb::Site& site : response.sites()) {
    out += "\n";
    append_site(++number, site, group_by, out);
  }
  const bool follows = is_known(response.sites(0), pb::MEASURE_LIVE);
  return absl::StrCat(out, "\n", follows ? kMeaning : kObservedMeaning);
}

}  // namespace memprofd::ctl
