// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/request_params.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/util/status_macros.h"
#include "google/protobuf/descriptor.h"

namespace memprofd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Maximum depth of the search for a field; the messages of the API are no deeper.
constexpr int kMaxDepth = 4;

using Path = std::vector<const FieldDescriptor*>;

bool is_group(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated();
}

// Finds all paths of this depth to a field of that name.
void find_paths(const Descriptor& type, const std::string& name, int depth, Path& way,
                std::vector<Path>& found) {
  if (depth == 1) {
    const FieldDescriptor* field = type.FindFieldByName(name);
    if (field == nullptr || field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return;
    found.push_back(way);
    found.back().push_back(field);
    return;
  }
  for (int i = 0; i < type.field_count(); ++i) {
    if (!is_group(*type.field(i))) continue;
    way.push_back(type.field(i));
    find_paths(*type.field(i)->message_type(), name, depth - 1, way, found);
    way.pop_back();
  }
}

absl::StatusOr<Path> explicit_way(const Descriptor& type, const std::string& name) {
  Path way;
  const Descriptor* at = &type;
  for (const absl::string_view part : absl::StrSplit(name, '.')) {
    const FieldDescriptor* field = at == nullptr ? nullptr : at->FindFieldByName(std::string(part));
    if (field == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("unknown parameter ", name));
    }
    way.push_back(field);
    at = is_group(*field) ? field->message_type() : nullptr;
  }
  if (at != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("parameter ", name, " is not a single value"));
  }
  return way;
}

// "base.filter.pattern"
std::string words_of(const Path& way) {
  return absl::StrJoin(way, ".", [](std::string* out, const FieldDescriptor* field) {
    absl::StrAppend(out, field->name());
  });
}

absl::StatusOr<Path> way_to(const Descriptor& type, const std::string& name) {
  if (name.find('.') != std::string::npos) return explicit_way(type, name);
  for (int depth = 1; depth <= kMaxDepth; ++depth) {
    std::vector<Path> found;
    Path way;
    find_paths(type, name, depth, way, found);
    if (found.size() == 1) return found[0];
    if (found.size() > 1) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", name, " could be ",
                                                     words_of(found[0]), " or ", words_of(found[1]),
                                                     "; give one"));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown parameter ", name));
}

// The value's name, or what follows the prefix that all values share.
const EnumValueDescriptor* find_value(const EnumDescriptor& type, const std::string& text) {
  const std::string name = absl::AsciiStrToUpper(text);
  if (const auto* value = type.FindValueByName(name)) return value;
  const std::string zero = type.value(0)->name();  // "..._UNSPECIFIED"
  const std::string prefix = zero.substr(0, zero.rfind('_') + 1);
  return type.FindValueByName(prefix + name);
}

// Calls set for a single field and add for a repeated one.
template <typename Value>
using Setter = void (Reflection::*)(Message*, const FieldDescriptor*, Value) const;
template <typename Value>
bool store(Message& message, const FieldDescriptor& field, Value value, Setter<Value> set,
           Setter<Value> add) {
  const Reflection& reflection = *message.GetReflection();
  (reflection.*(field.is_repeated() ? add : set))(&message, &field, value);
  return true;
}

template <typename Value, typename Parse>
bool store_number(Message& message, const FieldDescriptor& field, const std::string& text,
                  Parse parse, Setter<Value> set, Setter<Value> add) {
  Value value{};
  return parse(text, &value) && store(message, field, value, set, add);
}

bool set_value(Message& message, const FieldDescriptor& field, const std::string& text) {
  const auto integer = [](const std::string& t, auto* v) { return absl::SimpleAtoi(t, v); };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return store_number<std::int32_t>(message, field, text, integer, &Reflection::SetInt32,
                                        &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return store_number<std::int64_t>(message, field, text, integer, &Reflection::SetInt64,
                                        &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return store_number<std::uint32_t>(message, field, text, integer, &Reflection::SetUInt32,
                                         &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return store_number<std::uint64_t>(message, field, text, integer, &Reflection::SetUInt64,
                                         &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return store_number<double>(
          message, field, text,
          [](const std::string& t, double* v) { return absl::SimpleAtod(t, v); },
          &Reflection::SetDouble, &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool value = true;  // a bare name means yes
      if (!text.empty() && !absl::SimpleAtob(text, &value)) return false;
      return store<bool>(message, field, value, &Reflection::SetBool, &Reflection::AddBool);
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumValueDescriptor* value = find_value(*field.enum_type(), text);
      return value != nullptr &&
             store<const EnumValueDescriptor*>(message, field, value, &Reflection::SetEnum,
                                               &Reflection::AddEnum);
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return store<std::string>(message, field, text, &Reflection::SetString,
                                &Reflection::AddString);
    case FieldDescriptor::CPPTYPE_FLOAT:    // no message has one
    case FieldDescriptor::CPPTYPE_MESSAGE:  // its fields have names of their own
      break;
  }
  return false;
}

}  // namespace

absl::Status fill_from_params(const std::multimap<std::string, std::string>& params,
                              Message& message) {
  for (const auto& [name, text] : params) {
    ASSIGN_OR_RETURN(const Path way, way_to(*message.GetDescriptor(), name));
    Message* at = &message;
    for (std::size_t i = 0; i + 1 < way.size(); ++i) {
      at = at->GetReflection()->MutableMessage(at, way[i]);
    }
    if (!set_value(*at, *way.back(), text)) {
      return absl::InvalidArgumentError(
          absl::StrCat("bad value \"", text, "\" of parameter ", name));
    }
  }
  return absl::OkStatus();
}

}  // namespace memprofd
