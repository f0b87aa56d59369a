// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/state_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/util/guard.h"
#include "daemon/util/log.h"

namespace memprofd {
namespace {

constexpr std::chrono::seconds kInterval{4};
constexpr std::chrono::seconds kSnapshotPatience{2};
constexpr std::chrono::seconds kWritePatience{1};
constexpr absl::string_view kSuffix = ".target";

absl::Status unusable(const std::string& directory, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("cannot keep state in ", directory, ": ", why,
                                                 "; give a directory with --state.directory"));
}

// Opens and locks the directory, which only its owner may use.
absl::StatusOr<UniqueFd> take_directory(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return unusable(directory, std::strerror(errno));
  }
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return unusable(directory, std::strerror(errno));
  // Its owner could replace files at any moment, and they decide to which programs memprofd
  // attaches.
  if (status.st_uid != ::geteuid()) {
    return unusable(directory,
                    absl::StrCat("it belongs to user ", status.st_uid, ", not to memprofd's"));
  }
  if (::fchmod(fd.get(), 0700) != 0) return unusable(directory, std::strerror(errno));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return unusable(directory, std::strerror(errno));
  return absl::UnavailableError(
      absl::StrCat("another memprofd keeps its state in ", directory,
                   "; stop it, or give this one a directory of its own with --state.directory"));
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  DIR* const dir = ::opendir(directory.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = ::readdir(dir)) names.emplace_back(entry->d_name);
  ::closedir(dir);
  return names;
}

std::uint64_t size_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateStore>> StateStore::open(StateOptions options) {
  absl::StatusOr<UniqueFd> lock = take_directory(options.directory);
  if (!lock.ok()) return lock.status();
  std::unique_ptr<StateStore> store(new StateStore(std::move(options), *std::move(lock)));
  store->read_all();
  return store;
}

// Files with other names are not ours.
void StateStore::read_all() {
  const MutexLock lock(write_mutex_);
  for (const std::string& name : names_in(options_.directory)) {
    const std::string path = absl::StrCat(options_.directory, "/", name);
    absl::string_view rest(name);
    const bool unfinished = absl::ConsumeSuffix(&rest, ".new");
    int pid = 0;
    if (!absl::ConsumeSuffix(&rest, kSuffix) || !absl::SimpleAtoi(rest, &pid)) continue;
    if (unfinished) {
      ::unlink(path.c_str());
    } else {
      read_one(pid, path);
    }
  }
  bytes_ = all_bytes();
}

void StateStore::read_one(int pid, const std::string& path) {
  absl::StatusOr<StoredTarget> stored = read_target(path);
  if (stored.ok() && stored->snapshot->info.pid != pid) {
    stored = absl::DataLossError(absl::StrCat(path, " is of another program"));
  }
  if (!stored.ok()) {
    log_warning("state: {}; the file is removed", std::string(stored.status().message()));
    ::unlink(path.c_str());
    return;
  }
  kept_.insert({pid, StoredState{TargetWriter(path, size_of(path))}});
  stored_.push_back(*std::move(stored));
}

void StateStore::start(SnapshotHub& hub) {
  thread_ = std::thread([this, &hub] { loop(hub); });
}

void StateStore::stop() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void StateStore::loop(SnapshotHub& hub) {
  ::pthread_setname_np(::pthread_self(), "state");
  while (wait_for_next_save()) {
    guarded("to write state", [&] { save(hub); });
  }
  guarded("to write state", [&] { save(hub); });
}

bool StateStore::wait_for_next_save() {
  const auto until = std::chrono::steady_clock::now() + kInterval;
  const MutexLock lock(mutex_);
  while (!stop_ && stopped_.wait_until(mutex_, until)) {
  }
  return !stop_;
}

void StateStore::save(SnapshotHub& hub) {
  if (const auto snapshots = hub.fresh_in_time(kSnapshotPatience)) keep(*snapshots);
}

void StateStore::keep(const std::vector<ProfileSnapshotPtr>& snapshots) {
  const MutexLock lock(write_mutex_);
  forget_missing(snapshots);
  write_all(snapshots);
}

void StateStore::write(const std::vector<ProfileSnapshotPtr>& snapshots) {
  if (!write_mutex_.try_lock_for(kWritePatience)) return;
  const MutexLock lock(write_mutex_, std::adopt_lock);
  write_all(snapshots);
}

void StateStore::write_all(const std::vector<ProfileSnapshotPtr>& snapshots) {
  const std::uint64_t errors_before = write_errors_;
  for (const ProfileSnapshotPtr& snapshot : snapshots) write_one(*snapshot);
  bytes_ = all_bytes();
  if (failing_ && write_errors_ == errors_before) {
    failing_ = false;
    log_info("state: all of it is written again");
  }
}

void StateStore::write_one(const ProfileSnapshot& snapshot) {
  const int pid = snapshot.info.pid;
  const std::string path = absl::StrCat(options_.directory, "/", pid, kSuffix);
  StoredState& kept = kept_.try_emplace(pid, StoredState{TargetWriter(path)}).first->second;
  kept.seen = true;
  kept.ended_ns = snapshot.history.unfinished ? 0 : snapshot.time_ns;
  if (kept.ended_ns == 0) kept.gave_way = false;
  if (kept.gave_way) return;
  absl::Status status;
  do {
    if (!status.ok()) kept.writer.try_again();
    const std::uint64_t others = all_bytes() - kept.writer.bytes();
    const std::uint64_t room = options_.max_bytes - std::min(options_.max_bytes, others);
    status = kept.writer.write(snapshot, room);
  } while (absl::IsResourceExhausted(status) && evict_oldest() && !kept.gave_way);
  if (!kept.gave_way) note(status);
}

// Logs the first one of many failures.
void StateStore::note(const absl::Status& status) {
  if (status.ok()) return;
  ++write_errors_;
  if (!std::exchange(failing_, true)) {
    log_warning("state: {}; profiling continues", std::string(status.message()));
  }
}

void StateStore::forget_missing(const std::vector<ProfileSnapshotPtr>& snapshots) {
  for (auto it = kept_.begin(); it != kept_.end();) {
    const bool shown = std::any_of(snapshots.begin(), snapshots.end(), [&](const auto& snapshot) {
      return snapshot->info.pid == it->first;
    });
    if (shown || !it->second.seen) {
      ++it;
      continue;
    }
    it->second.writer.remove();
    it = kept_.erase(it);
  }
}

// Removes the file of the target that ended first; returns whether there was one.
bool StateStore::evict_oldest() {
  StoredState* oldest = nullptr;
  for (auto& [pid, kept] : kept_) {
    if (kept.ended_ns == 0 || kept.gave_way) continue;
    if (oldest == nullptr || kept.ended_ns < oldest->ended_ns) oldest = &kept;
  }
  if (oldest == nullptr) return false;
  oldest->writer.remove();
  oldest->gave_way = true;
  return true;
}

std::uint64_t StateStore::all_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [pid, kept] : kept_) bytes += kept.writer.bytes();
  return bytes;
}

}  // namespace memprofd
