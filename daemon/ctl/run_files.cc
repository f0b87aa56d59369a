// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/run_files.h"

#include <cstddef>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/ctl/render/render_json.h"
#include "daemon/trace/recorder.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

constexpr char kTraceEnding[] = ".ctf", kJsonEnding[] = ".json", kFoldedEnding[] = ".folded";

struct FileFormat {
  std::string_view ending;
  const ProfileFormatRow* profile = nullptr;  // null: a trace, or JSON
};

// kInvalidArgument: no format has this ending.
absl::StatusOr<FileFormat> format_of(const std::string& file) {
  for (const ProfileFormatRow& row : profile_formats()) {
    if (absl::EndsWith(file, row.extension)) return FileFormat{row.extension, &row};
  }
  if (absl::EndsWith(file, kFoldedEnding)) {
    return FileFormat{kFoldedEnding, find_profile_format("collapsed")};
  }
  if (absl::EndsWith(file, kTraceEnding)) return FileFormat{kTraceEnding};
  if (absl::EndsWith(file, kJsonEnding)) return FileFormat{kJsonEnding};
  return absl::InvalidArgumentError(
      absl::StrCat("--out ", file, ": unknown extension; use one of ", run_file_endings()));
}

absl::StatusOr<std::string> content_of(Questions& questions, int pid,
                                       const ProfileFormatRow* format) {
  if (format == nullptr) {
    pb::ListSitesRequest request;
    request.set_pid(pid);
    request.set_order(pb::MEASURE_ALLOCATED);
    request.set_with_callstacks(true);
    ASSIGN_OR_RETURN(const pb::ListSitesResponse sites, all_sites(questions, request));
    return answer_json(sites);
  }
  pb::GetProfileRequest request;
  request.add_pids(pid);
  request.set_format(format->proto);
  request.set_measure(pb::MEASURE_ALLOCATED);
  // A range has a duration in pprof. This one begins with the first counts.
  request.mutable_range()->set_begin_unix_ns(1);
  ASSIGN_OR_RETURN(pb::GetProfileResponse response, questions.get_profile(request));
  return std::move(*response.mutable_data());
}

}  // namespace

// A trace that is written while the program runs. The file gets its name when it is complete.
class RunTrace : public TraceOutput {
 public:
  static absl::StatusOr<std::unique_ptr<RunTrace>> create(const std::string& path, int version) {
    ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
    return std::unique_ptr<RunTrace>(new RunTrace(std::move(file), version));
  }
  ~RunTrace() override {
    if (thread_.joinable()) thread_.join();
  }

  absl::Status begin_file() override { return absl::OkStatus(); }
  absl::Status write(std::span<const std::byte> packet) override {
    written_ = file_.write({reinterpret_cast<const char*>(packet.data()), packet.size()});
    return written_;
  }

  absl::Status begin(RunTarget& target) {
    ASSIGN_OR_RETURN(recorder_,
                     TraceRecorder::start(target, target.pid(), *this, {.version = version_}));
    thread_ = std::thread([this] {
      while (recorder_->step()) {
      }
    });
    return absl::OkStatus();
  }
  bool begun() const { return recorder_ != nullptr; }
  // Call after the target's end. A disk that was full meanwhile costs the rest of the trace.
  absl::Status finish() {
    if (thread_.joinable()) thread_.join();
    RETURN_IF_ERROR(file_.finish());
    if (written_.ok()) return absl::OkStatus();
    return absl::Status(written_.code(),
                        absl::StrCat(written_.message(), "; the trace ends where that happened"));
  }

 private:
  RunTrace(NewFile file, int version) : file_(std::move(file)), version_(version) {}

  NewFile file_;
  const int version_;
  absl::Status written_;  // by the thread
  std::unique_ptr<TraceRecorder> recorder_;
  std::thread thread_;
};

RunFiles::RunFiles() = default;
RunFiles::RunFiles(RunFiles&&) noexcept = default;
RunFiles::~RunFiles() = default;

absl::StatusOr<RunFiles> RunFiles::open(const std::vector<std::string>& names, int trace_version) {
  RunFiles files;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const FileFormat format, format_of(name));
    if (format.ending == kTraceEnding) {
      ASSIGN_OR_RETURN(std::unique_ptr<RunTrace> trace, RunTrace::create(name, trace_version));
      files.traces_.push_back(std::move(trace));
    } else {
      ASSIGN_OR_RETURN(NewFile file, NewFile::create(name));
      files.profiles_.push_back({std::move(file), format.profile});
    }
  }
  return files;
}

absl::Status RunFiles::begin(RunTarget& target) {
  for (const auto& trace : traces_) {
    if (!trace->begun()) RETURN_IF_ERROR(trace->begin(target));
  }
  return absl::OkStatus();
}

absl::Status RunFiles::finish(Questions& questions, int pid) {
  absl::Status result;
  for (const auto& trace : traces_) result.Update(trace->finish());
  for (Profile& profile : profiles_) {
    absl::StatusOr<std::string> text = content_of(questions, pid, profile.format);
    absl::Status status = text.status();
    if (status.ok()) status = profile.file.write(*text);
    if (status.ok()) status = profile.file.finish();
    result.Update(status);
  }
  return result;
}

std::string run_file_endings() {
  std::string endings = absl::StrCat(kTraceEnding, ", ", kFoldedEnding, ", ", kJsonEnding);
  for (const ProfileFormatRow& row : profile_formats()) {
    absl::StrAppend(&endings, ", ", row.extension);
  }
  return endings;
}

bool is_trace_file(const std::string& name) { return absl::EndsWith(name, kTraceEnding); }

std::string labelled(const std::string& file, const std::string& label) {
  const absl::StatusOr<FileFormat> format = format_of(file);
  const std::size_t ending = format.ok() ? format->ending.size() : 0;
  const std::size_t end = file.size() - ending;
  return absl::StrCat(file.substr(0, end), ".", label, file.substr(end));
}

}  // namespace memprofd::ctl
