// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/guarded_types.h"

#include <atomic>
#include <filesystem>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/snapshot/types/give_types.h"
#include "daemon/snapshot/types/source_files.h"

namespace memprofd {
namespace {

std::atomic<int> asking = 0;  // threads

// What is asked for the files of one heap. It owns all that it touches.
struct Question {
  std::vector<std::string> places;
  std::string program, ocaml_version;
  std::optional<std::uint32_t> pid;
  SourceRights rights;
  std::unique_ptr<SourceFiles> files = {};  // once it has been asked

  SourceUnit find(const std::string& unit) {
    if (!files) {
      files = std::make_unique<SourceFiles>(is_here() ? program : "", ocaml_version, rights);
      for (const std::string& place : places) (void)files->add(place);  // it may have gone
    }
    return files->find(unit);
  }
  bool is_here() const {
    std::error_code error;
    return !pid ||
           std::filesystem::equivalent(program, absl::StrCat("/proc/", *pid, "/exe"), error);
  }
};

}  // namespace

SourceUnit PatientFinder::find(const std::string& unit) {
  if (has_given_up() || asking >= kMostAsking) {
    left_ = {};
    return {};
  }
  const auto asked = std::chrono::steady_clock::now();
  auto task = std::make_shared<std::packaged_task<SourceUnit()>>(
      [find = find_, unit] { return (*find)(unit); });
  std::future<SourceUnit> answer = task->get_future();
  ++asking;
  std::thread([task] {
    (*task)();
    --asking;
  }).detach();
  if (answer.wait_for(left_) != std::future_status::ready) {
    left_ = {};
    return {};
  }
  left_ -= std::chrono::steady_clock::now() - asked;
  return answer.get();
}

absl::Status GuardedTypes::check() const {
  for (const std::string& place : places_) {
    const absl::Status status = SourceFiles::place_at(place).status();
    if (status.ok()) continue;
    return absl::NotFoundError(
        absl::StrCat(status.message(), "; give --snapshot.cmt what is there"));
  }
  return absl::OkStatus();
}

void GuardedTypes::give(HeapImage& image, std::optional<std::uint32_t> pid) const {
  const auto question = std::make_shared<Question>(
      Question{.places = places_,
               .program = image.info.program,
               .ocaml_version = image.info.ocaml_version,
               .pid = pid,
               .rights = {.as_owner = true, .most_memory = kMostMemory}});
  PatientFinder finder([question](const std::string& unit) { return question->find(unit); },
                       kPatience);
  give_types(
      image, [&](const std::string& unit) { return finder.find(unit); }, kMostItems);
  image.types_found.out_of_time = finder.has_given_up();
}

}  // namespace memprofd
