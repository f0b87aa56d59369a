// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/heap_files.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <tuple>
#include <vector>

#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"
#include "daemon/util/writable_directory.h"

namespace memprofd {
namespace {

constexpr std::string_view kPrefix = "auto-", kEnding = ".heap";
// Maximum number of snapshots of one process in one second.
constexpr int kMaxOfASecond = 1000;
constexpr std::uint64_t kCheckedBytes = 16 << 20;

struct Kept {
  std::filesystem::file_time_type time;
  std::string path;
  std::uint64_t bytes = 0;
  bool is_complete = false;  // false while it is being written
  std::string program;       // the name in the file; empty: not a file of memprofd
};

// NAME in "auto-NAME-PID-TIME.heap" or "auto-NAME-PID-TIME-2.heap"; NAME may contain hyphens.
std::string program_of(std::string_view name) {
  name.remove_prefix(std::min(kPrefix.size(), name.size()));
  name = name.substr(0, name.find(kEnding));
  const auto cut = [&name](const char* of) {
    const std::size_t hyphen = name.rfind('-');
    if (hyphen == name.npos || hyphen + 1 == name.size()) return false;
    if (name.find_first_not_of(of, hyphen + 1) != name.npos) return false;
    name = name.substr(0, hyphen);
    return true;
  };
  constexpr const char *kDigits = "0123456789", *kTime = "0123456789TZ";
  if (!name.ends_with('Z') && !cut(kDigits)) return "";
  return cut(kTime) && cut(kDigits) ? std::string(name) : "";
}

std::map<std::string, std::uint64_t> sum_by_program(const std::vector<Kept>& files,
                                                    std::uint64_t (*amount)(const Kept&)) {
  std::map<std::string, std::uint64_t> sums;
  for (const Kept& kept : files) sums[kept.program] += amount(kept);
  return sums;
}

// Skips files that are removed meanwhile.
std::vector<Kept> files_in(const std::string& directory) {
  std::vector<Kept> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    std::error_code gone;
    if (!name.starts_with(kPrefix) || at->is_symlink(gone)) continue;
    Kept kept{
        .path = at->path(), .is_complete = name.ends_with(kEnding), .program = program_of(name)};
    kept.bytes = at->file_size(gone);
    if (!gone) kept.time = at->last_write_time(gone);
    if (!gone) files.push_back(std::move(kept));
  }
  return files;
}

// Sorted, the oldest file first.
std::vector<Kept> complete_in(const std::string& directory) {
  std::vector<Kept> files = files_in(directory);
  std::erase_if(files, [](const Kept& kept) { return !kept.is_complete; });
  std::sort(files.begin(), files.end(), [](const Kept& a, const Kept& b) {
    return std::tie(a.time, a.path) < std::tie(b.time, b.path);
  });
  return files;
}

// True for any kind of file, also for a dangling link. The next step reports errors.
bool is_taken(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
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

absl::Status HeapFiles::make_directory() const {
  return make_writable_directory(options_.directory, "snapshots", "--snapshot.directory");
}

absl::Status HeapFiles::none_kept() const {
  if (!options_.directory.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this memprofd stores no snapshots; start it with --snapshot.directory DIR");
}

std::vector<KeptHeap> HeapFiles::list() const {
  if (options_.directory.empty()) return {};
  std::vector<Kept> files = complete_in(options_.directory);
  if (files.size() > kMaxListed) files.erase(files.begin(), files.end() - kMaxListed);
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

// Refuses names that are not those of files in the directory.
absl::StatusOr<std::string> HeapFiles::path_of(std::string_view name) const {
  RETURN_IF_ERROR(none_kept());
  for (Kept& kept : complete_in(options_.directory)) {
    if (std::filesystem::path(kept.path).filename() == name) return std::move(kept.path);
  }
  return absl::NotFoundError(fmt::format(
      "no snapshot \"{}\" is stored; memprofctl snapshot list shows all", printable(name)));
}

absl::Status HeapFiles::full() const {
  return absl::ResourceExhaustedError(
      fmt::format("the snapshots in {} fill --snapshot.max-bytes ({}); remove some, or raise it",
                  options_.directory, format_bytes(static_cast<double>(options_.max_bytes))));
}

absl::StatusOr<HeapFiles::File> HeapFiles::create(std::string_view program, int pid,
                                                  std::time_t now) const {
  RETURN_IF_ERROR(none_kept());
  remove_left_parts();
  const std::string stem = options_.directory + "/" + name_of(program, pid, now);
  std::string path = stem + std::string(kEnding);
  for (int number = 1; is_taken(path) && number < kMaxOfASecond; ++number) {
    path = fmt::format("{}-{}{}", stem, number, kEnding);
  }
  const std::uint64_t room = make_room(path, 0, 1);
  if (room == 0) return full();
  ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
  return File(*this, std::move(path), std::move(file), room);
}

std::uint64_t HeapFiles::make_room(const std::string& path, std::uint64_t has,
                                   std::uint64_t needs) const {
  const std::string own = program_of(std::filesystem::path(path).filename().string());
  std::uint64_t used = 0;
  for (const Kept& kept : files_in(options_.directory)) used += kept.bytes;
  const auto room = [&] { return options_.max_bytes - std::min(used, options_.max_bytes); };
  if (room() >= needs) return room();
  std::vector<Kept> files = complete_in(options_.directory);
  while (room() < needs) {
    auto sums = sum_by_program(files, [](const Kept& kept) { return kept.bytes; });
    sums.erase("");
    const auto most =
        std::ranges::max_element(sums, {}, [](const auto& sum) { return sum.second; });
    if (most == sums.end() || most->first == own || most->second < sums[own] + has + needs) break;
    const auto oldest = std::ranges::find(files, most->first, &Kept::program);
    if (::unlink(oldest->path.c_str()) != 0) break;
    used -= std::min(used, oldest->bytes);
    files.erase(oldest);
  }
  return room();
}

// Other files may be written meanwhile, so the remaining space is determined again after some
// pieces.
bool HeapFiles::File::has_room(std::uint64_t bytes) {
  if (bytes > room_ || unchecked_ > kCheckedBytes) {
    room_ = files_.make_room(path_, written_, bytes);
    unchecked_ = 0;
  }
  if (bytes > room_) return false;
  room_ -= bytes;
  written_ += bytes;
  unchecked_ += bytes;
  return true;
}

absl::Status HeapFiles::File::write(std::string_view bytes) {
  return has_room(bytes.size()) ? file_.write(bytes) : files_.full();
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

// Any memprofd locks a file while it writes it.
void HeapFiles::remove_left_parts() const {
  for (const Kept& kept : files_in(options_.directory)) {
    if (!kept.is_complete) NewFile::remove_left(kept.path);
  }
}

void HeapFiles::remove_oldest() const {
  std::vector<Kept> files = complete_in(options_.directory);
  while (files.size() > options_.keep) {
    const auto counts = sum_by_program(files, [](const Kept&) { return std::uint64_t{1}; });
    // Takes the oldest one of the programs with the most files.
    const auto oldest = std::ranges::max_element(
        files, {}, [&](const Kept& kept) { return counts.at(kept.program); });
    ::unlink(oldest->path.c_str());
    files.erase(oldest);
  }
}

}  // namespace memprofd
