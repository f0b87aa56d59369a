// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/heap_files.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <tuple>
#include <vector>

#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr std::string_view kPrefix = "auto-", kEnding = ".heap";

struct Kept {
  std::filesystem::file_time_type time;
  std::string path;
  std::uint64_t bytes = 0;
  bool is_complete = false;  // not what an earlier memprofd was killed in the middle of
};

// Files that somebody removes meanwhile do not count.
std::vector<Kept> files_in(const std::string& directory) {
  std::vector<Kept> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    std::error_code gone;
    if (!name.starts_with(kPrefix) || at->is_symlink(gone)) continue;
    Kept kept{.path = at->path(), .is_complete = name.ends_with(kEnding)};
    kept.bytes = at->file_size(gone);
    if (!gone) kept.time = at->last_write_time(gone);
    if (!gone) files.push_back(std::move(kept));
  }
  return files;
}

// The oldest file first.
std::vector<Kept> complete_in(const std::string& directory) {
  std::vector<Kept> files = files_in(directory);
  std::erase_if(files, [](const Kept& kept) { return !kept.is_complete; });
  std::sort(files.begin(), files.end(), [](const Kept& a, const Kept& b) {
    return std::tie(a.time, a.path) < std::tie(b.time, b.path);
  });
  return files;
}

std::string name_of(std::string_view program, int pid, std::time_t now) {
  std::string name;
  for (const char c : program) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-';
    name += is_plain ? c : '_';
  }
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char time[32] = "";
  std::strftime(time, sizeof time, "%Y%m%dT%H%M%SZ", &utc);
  return fmt::format("{}{}-{}-{}", kPrefix, name, pid, time);
}

}  // namespace

absl::Status HeapFiles::check() const {
  struct stat status {};
  int number = ::stat(options_.directory.c_str(), &status) == 0 ? 0 : errno;
  if (number == 0 && !S_ISDIR(status.st_mode)) number = ENOTDIR;
  if (number == 0 && ::access(options_.directory.c_str(), W_OK | X_OK) != 0) number = errno;
  if (number == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("cannot write snapshots into {}: {}; give a directory that exists with "
                  "--snapshot.directory",
                  options_.directory, std::strerror(number)));
}

absl::Status HeapFiles::none_kept() const {
  if (!options_.directory.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this memprofd keeps no snapshots; start it with --snapshot.directory DIR");
}

std::vector<KeptHeap> HeapFiles::list() const {
  if (options_.directory.empty()) return {};
  std::vector<Kept> files = complete_in(options_.directory);
  if (files.size() > kMostListed) files.erase(files.begin(), files.end() - kMostListed);
  std::vector<KeptHeap> list;
  for (const Kept& kept : files) {
    auto info = read_heap_info(kept.path);
    if (!info.ok()) continue;
    list.push_back({std::filesystem::path(kept.path).filename(), kept.bytes, *std::move(info)});
  }
  std::stable_sort(list.begin(), list.end(), [](const KeptHeap& a, const KeptHeap& b) {
    return a.info.unix_ns > b.info.unix_ns;
  });
  return list;
}

// A name that is none of the directory's own leads nowhere.
absl::StatusOr<std::string> HeapFiles::path_of(std::string_view name) const {
  RETURN_IF_ERROR(none_kept());
  for (Kept& kept : complete_in(options_.directory)) {
    if (std::filesystem::path(kept.path).filename() == name) return std::move(kept.path);
  }
  return absl::NotFoundError(fmt::format(
      "no snapshot \"{}\" is kept (any more); memprofctl snapshot list has those that are",
      printable(name)));
}

absl::Status HeapFiles::full() const {
  return absl::ResourceExhaustedError(fmt::format(
      "the snapshots in {} take all that --snapshot.max-bytes allows ({}); remove some, or raise "
      "that",
      options_.directory, format_bytes(static_cast<double>(options_.max_bytes))));
}

absl::StatusOr<HeapFiles::File> HeapFiles::create(std::string_view program, int pid,
                                                  std::time_t now) const {
  RETURN_IF_ERROR(none_kept());
  std::uint64_t used = 0;
  for (const Kept& kept : files_in(options_.directory)) used += kept.bytes;
  if (used >= options_.max_bytes) return full();
  const std::string stem = options_.directory + "/" + name_of(program, pid, now);
  std::string path = stem + std::string(kEnding);
  for (int number = 1; std::filesystem::exists(path); ++number) {
    path = fmt::format("{}-{}{}", stem, number, kEnding);
  }
  ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
  return File(*this, std::move(path), std::move(file), options_.max_bytes - used);
}

absl::Status HeapFiles::File::write(std::string_view bytes) {
  if (bytes.size() > room_) return files_.full();
  room_ -= bytes.size();
  return file_.write(bytes);
}

absl::Status HeapFiles::File::finish() {
  RETURN_IF_ERROR(file_.finish());
  files_.remove_oldest();
  return absl::OkStatus();
}

absl::Status HeapFiles::File::fill(const std::function<bool()>& waits,
                                   const std::function<absl::Status(const HeapClient&)>& take) {
  absl::Status written;
  const HeapClient client{.take =
                              [&](std::string_view bytes) {
                                written = write(bytes);
                                return written.ok();
                              },
                          .waits = waits};
  const absl::Status taken = take(client);
  RETURN_IF_ERROR(written);
  RETURN_IF_ERROR(taken);
  return finish();
}

void HeapFiles::remove_oldest() const {
  std::vector<Kept> files = complete_in(options_.directory);
  if (files.size() <= options_.keep) return;
  files.resize(files.size() - options_.keep);
  for (const Kept& kept : files) ::unlink(kept.path.c_str());
}

}  // namespace memprofd
