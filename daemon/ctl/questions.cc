// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/questions.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/arguments.h"
#include "daemon/ctl/value_recording.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/api/values_service.h"
#include "daemon/history/snapshot.h"
#include "daemon/trace/replay.h"
#include "daemon/util/shell_word.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

// Works for both kinds of source, whose methods have the same names.
template <typename Source>
class QuestionsTo : public Questions {
 public:
  absl::StatusOr<pb::ListSitesResponse> list_sites(const pb::ListSitesRequest& request) override {
    return source().list_sites(request);
  }
  absl::StatusOr<pb::DiffSitesResponse> diff_sites(const pb::DiffSitesRequest& request) override {
    return source().diff_sites(request);
  }
  absl::StatusOr<pb::ListCallersResponse> list_callers(
      const pb::ListCallersRequest& request) override {
    return source().list_callers(request);
  }
  absl::StatusOr<pb::ListLeaksResponse> list_leaks(const pb::ListLeaksRequest& request) override {
    return source().list_leaks(request);
  }
  absl::StatusOr<pb::GetHistoryResponse> get_history(
      const pb::GetHistoryRequest& request) override {
    return source().get_history(request);
  }
  absl::StatusOr<pb::GetProfileResponse> get_profile(
      const pb::GetProfileRequest& request) override {
    return source().get_profile(request);
  }
  absl::StatusOr<pb::ListTargetsResponse> list_targets() override {
    return source().list_targets();
  }

 private:
  virtual Source& source() = 0;
};

// Number of retries; other questions may need the room each time.
constexpr int kTries = 3;

// Fetches all pages of one answer.
template <typename Request, typename Response, typename Rows>
absl::StatusOr<Response> ask_pages(Questions& source, Request& request,
                                   absl::StatusOr<Response> (Questions::*ask)(const Request&),
                                   Rows* (Response::*rows)()) {
  request.set_page_size(PageLimits::kMaxRows);
  request.clear_page_token();
  ASSIGN_OR_RETURN(Response all, (source.*ask)(request));
  while (!all.next_page_token().empty()) {
    request.set_page_token(all.next_page_token());
    ASSIGN_OR_RETURN(Response page, (source.*ask)(request));
    for (auto& row : *(page.*rows)()) *(all.*rows)()->Add() = std::move(row);
    all.set_next_page_token(page.next_page_token());
  }
  return all;
}

template <typename Request, typename Response, typename Rows>
absl::StatusOr<Response> ask_all(Questions& source, Request request,
                                 absl::StatusOr<Response> (Questions::*ask)(const Request&),
                                 Rows* (Response::*rows)()) {
  absl::StatusOr<Response> all;
  for (int i = 0; i < kTries; ++i) {
    all = ask_pages(source, request, ask, rows);
    if (!absl::IsAborted(all.status())) break;
  }
  return all;
}

class DaemonQuestions : public QuestionsTo<Client> {
 public:
  explicit DaemonQuestions(const Endpoint& endpoint) : client_(endpoint) {}
  void interrupt() override { client_.interrupt(); }
  absl::StatusOr<pb::GetValueHistoryResponse> get_value_history(
      const pb::GetValueHistoryRequest& request) override {
    return client_.get_value_history(request);
  }

 private:
  Client& source() override { return client_; }
  Client client_;
};

class SourceQuestions : public QuestionsTo<QueryService> {
 public:
  explicit SourceQuestions(SnapshotSource& source) : source_(source), queries_(source) {}
  absl::StatusOr<pb::GetValueHistoryResponse> get_value_history(
      const pb::GetValueHistoryRequest& request) override {
    ASSIGN_OR_RETURN(const ProfileSnapshotPtr target, source_.snapshot(request.pid()));
    return value_history(*target, request);
  }

 private:
  QueryService& source() override { return queries_; }
  SnapshotSource& source_;
  QueryService queries_;
};

// The file must exist before the questions, and for as long.
struct File {
  TraceFileSource file;
};
class FileQuestions : private File, public SourceQuestions {
 public:
  explicit FileQuestions(Replay replay)
      : File{TraceFileSource(std::move(replay))}, SourceQuestions(file) {}
};

}  // namespace

absl::StatusOr<pb::ListSitesResponse> all_sites(Questions& source, pb::ListSitesRequest request) {
  return ask_all(source, std::move(request), &Questions::list_sites,
                 &pb::ListSitesResponse::mutable_sites);
}

absl::StatusOr<pb::DiffSitesResponse> all_diffs(Questions& source, pb::DiffSitesRequest request) {
  return ask_all(source, std::move(request), &Questions::diff_sites,
                 &pb::DiffSitesResponse::mutable_diffs);
}

absl::StatusOr<std::unique_ptr<Questions>> ask_file(const std::string& path) {
  ASSIGN_OR_RETURN(Replay replay, replay_trace(path));
  if (const std::string losses = replay.summary.losses(); !losses.empty()) {
    std::fprintf(stderr, "memprofctl: %s: %s\n", path.c_str(), losses.c_str());
  }
  ASSIGN_OR_RETURN(ValueHistoryViewPtr values, read_value_recording(path));
  if (values != nullptr) {
    auto snapshot = std::make_shared<ProfileSnapshot>(*replay.snapshot);
    snapshot->values = std::move(values);
    replay.snapshot = std::move(snapshot);
  }
  return std::make_unique<FileQuestions>(std::move(replay));
}

std::unique_ptr<Questions> ask_daemon(const Endpoint& endpoint) {
  return std::make_unique<DaemonQuestions>(endpoint);
}

std::unique_ptr<Questions> ask_source(SnapshotSource& source) {
  return std::make_unique<SourceQuestions>(source);
}

absl::StatusOr<QuestionTarget> ask(const TargetSpec& target, const Endpoint& endpoint) {
  QuestionTarget asked;
  if (target.file.empty()) {
    asked.source = ask_daemon(endpoint);
  } else {
    const bool is_name = target.file.find_first_of("./") == std::string::npos;
    if (is_name && ::access(target.file.c_str(), F_OK) != 0) {
      return absl::NotFoundError(absl::StrCat(target.file,
                                              " is neither a pid nor a trace file; find the pid "
                                              "with: pgrep -n ",
                                              shell_word(target.file)));
    }
    ASSIGN_OR_RETURN(asked.source, ask_file(target.file));
  }
  asked.pid = target.pid;
  if (asked.pid != 0) return asked;
  ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, asked.source->list_targets());
  ASSIGN_OR_RETURN(asked.pid, choose_pid(0, targets));
  return asked;
}

}  // namespace memprofd::ctl
