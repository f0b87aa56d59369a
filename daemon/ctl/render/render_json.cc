// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_json.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/ctl/render/text.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/model/group_key.h"
#include "daemon/model/measure.h"

namespace memprofd::ctl {
namespace {

using Json = nlohmann::ordered_json;

// indent -1: one line.
std::string dump(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

void put_estimate(Json& out, const std::string& name, const pb::Estimate& estimate) {
  out[name] = estimate.bytes();
  out[name + "_stderr"] = estimate.bytes_stderr();
  out[name + "_lower"] = estimate.bytes_lower();
  out[name + "_upper"] = estimate.bytes_upper();
}

Json pauses_json(const pb::GcPauses& pauses) {
  return {{"count", pauses.count()},
          {"sum", pauses.sum_seconds()},
          {"p50", pauses.p50_seconds()},
          {"p99", pauses.p99_seconds()}};
}

Json gc_json(const pb::GcStats& gc) {
  return {{"minor_words", gc.minor_words()},
          {"promoted_words", gc.promoted_words()},
          {"major_words", gc.major_words()},
          {"minor_collections", gc.minor_collections()},
          {"major_collections", gc.major_collections()},
          {"compactions", gc.compactions()},
          {"heap_bytes", gc.heap_bytes()},
          {"top_heap_bytes", gc.top_heap_bytes()},
          {"heap_chunks", gc.heap_chunks()},
          {"minor_pauses_seconds", pauses_json(gc.minor_pauses())},
          {"major_slice_pauses_seconds", pauses_json(gc.major_slice_pauses())}};
}

// Without what is not known in observe mode.
Json known_gc_json(const pb::GcStats& gc) {
  Json out = gc_json(gc);
  if (gc.heap_bytes() == 0) {
    for (const char* name : {"heap_bytes", "top_heap_bytes", "heap_chunks"}) out.erase(name);
  }
  if (!gc.has_minor_pauses()) {
    for (const char* name : {"minor_pauses_seconds", "major_slice_pauses_seconds"}) out.erase(name);
  }
  return out;
}

Json drops_json(const pb::Target& target) {
  Json drops = Json::array();
  for (const pb::Drop& drop : target.drops()) {
    drops.push_back({{"stage", drop.stage()},
                     {"reason", drop.reason()},
                     {"count", drop.count()},
                     {"given_up", drop.given_up()}});
  }
  return drops;
}

Json overhead_json(const pb::Overhead& overhead) {
  return {{"budget_ratio", overhead.budget_ratio()},
          {"ratio", overhead.ratio()},
          {"requested_sampling_rate", overhead.requested_sampling_rate()},
          {"rate_lowered", overhead.rate_lowered()},
          {"rate_raised", overhead.rate_raised()},
          {"exhausted", overhead.exhausted()}};
}

Json end_json(const pb::ProgramEnd& end) {
  Json out{{"cause", pb::EndCause_Name(end.cause())}};
  if (end.cause() == pb::END_CAUSE_EXIT) out["exit_code"] = end.exit_code();
  if (!end.signal().empty()) out["signal"] = end.signal();
  return out;
}

Json target_object(const pb::Target& target) {
  Json out{{"pid", target.pid()},
           {"container_pid", target.container_pid()},
           {"forked_from", target.forked_from()},
           {"comm", target.comm()},
           {"exe", target.exe()},
           {"unit", target.unit()},
           {"container", target.container()},
           {"runtime_version", target.runtime_version()},
           {"mode", target.mode()},
           {"capture", target.capture()},
           {"state", state_word(target.state())},
           {"message", target.message()},
           {"sampling_rate", target.sampling_rate()},
           {"dropped_events", target.dropped_events()},
           {"given_up_events", target.given_up_events()},
           {"drops", drops_json(target)}};
  out["overhead"] = target.has_overhead() ? overhead_json(target.overhead()) : Json(nullptr);
  put_estimate(out, "allocated_bytes", target.allocated());
  if (target.has_promoted()) put_estimate(out, "promoted_bytes", target.promoted());
  if (target.has_live()) put_estimate(out, "live_bytes", target.live());
  if (target.has_live_external()) {
    put_estimate(out, "live_external_bytes", target.live_external());
  }
  if (target.has_died_young()) put_estimate(out, "died_young_bytes", target.died_young());
  if (target.has_died_old()) put_estimate(out, "died_old_bytes", target.died_old());
  out["samples"] = target.allocated().samples();
  out["alloc_events"] = target.alloc_events();
  if (target.has_live()) {
    out["promote_events"] = target.promote_events();
    out["dealloc_events"] = target.dealloc_events();
    out["live_samples"] = target.live_samples();
  }
  out["attached_unix_ns"] = target.attached_unix_ns();
  out["attach_seconds"] = target.attach_seconds();
  if (target.ended_unix_ns() != 0) out["ended_unix_ns"] = target.ended_unix_ns();
  if (target.has_end()) out["end"] = end_json(target.end());
  if (target.has_snapshot_age_seconds()) {
    out["snapshot_age_seconds"] = target.snapshot_age_seconds();
  }
  out["paused_seconds"] = target.paused_seconds();
  out["gc"] = target.has_gc() ? known_gc_json(target.gc()) : Json(nullptr);
  return out;
}

Json callstack_json(const pb::Site& site) {
  Json frames = Json::array();
  for (const pb::Location& location : site.callstack()) {
    frames.push_back({{"function", location.function()},
                      {"file", location.file()},
                      {"line", location.line()},
                      {"start_column", location.start_column()},
                      {"end_column", location.end_column()},
                      {"library", location.library()}});
  }
  return frames;
}

// Null for what is not known: a quantile that is not reached, an upper limit that there is not.
void put_quantile(Json& out, const std::string& name, std::optional<double> seconds,
                  const pb::LifetimeLimits& limits) {
  const auto known = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  out[name] = known(seconds);
  out[name + "_lower"] = limits.lower_seconds();
  out[name + "_upper"] =
      known(limits.has_upper_seconds() ? std::optional(limits.upper_seconds()) : std::nullopt);
}

Json lifetime_object(const pb::Lifetime& of) {
  const auto known = [](bool is_set, double value) {
    return is_set ? std::optional(value) : std::nullopt;
  };
  Json out;
  put_quantile(out, "p50", known(of.has_p50_seconds(), of.p50_seconds()), of.p50_limits());
  put_quantile(out, "p90", known(of.has_p90_seconds(), of.p90_seconds()), of.p90_limits());
  put_quantile(out, "p99", known(of.has_p99_seconds(), of.p99_seconds()), of.p99_limits());
  out["watched"] = of.watched_seconds();
  out["alive_ratio"] = of.watched_seconds() > 0 ? Json(of.alive_ratio()) : Json();
  out["samples"] = of.samples();
  return out;
}

Json site_object(const pb::Site& site) {
  Json out{{"function", site.function()},
           {"file", site.file()},
           {"line", site.line()},
           {"module", site.module()},
           {"library", site.library()}};
  for (const GroupRow& key : group_keys()) {
    if (key.is_number()) out[key.number.site_field] = number_of(site, key);
  }
  out["samples"] = site.samples();
  put_estimate(out, "allocated_bytes", site.allocated());
  if (site.has_promoted()) put_estimate(out, "promoted_bytes", site.promoted());
  if (site.has_live()) put_estimate(out, "live_bytes", site.live());
  if (site.has_died_young()) put_estimate(out, "died_young_bytes", site.died_young());
  if (site.has_died_old()) put_estimate(out, "died_old_bytes", site.died_old());
  out["allocated_objects"] = site.allocated_objects();
  out["allocated_objects_stderr"] = site.allocated_objects_stderr();
  out["allocated_objects_lower"] = site.allocated_objects_lower();
  out["allocated_objects_upper"] = site.allocated_objects_upper();
  if (site.has_live()) {
    out["live_objects"] = site.live_objects();
    out["live_objects_stderr"] = site.live_objects_stderr();
    out["live_objects_lower"] = site.live_objects_lower();
    out["live_objects_upper"] = site.live_objects_upper();
  }
  if (site.has_lifetime()) out["lifetime_seconds"] = lifetime_object(site.lifetime());
  out["callstack"] = callstack_json(site);
  return out;
}

Json sites_object(const pb::ListSitesResponse& response) {
  Json sites = Json::array();
  for (const pb::Site& site : response.sites()) sites.push_back(site_object(site));
  return {{"target", target_object(response.target())},
          {"time_unix_ns", response.time_unix_ns()},
          {"range",
           {{"begin_unix_ns", response.range().begin_unix_ns()},
            {"end_unix_ns", response.range().end_unix_ns()}}},
          {"groups", response.groups()},
          {"total", site_object(response.total())},
          {"sites", std::move(sites)}};
}

}  // namespace

std::string targets_json(const pb::ListTargetsResponse& response) {
  Json targets = Json::array();
  for (const pb::Target& target : response.targets()) targets.push_back(target_object(target));
  return dump({{"targets", std::move(targets)}});
}

std::string target_json(const pb::Target& target) {
  return dump({{"target", target_object(target)}});
}

std::string sites_json(const pb::ListSitesResponse& response) {
  return dump(sites_object(response));
}

std::string top_json(const TopAnswer& answer) {
  Json out = sites_object(answer.sites);
  Json ends = Json::array(), steps = Json::array();
  for (const pb::HistoryPoint& point : answer.history.points()) {
    ends.push_back(point.time_unix_ns());
    steps.push_back(point.step_seconds());
  }
  const std::string_view measure = measure_row(sparkline_measure(answer.look.order)).title;
  out["history"] = {
      {"measure", measure}, {"end_unix_ns", std::move(ends)}, {"step_seconds", std::move(steps)}};
  std::map<std::string, const pb::HistorySeries*> series;
  const pb::GroupBy group_by = answer.look.row_group();
  for (const pb::HistorySeries& one : answer.history.series()) {
    series[group_key(one.group(), group_by)] = &one;
  }
  for (int i = 0; i < answer.sites.sites_size(); ++i) {
    const auto found = series.find(group_key(answer.sites.sites(i), group_by));
    out["sites"][i]["history"] =
        found == series.end() ? Json(nullptr) : Json(values_of(*found->second));
  }
  return dump(out, -1);
}

std::string findings_json(const pb::DiagnoseResponse& response) {
  Json findings = Json::array();
  for (const pb::Finding& finding : response.findings()) {
    findings.push_back({{"level", level_word(finding.level())},
                        {"subject", finding.subject()},
                        {"detail", finding.detail()},
                        {"remedy", finding.remedy()}});
  }
  return dump({{"findings", std::move(findings)}});
}

}  // namespace memprofd::ctl
