// SPDX-License-Identifier: Apache-2.0
// Requests are answered or refused as invalid, never with an internal error, and each answer can be
// written as JSON. The first byte selects the question; from 128 on protobuf follows, as in gRPC,
// else parameters of an HTTP request, "pid=42&pattern=x".
#include <map>

#include "absl/strings/str_split.h"
#include "daemon/export/api/message_json.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/http/request_params.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/fake_service.h"

namespace memprofd::fuzz {
namespace {

namespace pb = ::memprof::v1;
using Parameters = std::multimap<std::string, std::string>;

Parameters parameters_of(std::string_view text) {
  Parameters parameters;
  for (const auto piece : absl::StrSplit(absl::string_view(text.data(), text.size()), '&')) {
    const std::pair<std::string, std::string> one = absl::StrSplit(piece, absl::MaxSplits('=', 1));
    if (parameters.size() < 64) parameters.insert(one);
  }
  return parameters;
}

template <typename Request>
bool fill(std::string_view text, bool is_protobuf, Request& request) {
  if (is_protobuf) return request.ParseFromArray(text.data(), static_cast<int>(text.size()));
  const absl::Status filled = fill_from_params(parameters_of(text), request);
  require(filled.ok() || absl::IsInvalidArgument(filled), "refused for another reason");
  return filled.ok();
}

QueryService& service_of_one_target() {
  static testing::FakeService source({testing::fixed_target()});
  static QueryService service(source);
  return service;
}

// Returns true if the request is valid.
template <typename Request, typename Ask>
bool ask(std::string_view text, bool is_protobuf, Ask question) {
  Request request;
  if (!fill(text, is_protobuf, request)) return false;
  const auto answer = question(service_of_one_target(), request);
  require(answer.ok() || !absl::IsInternal(answer.status()), "an internal error");
  if (answer.ok()) require(message_json(*answer, false).ok(), "an answer that is no JSON");
  return answer.ok();
}

bool read(std::string_view bytes) {
  if (bytes.empty()) return false;
  const auto first = static_cast<unsigned char>(bytes[0]);
  const bool is_protobuf = first >= 128;
  const std::string_view text = bytes.substr(1);
  using Service = QueryService;
  switch (first % 6) {
    case 0:
      return ask<pb::ListSitesRequest>(text, is_protobuf, std::mem_fn(&Service::list_sites));
    case 1:
      return ask<pb::DiffSitesRequest>(text, is_protobuf, std::mem_fn(&Service::diff_sites));
    case 2:
      return ask<pb::ListCallersRequest>(text, is_protobuf, std::mem_fn(&Service::list_callers));
    case 3:
      return ask<pb::ListLeaksRequest>(text, is_protobuf, std::mem_fn(&Service::list_leaks));
    case 4:
      return ask<pb::GetHistoryRequest>(text, is_protobuf, std::mem_fn(&Service::get_history));
    default:
      return ask<pb::GetProfileRequest>(
          text, is_protobuf,
          [](Service& service, const auto& request) { return service.get_profile(request); });
  }
}

template <typename Request>
std::string as_protobuf(char question, std::string_view parameters) {
  Request request;
  require(fill(parameters, false, request), "a seed cannot be written as protobuf");
  return question + request.SerializeAsString();
}

std::vector<std::string> seeds() {
  const std::string sites = "pid=4242&min_size_bytes=16&heap=major&threads=1&domains=0";
  std::vector<std::string> all{
      std::string(1, 0) +
          "pid=4242&order=allocated&limit=10&pattern=^Sess&require=Request&forbid=C",
      std::string(1, 0) + "pid=4242&last_seconds=300&group_by=callstack&hide=Server&fate=dead",
      std::string(1, 0) + sites + "&source=custom",
      "\1base.pid=4242&other.pid=4242&order=allocated&limit=7&per_second=true",
      "\2pid=4242&function=handle&order=live&min_lifetime_seconds=0.5&limit=3",
      "\3pid=4242&limit=5&group_by=function",
      "\4pid=4242&begin_unix_ns=1&end_unix_ns=1700000300000000000&points=7&measure=live",
      as_protobuf<pb::ListSitesRequest>('\x84', sites)};
  for (const char* format : {"pprof", "collapsed", "speedscope", "html", "flame_json"}) {
    all.push_back(absl::StrCat("\5pids=4242&measure=live&format=", format));
  }
  return all;
}

const Add added("request", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
