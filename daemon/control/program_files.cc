// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/program_files.h"

#include <chrono>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/program_check.h"
#include "daemon/util/base_name.h"
#include "daemon/util/refusal.h"

namespace memprofd {
namespace {

// Nearly every file is examined within this time.
constexpr std::chrono::milliseconds kFirstMoment{50};

// True for /proc/PID/exe of a program that was started as an argument to the dynamic loader.
bool is_loader(std::string_view exe) {
  const std::string_view name = base_name(exe);
  return name.starts_with("ld-") && name.find(".so") != name.npos;
}

void wait_a_moment(const Inspection<std::optional<FileVerdict>>& inspection) {
  while (!inspection.done() && inspection.age() < kFirstMoment) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

Discovery discovery_of(const absl::Status& status) {
  switch (refusal_of(status)) {
    case Refusal::kNotOcaml:
      return Discovery::kNotOcaml;
    case Refusal::kBytecode:
      return Discovery::kBytecode;
    case Refusal::kVersion:
      return Discovery::kVersion;
    case Refusal::kNoSymbols:
      return Discovery::kNoSymbols;
    case Refusal::kTooYoung:
      return Discovery::kTooYoung;
    case Refusal::kSeccomp:
      return Discovery::kSeccomp;
    case Refusal::kOther:
      break;
  }
  return Discovery::kRefused;
}

std::optional<FileVerdict> examine_program(const std::string& path, const std::string& exe,
                                           FileId meant) {
  if (is_loader(exe)) {
    return FileVerdict{true, Discovery::kLoader,
                       absl::StrCat("was started through ", exe,
                                    ", which hides its program; start the program itself")};
  }
  const auto file = ElfFile::open(path, exe);
  // This verdict is final if the file is not a program or is damaged. The exit of a process does
  // not prove anything about its file.
  if (absl::IsFailedPrecondition(file.status()) || absl::IsDataLoss(file.status())) {
    return FileVerdict();
  }
  if (!file.ok()) return std::nullopt;
  if (file_id((*file)->descriptor()->get()) != meant) return std::nullopt;
  const auto program = check_program(**file);
  if (program.ok()) {
    return FileVerdict{true, Discovery::kNoRule,
                       absl::StrCat("OCaml ", program->abi.version, ", named by no --name")};
  }
  const Discovery outcome = discovery_of(program.status());
  return FileVerdict{outcome != Discovery::kNotOcaml, outcome,
                     std::string(program.status().message())};
}

const FileVerdict* ProgramFiles::verdict(const std::string& path, const std::string& exe,
                                         FileId file) {
  auto found = entries_.find(file);
  if (found == entries_.end()) {
    if (entries_.size() >= kMaxFiles || slow_ >= kMaxSlow || new_ >= kMaxNew) {
      ++unread_;
      return nullptr;
    }
    ++new_;
    auto inspection = Inspection<std::optional<FileVerdict>>::start(
        [examine = examine_, path, exe, file](const std::stop_token&) {
          return examine(path, exe, file);
        },
        [] {});
    if (!inspection.ok()) {
      ++unread_;  // too many inspections are running
      return nullptr;
    }
    ++slow_;
    found = entries_.try_emplace(file).first;
    found->second.inspection.emplace(*std::move(inspection));
    wait_a_moment(*found->second.inspection);
  }
  Entry& entry = found->second;
  entry.is_used = true;
  if (entry.inspection) take_result(entry);
  if (!entry.verdict) {
    ++unread_;
    if (!entry.inspection) entries_.erase(found);  // examine it again
    return nullptr;
  }
  return &*entry.verdict;
}

// A file whose inspection exceeds its budget counts as not OCaml.
void ProgramFiles::take_result(Entry& entry) {
  if (entry.inspection->done()) {
    entry.verdict = entry.inspection->take();
  } else if (entry.inspection->over_budget()) {
    entry.verdict.emplace();
  } else {
    return;
  }
  entry.inspection.reset();
  --slow_;
}

std::uint64_t ProgramFiles::end_scan() {
  const bool many = entries_.size() > kMaxFiles / 2;
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = it->second;
    if (entry.inspection && !entry.is_used) take_result(entry);
    const bool used = std::exchange(entry.is_used, false);
    const bool stays = entry.inspection || used || (!many && entry.verdict);
    it = stays ? std::next(it) : entries_.erase(it);
  }
  new_ = 0;
  return std::exchange(unread_, 0);
}

}  // namespace memprofd
