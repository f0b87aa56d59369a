// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/program_watch.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/about_pid.h"
#include "daemon/util/base_name.h"
#include "daemon/util/file_id.h"
#include "daemon/util/log.h"
#include "daemon/util/threads/start_thread.h"

namespace memprofd {
namespace {

// Number of refusals before a program is skipped. A program that has just started has no runtime
// yet, so its first attach may be refused.
constexpr int kTries = 3;
constexpr std::size_t kAttachesAtOnce = 8;

}  // namespace

bool is_named(std::string_view exe, const std::string& pattern) {
  exe = without_deleted(exe);
  if (pattern.find('/') == pattern.npos) exe = base_name(exe);
  return ::fnmatch(pattern.c_str(), std::string(exe).c_str(), 0) == 0;
}

ProgramWatch::ProgramWatch(ProgramWatchOptions options)
    : options_(std::move(options)),
      files_(options_.examine),
      thread_({"program-watch", "to look for programs by their names"}, [this] {
        scan();
        return options_.interval;
      }) {}

// Forgets processes that have exited, unless an attach is pending.
void ProgramWatch::scan() {
  std::map<int, MatchedProcess> still_there;
  Discoveries discovered;
  std::error_code error;
  for (std::filesystem::directory_iterator at(options_.proc_root, error), end; !error && at != end;
       at.increment(error)) {
    int pid = 0;
    if (absl::SimpleAtoi(at->path().filename().string(), &pid)) note(pid, still_there, discovered);
  }
  for (auto& [pid, found] : found_) {
    if (found.attach.valid()) {
      still_there.emplace(pid, std::move(found));
    } else if (!found.done && found.outcome == Discovery::kWaiting) {
      ++ended_early_;
      log_debug("pid {}: ended before it was attached to, by --name {}", pid, found.pattern);
    }
  }
  found_ = std::move(still_there);
  for (auto& [pid, found] : found_) advance(pid, found);
  publish(std::move(discovered));
}

// discovered: the programs that no rule names.
void ProgramWatch::publish(Discoveries discovered) {
  const ProcFs proc(options_.proc_root);
  for (const auto& [pid, found] : found_) {
    discovered.add({.pid = pid,
                    .start_time_ticks = found.start_time_ticks,
                    .comm = proc.comm(pid).value_or(""),
                    .exe = found.exe,
                    .outcome = found.outcome,
                    .reason = found.reason,
                    .rule = found.pattern});
  }
  discovered.unread_files = files_.end_scan();
  discovered.ended_early = ended_early_;
  options_.book->set(std::move(discovered));
}

void ProgramWatch::note_other(int pid, const std::string& exe, Discoveries& discovered) {
  const ProcFs proc(options_.proc_root);
  const std::string path = proc.path(pid, "exe");
  const auto file = file_id(path);
  if (!file) return;
  const FileVerdict* verdict = files_.verdict(path, exe, *file);
  if (verdict == nullptr || !verdict->is_ocaml) return;
  discovered.add({.pid = pid,
                  .start_time_ticks = proc.start_time(pid).value_or(0),
                  .comm = proc.comm(pid).value_or(""),
                  .exe = exe,
                  .outcome = verdict->outcome,
                  .reason = verdict->reason,
                  .rule = {}});
}

void ProgramWatch::note(int pid, std::map<int, MatchedProcess>& still_there,
                        Discoveries& discovered) {
  const ProcFs proc(options_.proc_root);
  const auto exe = proc.exe(pid);
  if (!exe.ok()) return;
  const auto pattern =
      std::find_if(options_.patterns.begin(), options_.patterns.end(),
                   [&](const std::string& pattern) { return is_named(*exe, pattern); });
  if (pattern == options_.patterns.end()) return note_other(pid, *exe, discovered);
  const auto start = proc.start_time(pid);
  if (!start.ok()) return;
  if (const auto known = found_.find(pid); known != found_.end()) {
    const bool same = known->second.start_time_ticks == *start && known->second.exe == *exe;
    if (!same && known->second.attach.valid()) return;  // wait until that attach has ended
    if (same) still_there.emplace(pid, std::move(known->second));
    found_.erase(known);
    if (same) return;
  }
  MatchedProcess found;
  found.start_time_ticks = *start;
  found.exe = *exe;
  found.pattern = *pattern;
  still_there.emplace(pid, std::move(found));
}

void ProgramWatch::advance(int pid, MatchedProcess& found) {
  if (found.attach.valid()) return take_result(pid, found);
  if (found.done || Clock::now() < found.again) return;
  const auto running = std::count_if(found_.begin(), found_.end(),
                                     [](const auto& entry) { return entry.second.attach.valid(); });
  if (static_cast<std::size_t>(running) >= kAttachesAtOnce) return;
  auto attach = start_async<absl::Status>(
      "to attach to a program",
      [this, pid, ticks = found.start_time_ticks] { return options_.attach(pid, ticks); });
  if (attach.ok()) {
    found.attach = *std::move(attach);
  } else {
    note_result(pid, found, attach.status());
  }
}

void ProgramWatch::take_result(int pid, MatchedProcess& found) {
  if (found.attach.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  note_result(pid, found, found.attach.get());
}

void ProgramWatch::note_result(int pid, MatchedProcess& found, const absl::Status& result) {
  if (result.ok()) log_info("pid {}: attached to, by --name {}", pid, found.pattern);
  found.done = result.ok() || absl::IsAlreadyExists(result) || absl::IsAborted(result);
  found.reason = without_pid(pid, std::string(result.message()));
  if (found.done) {
    found.outcome = Discovery::kDetached;  // unless a target shows another outcome
    return;
  }
  const bool may_pass = absl::IsResourceExhausted(result) || absl::IsNotFound(result);
  found.outcome = may_pass ? Discovery::kWaiting : discovery_of(result);
  // A temporary limit does not count as a refusal.
  if (!absl::IsResourceExhausted(result)) ++found.refused;
  found.again = Clock::now() + options_.interval * (1 << found.refused);
  found.done = found.refused >= kTries;
  if (!found.done || absl::IsNotFound(result)) return;
  log_warning("pid {}: matches --name {} but was skipped: {}", pid, found.pattern,
              without_pid(pid, std::string(result.message())));
}

}  // namespace memprofd
