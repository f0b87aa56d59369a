// SPDX-License-Identifier: Apache-2.0
// memprofctl snapshot take: the file of a snapshot, as memprofd makes it.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/heap_taking.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/new_file.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/render/text.h"
#include "daemon/export/api/message_json.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

// "snapshot-4242-20251231T235959.heap": pid, UTC.
std::string default_name(int pid) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char time[32] = "";
  std::strftime(time, sizeof time, "%Y%m%dT%H%M%S", &utc);
  return absl::StrCat("snapshot-", pid, "-", time, ".heap");
}

std::string summary_text(const std::string& file, const pb::SnapshotSummary& summary) {
  return fmt::format(
      "{}: {}, {} blocks in a heap of {}; the program stood still for {:.1f} ms\n", file,
      format_bytes(static_cast<double>(summary.file_bytes())), format_count(summary.blocks()),
      format_bytes(static_cast<double>(summary.heap_bytes())), summary.pause_seconds() * 1e3);
}

// The name may be a default that nobody knows beforehand.
absl::StatusOr<std::string> summary_json(const std::string& file,
                                         const pb::SnapshotSummary& summary) {
  ASSIGN_OR_RETURN(const std::string text, message_json(summary, true));
  auto json = nlohmann::ordered_json::parse(text);
  json["file"] = file;
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::Status run_snapshot_take(const Options& options) {
  Interrupt interrupt;
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const pb::TakeSnapshotRequest request, snapshot_request(options, client));
  const std::string name = options.out.empty() ? default_name(request.pid()) : options.out;
  ASSIGN_OR_RETURN(NewFile file, NewFile::create(name));
  interrupt.on_signal([&client] { client.interrupt(); });
  ASSIGN_OR_RETURN(
      const pb::SnapshotSummary summary,
      take_snapshot(client, request, [&](std::string_view bytes) { return file.write(bytes); }));
  RETURN_IF_ERROR(file.finish());
  if (!options.json()) return print(summary_text(name, summary));
  ASSIGN_OR_RETURN(const std::string json, summary_json(name, summary));
  return print(json);
}

}  // namespace memprofd::ctl
