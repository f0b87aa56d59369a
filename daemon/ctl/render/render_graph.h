// SPDX-License-Identifier: Apache-2.0
// A value as a graph: shared parts are shown once, and referenced by name elsewhere.
#pragma once

#include <string>

#include "memprof/v1/values.pb.h"

namespace memprofd::ctl {

// Indented; blocks that others hold, too, are numbered:
//
//     {4 fields}
//       "root"
//       #2 {2 fields}        the first time
//         1
//         #2                 again: it goes round
std::string graph_text(const ::memprof::v1::Value& value);

// For Graphviz.
std::string graph_dot(const ::memprof::v1::Value& value);

}  // namespace memprofd::ctl
