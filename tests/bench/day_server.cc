// SPDX-License-Identifier: Apache-2.0
// Serves the page and the HTTP API for the simulated day of simulated_day.h, with ten thousand
// sites and 24 hours of history. Tests of the page's speed in a browser use it.
//
// day_server [coarse]: prints "ready PORT", and exits at the end of its standard input. A coarse
// day has steps of ten minutes in the first 22 hours, and is ready in a third of the time.
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

#include "daemon/export/api/query_service.h"
#include "daemon/export/api/values_service.h"
#include "daemon/export/http/api_routes.h"
#include "daemon/export/http/http_answers.h"
#include "daemon/export/http/http_server.h"
#include "daemon/export/http/page_routes.h"
#include "daemon/export/http/request_params.h"
#include "daemon/util/stop_signal.h"
#include "daemon/util/version.h"
#include "tests/bench/simulated_day.h"

namespace memprofd {
namespace {

// The day is over: the target has ended, and answers stay as they are.
class DaySource final : public SnapshotSource {
 public:
  explicit DaySource(bool coarse)
      : day_(SimulatedDay::Shares::kZipf, (coarse ? 600 : 60) * SimulatedDay::kSecondNs) {}
  std::vector<ProfileSnapshotPtr> snapshots() override { return {snapshot_}; }
  absl::StatusOr<ProfileSnapshotPtr> snapshot(int pid) override {
    if (pid == snapshot_->info.pid) return snapshot_;
    return absl::NotFoundError(absl::StrCat("pid ", pid, " is not profiled"));
  }

 private:
  static ProfileSnapshotPtr ended(const SimulatedDay& day) {
    auto result = std::make_shared<ProfileSnapshot>(*day.snapshot());
    result->info.state = TargetState::kExited;
    result->info.mode = TargetMode::kAgent;
    return result;
  }

  const SimulatedDay day_;
  const ProfileSnapshotPtr snapshot_ = ended(day_);
};

int serve(bool coarse) {
  DaySource source(coarse);
  QueryService queries(source);
  TraceService traces(source, {});
  StopSignal stop;
  HttpRoutes routes;
  add_api_routes(queries, traces, stop, routes);
  routes["/api/v1/value_history"] = [&source](const HttpRequest& http) {
    memprof::v1::GetValueHistoryRequest request;
    const absl::Status status = fill_from_params(http.query, request);
    if (!status.ok()) return http_failure(status);
    return http_answer(value_history(*source.snapshots().front(), request));
  };
  // The page asks for heap snapshots; this target has none.
  routes["/api/v1/heaps"] = [](const HttpRequest&) {
    return HttpResponse{200, "application/json", "{}"};
  };
  add_web_page({}, routes);
  const auto server = HttpServer::start({.listen_address = "127.0.0.1:0"}, std::move(routes));
  if (!server.ok()) {
    std::cerr << server.status() << "\n";
    return 1;
  }
  std::printf("ready %d\n", int{(*server)->port()});
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
  }
  stop.stop();
  return 0;
}

}  // namespace
}  // namespace memprofd

int main(int argc, char** argv) {
  return memprofd::serve(argc > 1 && std::string_view(argv[1]) == "coarse");
}
