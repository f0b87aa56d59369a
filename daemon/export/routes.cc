#include "daemon/export/routes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kHtmlType[] = "text/html; charset=utf-8";
constexpr char kPlainType[] = "text/plain; charset=utf-8";

constexpr char kPageHead[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>memprofd</title>\n"
    "<style>body{font-family:sans-serif;margin:2em;max-width:70em}"
    "table{border-collapse:collapse}th,td{padding:.3em 1em .3em 0;text-align:left}"
    "td.n{text-align:right;white-space:nowrap}</style></head><body>\n<h1>memprofd</h1>\n";
constexpr char kLinks[] =
    "<ul>\n<li><a href=\"/metrics\">/metrics</a>: everything, for Prometheus</li>\n"
    "<li><a href=\"/debug/pprof/heap\">/debug/pprof/heap</a>, "
    "<a href=\"/debug/pprof/allocs\">/debug/pprof/allocs</a>: for <code>go tool pprof</code>, "
    "Parca, Pyroscope</li>\n"
    "<li><a href=\"/api/v1/profile?format=html\">/api/v1/profile?format=html</a>: flame graph</li>\n"
    "<li><a href=\"/-/healthy\">/-/healthy</a>, <a href=\"/-/ready\">/-/ready</a></li>\n"
    "<li>on the command line: <code>memprofctl report</code>, <code>memprofctl top</code></li>\n"
    "</ul>\n";

std::string escaped(const std::string& text) {
  return absl::StrReplaceAll(
      printable(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string target_row(const TargetSnapshot& target) {
  const TargetInfo& info = target.info;
  const auto number = [](const Estimate& estimate) {
    return absl::StrCat("<td class=\"n\">",
                        format_estimate(estimate.bytes(), estimate.stderr_bytes()), "</td>");
  };
  Estimate allocated;
  for (const auto& heap : target.counters.allocated) {
    for (const Estimate& source : heap) allocated += source;
  }
  const std::string_view state = state_name(info.state);
  return absl::StrCat(
      "<tr><td>", info.pid, "</td><td title=\"", escaped(info.exe), "\">", escaped(info.comm),
      "</td><td>", escaped(std::string(state)), "</td><td>", format_rate(info.sampling_rate),
      "</td>", number(allocated), number(target.counters.live), "<td class=\"n\">",
      format_count(target.drops.total()), "</td><td>", escaped(info.message), "</td></tr>\n");
}

}  // namespace

std::string landing_page(const std::vector<TargetSnapshotPtr>& targets,
                         const std::string& version) {
  std::string page = absl::StrCat(kPageHead, "<p>Version ", escaped(version),
                                  ". Memory profiler for running OCaml programs.</p>\n", kLinks);
  if (targets.empty()) {
    return absl::StrCat(page,
                        "<p>No targets. Attach with <code>memprofctl attach PID</code>.</p>\n"
                        "</body></html>\n");
  }
  page +=
      "<table><tr><th>pid</th><th>program</th><th>state</th><th>rate</th><th>allocated</th>"
      "<th>live</th><th>dropped events</th><th></th></tr>\n";
  for (const TargetSnapshotPtr& target : targets) page += target_row(*target);
  return absl::StrCat(page,
                      "</table>\n<p>Estimates since the attach; ± is one standard error.</p>\n"
                      "</body></html>\n");
}

HttpRoutes make_routes(ProfilerService& service, const PrometheusExporter& exporter,
                       std::string version, std::function<bool()> ready) {
  HttpRoutes routes;
  routes["/metrics"] = [&exporter](const HttpRequest&) {
    return HttpResponse{200, kMetricsType, exporter.text()};
  };
  routes["/-/healthy"] = [](const HttpRequest&) {
    return HttpResponse{200, kPlainType, "memprofd is healthy.\n"};
  };
  routes["/-/ready"] = [ready = std::move(ready)](const HttpRequest&) {
    if (ready()) return HttpResponse{200, kPlainType, "memprofd is ready.\n"};
    return HttpResponse{503, kPlainType, "memprofd is not ready yet.\n"};
  };
  routes["/"] = [&service, version = std::move(version)](const HttpRequest&) {
    return HttpResponse{200, kHtmlType, landing_page(service.snapshots(), version)};
  };
  return routes;
}

}  // namespace memprofd
