// SPDX-License-Identifier: Apache-2.0
// memprofctl values: what the modules of a program hold.
#include <re2/re2.h>

#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/heap_taking.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/progress.h"
#include "daemon/ctl/render/render_graph.h"
#include "daemon/ctl/render/render_values.h"
#include "daemon/ctl/snapshot/values_snapshot.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/snapshot/file/new_file.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

constexpr std::uint32_t kGraphNodes = 10'000;

absl::StatusOr<pb::Value> only_value(const pb::ListValuesResponse& values, const Options& options) {
  if (values.reported_size() > 0 && values.reported(0).has_value()) {
    return values.reported(0).value();
  }
  if (values.values_size() > 0) return values.values(0).value();
  return absl::NotFoundError(absl::StrCat("no value is called '", options.graph_of, "'; `",
                                          options.endpoint.command("values"), "` lists them"));
}

// Counts there what was too large to be read; no snapshot is taken when nothing was.
absl::Status add_snapshot(Client& client, const Options& options, pb::ListValuesResponse& values) {
  if (!has_too_large(values)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const pb::TakeHeapRequest request, snapshot_request(options, client));
  ASSIGN_OR_RETURN(const NamelessFile file, NamelessFile::create());
  RETURN_IF_ERROR(take_snapshot(client, request, [&](std::string_view bytes) {
                    return file.write(bytes);
                  }).status());
  ASSIGN_OR_RETURN(const HeapImage image, read_heap_image(file.path()));
  (void)complete_values(image, values);
  return absl::OkStatus();
}

}  // namespace

absl::Status run_values(const Options& options) {
  if (!options.watched.empty()) {
    Options watched = options;
    if (!options.value_pattern.empty()) watched.watched = {options.value_pattern};
    return run_watch(watched);
  }
  Interrupt interrupt;
  Client client(options.endpoint);
  Waiting waiting;
  interrupt.on_signal([&] {
    client.interrupt();
    waiting.interrupt();
  });
  pb::ListValuesRequest request;
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  request.set_pid(pid);
  request.set_pattern(options.value_pattern);
  request.set_with_constants(options.with_constants);
  request.set_with_contents(options.with_contents);
  request.set_limit(options.value_limit);
  request.set_by_domain(options.by_domain);
  if (!options.graph_of.empty()) {
    request.set_pattern(absl::StrCat("^", RE2::QuoteMeta(options.graph_of), "$"));
    request.set_with_constants(true);
    request.set_graph_nodes(kGraphNodes);
  } else if (options.format == kDot) {
    return absl::InvalidArgumentError("bad format dot: it requires --graph NAME");
  }
  std::optional<pb::ListValuesResponse> before;
  if (!options.duration.empty()) {
    ASSIGN_OR_RETURN(const double seconds, parse_duration(options.duration));
    ASSIGN_OR_RETURN(before, client.list_values(request));
    const Progress progress("waiting for values to change");
    (void)waiting.wait_until(std::chrono::steady_clock::now() +
                             std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::duration<double>(seconds)));
  }
  ASSIGN_OR_RETURN(pb::ListValuesResponse values, client.list_values(request));
  if (!request.pattern().empty() && values.values().empty() && values.reported().empty() &&
      values.other_builds().empty() && options.graph_of.empty()) {
    return absl::NotFoundError(absl::StrCat("no value of pid ", pid, " is called '",
                                            options.value_pattern, "'; `",
                                            options.endpoint.command("values"), "` lists them"));
  }
  if (options.values_from_snapshot) RETURN_IF_ERROR(add_snapshot(client, options, values));
  if (!options.graph_of.empty() && !options.json()) {
    ASSIGN_OR_RETURN(const pb::Value value, only_value(values, options));
    return print(options.format == kDot ? graph_dot(value) : graph_text(value));
  }
  return options.json() ? print_json(values)
                        : print(render_values(values, stdout_style(), before ? &*before : nullptr));
}

}  // namespace memprofd::ctl
