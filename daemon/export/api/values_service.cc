// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/values_service.h"

#include "daemon/export/api/request_checks.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

constexpr std::uint32_t kUsualLimit = 1000;
constexpr std::uint32_t kMaxLimit = 100'000;

pb::ValueKind to_proto(ValueKind kind) {
  switch (kind) {
    case ValueKind::kInteger:
      return pb::VALUE_KIND_INTEGER;
    case ValueKind::kFloat:
      return pb::VALUE_KIND_FLOAT;
    case ValueKind::kString:
      return pb::VALUE_KIND_STRING;
    case ValueKind::kFloatArray:
      return pb::VALUE_KIND_FLOAT_ARRAY;
    case ValueKind::kFunction:
      return pb::VALUE_KIND_FUNCTION;
    case ValueKind::kLazy:
      return pb::VALUE_KIND_LAZY;
    case ValueKind::kCustom:
      return pb::VALUE_KIND_CUSTOM;
    case ValueKind::kAbstract:
      return pb::VALUE_KIND_ABSTRACT;
    case ValueKind::kObject:
      return pb::VALUE_KIND_OBJECT;
    case ValueKind::kReference:
      return pb::VALUE_KIND_REFERENCE;
    case ValueKind::kList:
      return pb::VALUE_KIND_LIST;
    case ValueKind::kTable:
      return pb::VALUE_KIND_TABLE;
    case ValueKind::kQueue:
      return pb::VALUE_KIND_QUEUE;
    case ValueKind::kTree:
      return pb::VALUE_KIND_TREE;
    case ValueKind::kBlock:
      return pb::VALUE_KIND_BLOCK;
    case ValueKind::kUnread:
      return pb::VALUE_KIND_UNREAD;
  }
  return pb::VALUE_KIND_UNSPECIFIED;
}

const char* text_of(WhyUnread why) {
  switch (why) {
    case WhyUnread::kNone:
      return "";
    case WhyUnread::kMoving:
      return "the collector was faster at each try";
    case WhyUnread::kChanging:
      return "the program changed it at each try";
    case WhyUnread::kNotMapped:
      return "there is no block";
    case WhyUnread::kDeep:
      return "";  // as what is beyond the first fields
  }
  return "";
}

}  // namespace

pb::Value to_proto(const Value& value) {
  pb::Value out;
  out.set_kind(to_proto(value.kind));
  out.set_integer(value.integer);
  out.set_number(value.number);
  out.set_size(value.size);
  out.set_size_is_least(value.is_longer);
  out.set_tag(value.tag);
  out.set_text(valid_utf8(value.text));
  out.set_is_cut(value.is_cut);
  out.set_buckets(value.buckets);
  out.set_chains_counted(value.chains_counted);
  out.set_empty_buckets(value.empty_buckets);
  out.set_longest_chain(value.longest_chain);
  for (const Value& field : value.fields) *out.add_fields() = to_proto(field);
  out.set_is_changing(value.is_changing);
  out.set_why_unread(text_of(value.why));
  return out;
}

absl::StatusOr<pb::ListValuesResponse> ValuesService::list_values(
    const pb::ListValuesRequest& request, const std::function<bool()>& wanted) {
  RETURN_IF_ERROR(check_pid(request.pid()));
  if (request.limit() > kMaxLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad limit ", request.limit(), ": it is at most ", kMaxLimit));
  }
  const ValuesRequest asked{.pattern = request.pattern(),
                            .with_constants = request.with_constants(),
                            .with_contents = request.with_contents(),
                            .limit = request.limit() == 0 ? kUsualLimit : request.limit()};
  ASSIGN_OR_RETURN(const ValuesAnswer answer, service_.read_values(request.pid(), asked, wanted));
  pb::ListValuesResponse response;
  for (const NamedValue& named : answer.values) {
    pb::NamedValue& out = *response.add_values();
    out.set_module(valid_utf8(named.module));
    out.set_field(named.field);
    out.set_name(valid_utf8(named.name()));
    *out.mutable_value() = to_proto(named.value);
  }
  response.set_fields(answer.fields);
  response.set_left_out(answer.left_out);
  response.set_repeated_reads(answer.repeated);
  response.set_not_reached(answer.not_reached);
  return response;
}

}  // namespace memprofd
