// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_json.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/message_json.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/version.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace memprofd::ctl {
namespace {

std::string version() { return absl::StrCat("\"api_version\": \"", kApiVersion, "\""); }

// Serializes a non-empty object without its braces.
std::string inside(const std::string& object) { return object.substr(1, object.size() - 2); }

using Json = nlohmann::ordered_json;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

Json object_of(const Message& message);

// index: the position in a repeated field.
Json element_of(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection& get = *message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return object_of(get.GetRepeatedMessage(message, field, index));
    case FieldDescriptor::CPPTYPE_STRING:
      return get.GetRepeatedString(message, field, index);
    default:
      return get.GetRepeatedUInt64(message, field, index);
  }
}

Json scalar_of(const Message& message, const FieldDescriptor* field) {
  const Reflection& get = *message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return get.GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return get.GetInt64(message, field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get.GetUInt32(message, field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get.GetUInt64(message, field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return get.GetDouble(message, field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return get.GetBool(message, field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return get.GetEnum(message, field)->name();
    default:
      return get.GetString(message, field);
  }
}

Json object_of(const Message& message) {
  const Reflection& get = *message.GetReflection();
  Json out = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    if (field->is_repeated()) {
      Json& list = out[field->name()] = Json::array();
      for (int n = 0; n < get.FieldSize(message, field); ++n) {
        list.push_back(element_of(message, field, n));
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (get.HasField(message, field))
        out[field->name()] = object_of(get.GetMessage(message, field));
    } else if (field->has_presence() && !get.HasField(message, field)) {
      out[field->name()] = nullptr;
    } else {
      out[field->name()] = scalar_of(message, field);
    }
  }
  return out;
}

}  // namespace

std::string numeric_json(const Message& message) {
  return object_of(message).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

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
