// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/census_thread.h"

#include <pthread.h>

#include <system_error>

#include "daemon/util/guard.h"

namespace memprofd {

namespace {

// Two changes of a directory within this time may have the same timestamp: file systems use the
// clock's last tick, and some store no fractions of a second or two.
constexpr std::chrono::seconds kSameTime(3);

}  // namespace

CensusThread::CensusThread(HeapAnalyser& heaps, std::chrono::milliseconds interval)
    : heaps_(heaps), interval_(interval) {
  if (!heaps_.kept().directory().empty()) thread_ = std::thread([this] { run(); });
}

CensusThread::~CensusThread() {
  stop_.stop();
  if (thread_.joinable()) thread_.join();
}

void CensusThread::run() {
  ::pthread_setname_np(::pthread_self(), "heap-census");
  do {
    guarded("to count snapshots", [this] { count_snapshots(); });
  } while (stop_.wait(interval_));
}

void CensusThread::count_snapshots() {
  std::error_code unknown;
  const auto changed = std::filesystem::last_write_time(heaps_.kept().directory(), unknown);
  if (unknown || changed == done_) return;
  const bool is_past = changed + kSameTime < std::filesystem::file_time_type::clock::now();
  if (count_all() && is_past) done_ = changed;
}

// Returns true if nothing is left to do.
bool CensusThread::count_all() {
  std::set<std::string> still_let_be;
  bool is_done = true;
  for (const KeptHeap& kept : heaps_.kept().list()) {
    if (!stop_.wait({})) return false;
    if (let_be_.contains(kept.name)) still_let_be.insert(kept.name);
    if (let_be_.contains(kept.name) || heaps_.censuses()->of(kept.info) != nullptr) continue;
    const absl::Status status = heaps_.count_kept(kept.name);
    if (absl::IsUnavailable(status)) {
      is_done = false;
    } else if (!status.ok()) {
      still_let_be.insert(kept.name);
    }
  }
  let_be_ = std::move(still_let_be);
  return is_done;
}

}  // namespace memprofd
