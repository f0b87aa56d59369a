// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/audit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>

#include "absl/strings/str_cat.h"
#include "daemon/util/about_pid.h"
#include "daemon/util/log.h"
#include "daemon/util/scoped_user.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd {

namespace {

// Lines per minute and user.
constexpr std::uint64_t kDoneLines = 600, kRefusedLines = 20;
// Users with a count of their own; only an attack has more.
constexpr std::size_t kMaxUsers = 256;

std::atomic<std::uint64_t> unlogged = 0;

// Thread-safe.
class LinesOfUsers {
 public:
  // left_out: set to the number of omitted lines that were not reported yet.
  bool may_write(const std::string& user, bool is_done, std::uint64_t& left_out) {
    if (user.empty()) return true;
    const auto now = std::chrono::steady_clock::now();
    const MutexLock lock(mutex_);
    if (users_.size() >= kMaxUsers && !users_.contains(user)) forget_one();
    Lines& lines = users_[user];
    if (now - lines.since >= std::chrono::minutes(1)) {
      left_out = lines.left_out;
      lines = {.since = now};
    }
    std::uint64_t& written = is_done ? lines.done : lines.refused;
    if (written < (is_done ? kDoneLines : kRefusedLines)) {
      ++written;
      return true;
    }
    ++lines.left_out;
    ++unlogged;
    return false;
  }

 private:
  struct Lines {
    std::chrono::steady_clock::time_point since{};
    std::uint64_t done = 0, refused = 0, left_out = 0;
  };

  // Forgets the user whose minute began first.
  void forget_one() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    users_.erase(
        std::ranges::min_element(users_, {}, [](const auto& entry) { return entry.second.since; }));
  }

  Mutex mutex_;
  std::map<std::string, Lines> users_ ABSL_GUARDED_BY(mutex_);
};

LinesOfUsers& lines() {
  static auto* const lines = new LinesOfUsers;
  return *lines;
}

}  // namespace

std::uint64_t unlogged_requests() { return unlogged; }

void audit(int pid, std::string_view what, std::string_view who, const absl::Status& outcome,
           std::string_view done) {
  std::uint64_t left_out = 0;
  if (!lines().may_write(ScopedUser::current(), outcome.ok(), left_out)) return;
  if (left_out != 0) {
    log_warning("{}: {} requests were not logged, because there were too many",
                ScopedUser::current(), left_out);
  }
  const std::string line =
      absl::StrCat("pid ", pid, ": ", absl::string_view(what.data(), what.size()), " by ",
                   printable(std::string(who)));
  if (outcome.ok()) {
    log_info("{}: done{}{}", line, done.empty() ? "" : ", ", done);
  } else {
    log_warning("{}: refused: {}", line,
                printable(without_pid(pid, std::string(outcome.message()))));
  }
}

namespace {

template <typename Request>
std::string budget_name(const Request& request) {
  if (!request.has_max_overhead()) return "";
  return request.max_overhead() == 0
             ? ", no budget"
             : absl::StrCat(", budget ", format_share(request.max_overhead(), 1));
}

}  // namespace

std::string name_of(const ::memprof::v1::AttachRequest& request) {
  std::string details = request.sampling_rate() == 0
                            ? "default rate"
                            : absl::StrCat(request.sampling_rate(), "/word");
  absl::StrAppend(&details, budget_name(request));
  if (request.follow_forks()) absl::StrAppend(&details, ", with its children");
  if (request.c_heap_interval() != 0) absl::StrAppend(&details, ", with the native heap");
  return absl::StrCat("attach (", details, ")");
}

std::string name_of(const ::memprof::v1::DetachRequest& /*request*/) { return "detach"; }

std::string name_of(const ::memprof::v1::SetRateRequest& request) {
  return absl::StrCat(
      "rate ",
      request.sampling_rate() == 0 ? "as it is" : absl::StrCat(request.sampling_rate(), "/word"),
      budget_name(request));
}

std::string cost_of(const ::memprof::v1::SnapshotSummary& summary) {
  return absl::StrCat("paused for ", format_duration(summary.pause_seconds()), " (",
                      format_duration(summary.predicted_pause_seconds()), " predicted), ",
                      format_bytes(static_cast<double>(summary.file_bytes())));
}

}  // namespace memprofd
