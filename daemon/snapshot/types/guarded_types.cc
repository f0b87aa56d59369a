// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/guarded_types.h"

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/snapshot/types/assign_types.h"
#include "daemon/snapshot/types/source_files.h"
#include "daemon/util/guard.h"
#include "daemon/util/threads/start_thread.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

namespace fs = std::filesystem;

std::atomic<int> asking = 0;  // number of threads that ask

// The program of a process, or of one that has ended.
struct Program {
  bool is_here = true;  // the path names its file
  uid_t user = SourceRights::kNobody;
};

// The real user of a process. The owner of its files in /proc may be root, if it cannot be dumped.
uid_t user_of(const std::string& process) {
  std::ifstream status(process + "/status");
  unsigned user = SourceRights::kNobody;
  for (std::string line; std::getline(status, line);) {
    if (std::sscanf(line.c_str(), "Uid: %u", &user) == 1) break;
  }
  return user;
}

Program program_of(std::uint32_t pid, const std::string& path) {
  const std::string process = absl::StrCat("/proc/", pid);
  std::error_code error;
  if (fs::read_symlink(process + "/exe", error) != path || error) return {};
  return {.is_here = fs::equivalent(path, process + "/exe", error), .user = user_of(process)};
}

// A request for the files of one heap. It owns everything that it uses.
struct Question {
  std::vector<std::string> places;
  ImageInfo info;
  BuildProof build;
  std::uint64_t most_memory;
  std::unique_ptr<SourceFiles> files = {};  // set by the first find()

  SourceUnit find(const std::string& unit) {
    if (!files) {
      const Program program = program_of(info.pid, info.program);
      files = std::make_unique<SourceFiles>(
          program.is_here ? info.program : "", info.ocaml_version,
          SourceRights{.user = program.user, .most_memory = most_memory}, build);
      for (const std::string& place : places) (void)files->add(place);  // the file may be gone
    }
    return files->find(unit);
  }
};

}  // namespace

SourceUnit TimeLimitedFinder::find(const std::string& unit) {
  if (has_given_up() || asking >= kMaxAsking) {
    left_ = {};
    return {};
  }
  const auto asked = std::chrono::steady_clock::now();
  auto task = std::make_shared<std::packaged_task<SourceUnit()>>(
      [find = find_, unit] { return (*find)(unit); });
  std::future<SourceUnit> answer = task->get_future();
  ++asking;
  auto thread = start_thread("to search for types", [task] {
    (*task)();
    --asking;
  });
  if (!thread.ok()) {
    --asking;
    lacked_thread_ = true;
    return {};
  }
  thread->detach();
  if (answer.wait_for(left_) != std::future_status::ready) {
    left_ = {};
    return {};
  }
  left_ -= std::chrono::steady_clock::now() - asked;
  SourceUnit found;
  guarded("to search for types", [&] { found = answer.get(); });
  return found;
}

absl::Status GuardedTypes::check() const {
  for (const std::string& place : places_) {
    const absl::Status status = SourceFiles::place_at(place).status();
    if (status.ok()) continue;
    return absl::NotFoundError(
        absl::StrCat(status.message(), "; give --snapshot.cmt an existing path"));
  }
  return absl::OkStatus();
}

void GuardedTypes::give(HeapImage& image) const {
  const auto question = std::make_shared<Question>(Question{.places = places_,
                                                            .info = image.info,
                                                            .build = BuildProof::of(image),
                                                            .most_memory = kMaxMemory});
  TimeLimitedFinder finder([question](const std::string& unit) { return question->find(unit); },
                           kPatience);
  assign_types(
      image, [&](const std::string& unit) { return finder.find(unit); }, kMaxItems);
  image.types_found.out_of_time = finder.has_given_up();
}

GuardedTypes::Names GuardedTypes::names(const Program& program,
                                        const std::vector<Unit>& units) const {
  const auto question = std::make_shared<Question>(Question{
      .places = places_,
      .info = {.program = program.path, .pid = program.pid, .ocaml_version = program.ocaml_version},
      .build = {.interfaces = program.interfaces},
      .most_memory = kMaxMemory});
  TimeLimitedFinder finder([question](const std::string& unit) { return question->find(unit); },
                           kPatience);
  SourceModules modules([&](const std::string& unit) { return finder.find(unit); }, kMaxItems);
  SourceTypes types(modules);
  Names names;
  for (const Unit& unit : units)
    names.of_units.push_back(block_names(modules, types, unit.name, unit.fields));
  names.is_final = !finder.lacked_thread();
  for (const std::string& unit : modules.other_builds()) {
    names.other_builds.push_back(valid_utf8(unit));
  }
  names.unverified = modules.has_unverified();
  return names;
}

}  // namespace memprofd
