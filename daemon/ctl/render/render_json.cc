// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_json.h"

#include "absl/strings/str_cat.h"
#include "daemon/export/api/message_json.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/version.h"
#include "google/protobuf/descriptor.h"

namespace memprofd::ctl {
namespace {

std::string version() { return absl::StrCat("\"api_version\": \"", kApiVersion, "\""); }

// An object without its braces, which is not empty.
std::string inside(const std::string& object) { return object.substr(1, object.size() - 2); }

}  // namespace

absl::StatusOr<std::string> answer_json(const google::protobuf::Message& message) {
  ASSIGN_OR_RETURN(std::string text, message_json(message, true));
  if (message.GetDescriptor()->FindFieldByName("api_version") != nullptr) return text;
  const bool empty = text.find('"') == text.npos;
  return text.insert(1, absl::StrCat("\n ", version(), empty ? "" : ","));
}

absl::StatusOr<std::string> top_json(const TopAnswer& answer) {
  ASSIGN_OR_RETURN(const std::string sites, message_json(answer.sites, false));
  ASSIGN_OR_RETURN(const std::string history, message_json(answer.history, false));
  return absl::StrCat("{", version(), ",", inside(sites), R"(,"history":)", history, "}\n");
}

}  // namespace memprofd::ctl
