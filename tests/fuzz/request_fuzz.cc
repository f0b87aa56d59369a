// SPDX-License-Identifier: Apache-2.0
// Takes arbitrary bytes for the parameters of an HTTP request, "pid=42&pattern=x", asks with them
// all that can be asked, and checks the answers: the same code answers gRPC. The first byte says
// which question it is.
//
// tests/unit/export/http/request_fuzz_test.cc drives it in every build, make fuzz for as long as
// one likes.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "absl/strings/str_split.h"
#include "daemon/export/api/message_json.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/http/request_params.h"
#include "tests/kit/fake_service.h"

namespace memprofd::request_fuzz {

namespace pb = ::memprof::v1;

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "request_fuzz: %s\n", what);
  std::abort();
}

using Parameters = std::multimap<std::string, std::string>;

inline Parameters parameters_of(std::string_view text) {
  Parameters parameters;
  for (const auto piece : absl::StrSplit(absl::string_view(text.data(), text.size()), '&')) {
    const std::pair<std::string, std::string> one = absl::StrSplit(piece, absl::MaxSplits('=', 1));
    if (parameters.size() < 64) parameters.insert(one);
  }
  return parameters;
}

// Whether it makes sense.
template <typename Request, typename Response>
bool ask(QueryService& service, const Parameters& parameters,
         absl::StatusOr<Response> (QueryService::*question)(const Request&)) {
  Request request;
  const absl::Status read = fill_from_params(parameters, request);
  require(read.ok() || absl::IsInvalidArgument(read), "refused for another reason");
  if (!read.ok()) return false;
  const absl::StatusOr<Response> answer = (service.*question)(request);
  require(answer.ok() || !absl::IsInternal(answer.status()), "an internal error");
  if (answer.ok()) require(message_json(*answer, false).ok(), "an answer that is no JSON");
  return answer.ok();
}

inline QueryService& service_of_one_target() {
  static testing::FakeService source({testing::fixed_target()});
  static QueryService service(source);
  return service;
}

inline bool ask(char question, const Parameters& parameters) {
  QueryService& service = service_of_one_target();
  switch (static_cast<unsigned char>(question) % 5) {
    case 0:
      return ask(service, parameters, &QueryService::list_sites);
    case 1:
      return ask(service, parameters, &QueryService::diff_sites);
    case 2:
      return ask(service, parameters, &QueryService::list_callers);
    case 3:
      return ask(service, parameters, &QueryService::list_leaks);
    default:
      return ask(service, parameters, &QueryService::get_history);
  }
}

}  // namespace memprofd::request_fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace memprofd::request_fuzz;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (!input.empty()) ask(input[0], parameters_of(input.substr(1)));
  return 0;
}
