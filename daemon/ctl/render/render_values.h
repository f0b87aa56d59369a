// SPDX-License-Identifier: Apache-2.0
// Values of a program as text: one per line, in the style of OCaml's toplevel.
#pragma once

#include <string>

#include "daemon/ctl/render/render_table.h"
#include "memprof/v1/values.pb.h"

namespace memprofd::ctl {

// before: the same values at an earlier moment, to list the largest growth first; null: list the
// largest values first.
std::string render_values(const ::memprof::v1::ListValuesResponse& values, const Style& style,
                          const ::memprof::v1::ListValuesResponse* before = nullptr);

// "Cache.table" if the name is known, else "Cache[3]".
const std::string& name_of(const ::memprof::v1::NamedValue& named);

// "ref 5", "{1; 2.5; ..}", "Hashtbl of 12 in 16 buckets, 7 empty, longest chain 3", "string of 12
// bytes".
std::string value_text(const ::memprof::v1::Value& value);

// "Values that are larger than 2.0 min before:", and those with the largest growth; empty if there
// are none.
std::string grown_values_text(const ::memprof::v1::ListValuesResponse& before,
                              const ::memprof::v1::ListValuesResponse& after, double seconds);

}  // namespace memprofd::ctl
